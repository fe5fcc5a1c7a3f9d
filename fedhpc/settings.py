"""The base of every block of an experiment file: nothing unknown enters, nothing changes afterwards."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class Settings(BaseModel):
    """One block of an experiment file. Unknown keys are refused; a value once read never changes."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_]*$", max_length=64)]
"""A name that becomes a folder: lower-case letters, digits and underscores."""
