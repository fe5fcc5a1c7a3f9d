"""What is learned: a classification task on real clients, or nothing at all."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from fedhpc.data.settings import (
    ByColumn,
    DataFile,
    Digits,
    DrawnPartition,
    FedScaleMapping,
    Partition,
    Source,
    Stragglers,
    Synthetic,
    TextFile,
)
from fedhpc.models.settings import Model, ShakespeareLSTM
from fedhpc.settings import Settings


class Classification(Settings):
    """Cross-entropy on labelled examples. Total accuracy is over all held-out examples, straggler accuracy over those
    of the straggler classes (Hard et al., section 5.1)."""

    kind: Literal["classification"]
    data: Source
    partition: Partition
    stragglers: Stragglers | None = None
    model: Model

    @field_validator("partition")
    @classmethod
    def _clients_come_from_somewhere(cls, partition: Partition, others: ValidationInfo) -> Partition:
        data = others.data.get("data")
        if isinstance(partition, ByColumn) and isinstance(data, Digits):
            raise ValueError("partition.kind: by_column needs data that bring clients along; take iid, say")
        if isinstance(partition, ByColumn) and isinstance(data, DataFile) and data.client is None:
            raise ValueError("data.client: missing; partition.kind by_column needs the column that names the client")
        if isinstance(partition, FedScaleMapping) and data is not None and not isinstance(data, DataFile):
            raise ValueError("partition.kind: fedscale names the rows of a data file; take data of source file, or iid")
        return partition

    @field_validator("stragglers")
    @classmethod
    def _stragglers_are_clients(cls, stragglers: Stragglers | None, others: ValidationInfo) -> Stragglers | None:
        # The clients of a column are known with the data only; there ``prepare`` says the same.
        partition, data = others.data.get("partition"), others.data.get("data")
        if isinstance(partition, ByColumn) and isinstance(data, Synthetic):
            source, clients = "data", data.clients
        elif isinstance(partition, DrawnPartition):
            source, clients = "partition", partition.clients
        else:
            return stragglers
        if stragglers and stragglers.clients > clients:
            raise ValueError(f"stragglers.clients: {stragglers.clients} exceeds {source}.clients {clients}; lower it")
        return stragglers

    @field_validator("model")
    @classmethod
    def _characters_come_from_a_text(cls, model: Model, others: ValidationInfo) -> Model:
        data = others.data.get("data")
        if isinstance(model, ShakespeareLSTM) and data is not None and not isinstance(data, TextFile):
            raise ValueError(f"model.name: {model.name} reads characters; take data of source text, or another model")
        return model

    @property
    def has_stragglers(self) -> bool:
        return self.stragglers is not None

    def data_trial(self, trial: int) -> int:
        """The trial by which a trial's data are drawn: its own, or 0 where all trials have the same data."""
        return trial if isinstance(self.partition, DrawnPartition) and self.partition.each_trial else 0


class NullTask(Settings):
    """Nothing is trained: the schedule alone, for a population whose clients all hold ``examples`` examples. The
    last ``stragglers`` clients are the straggler clients."""

    kind: Literal["null"]
    clients: int = Field(ge=1, le=10**8)
    examples: int = Field(ge=0, le=10**9)
    stragglers: int = Field(0, ge=0)

    @field_validator("stragglers")
    @classmethod
    def _stragglers_are_clients(cls, stragglers: int, others: ValidationInfo) -> int:
        clients = others.data.get("clients", stragglers)
        if stragglers > clients:
            raise ValueError(f"stragglers: {stragglers} exceeds clients {clients}; lower it")
        return stragglers

    @property
    def has_stragglers(self) -> bool:
        return self.stragglers > 0

    def data_trial(self, trial: int) -> int:
        """0: all trials have the same clients."""
        return 0


def _bare_null(value: Any) -> Any:
    # An unquoted null in YAML is no word but nothing; as a task's kind it can only mean the null task.
    if isinstance(value, dict) and "kind" in value and value["kind"] is None:
        return {**value, "kind": "null"}
    return value


Task = Annotated[Classification | NullTask, Field(discriminator="kind"), BeforeValidator(_bare_null)]
