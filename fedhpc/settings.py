"""The base of every block of an experiment file: nothing unknown enters, nothing changes afterwards."""

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class Settings(BaseModel):
    """One block of an experiment file. Unknown keys are refused; a value once read never changes."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @classmethod
    def path_fields(cls) -> set[str]:
        """The keys of files and folders, which may be None."""
        return {name for name, field in cls.model_fields.items() if field.annotation in (Path, Path | None)}


Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_]*$", max_length=64)]
"""A name that becomes a folder: lower-case letters, digits and underscores."""
