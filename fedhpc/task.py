"""What is learned: a classification task on real clients, or nothing at all."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from fedhpc.data.settings import ByColumn, DataFile, Digits, Partition, Source, Stragglers, Synthetic, TextFile
from fedhpc.models.settings import Model
from fedhpc.settings import Settings


class Classification(Settings):
    """Cross-entropy on labelled examples. Total accuracy is over all held-out examples, straggler accuracy over those
    of the straggler classes (Hard et al., section 5.1)."""

    kind: Literal["classification"]
    data: Source
    partition: Partition
    stragglers: Stragglers | None = None
    model: Model

    @model_validator(mode="after")
    def _partition_fits_source(self) -> Self:
        brings_clients = isinstance(self.data, Synthetic | TextFile) or (
            isinstance(self.data, DataFile) and self.data.client is not None
        )
        if isinstance(self.partition, ByColumn) and not brings_clients:
            mend = (
                "take iid or dirichlet"
                if isinstance(self.data, Digits)
                else "name data.client, or take iid or dirichlet"
            )
            raise ValueError(f"partition.kind: by_column needs data that bring clients along; {mend}")
        if (
            self.stragglers
            and not isinstance(self.partition, ByColumn)
            and self.stragglers.clients > self.partition.clients
        ):
            raise ValueError(
                f"stragglers.clients: {self.stragglers.clients} exceeds partition.clients "
                f"{self.partition.clients}; lower it"
            )
        return self

    @property
    def has_stragglers(self) -> bool:
        return self.stragglers is not None


class NullTask(Settings):
    """Nothing is trained: the schedule alone, for a population whose clients all hold ``examples`` examples. The
    last ``stragglers`` clients are the straggler clients."""

    kind: Literal["null"]
    clients: int = Field(ge=1)
    examples: int = Field(ge=0)
    stragglers: int = Field(0, ge=0)

    @model_validator(mode="before")
    @classmethod
    def _bare_null(cls, value: Any) -> Any:
        # An unquoted null in YAML is no word but nothing; here it can only mean this task.
        if isinstance(value, dict) and "kind" in value and value["kind"] is None:
            return {**value, "kind": "null"}
        return value

    @model_validator(mode="after")
    def _stragglers_are_clients(self) -> Self:
        if self.stragglers > self.clients:
            raise ValueError(f"stragglers: {self.stragglers} exceeds clients {self.clients}; lower it")
        return self

    @property
    def has_stragglers(self) -> bool:
        return self.stragglers > 0


Task = Annotated[Classification | NullTask, Field(discriminator="kind")]
