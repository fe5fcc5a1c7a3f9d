"""What is learned on real clients: classes, next words or segments; or nothing at all."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)

from fedhpc.budget import Accuracy
from fedhpc.data.public_settings import IDX, LEAF, TFF, CIFARBinary, FLamby
from fedhpc.data.settings import (
    IID,
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
from fedhpc.models.settings import (
    Model,
    OwnModule,
    Sent140LSTM,
    ShakespeareLSTM,
    StackOverflowLSTM,
    Transformer,
    UNet3D,
)
from fedhpc.settings import Settings

Labelled = Literal["examples", "tokens", "voxels"]
"""What bears the labels: an example one, or each of its tokens or voxels."""

_WORDS = {"examples": "each example", "tokens": "each next token", "voxels": "each voxel"}
_MENDS: dict[tuple[Labelled, Labelled], str] = {
    ("tokens", "examples"): "take kind next_words, or other data",
    ("voxels", "examples"): "take kind segmentation, or other data",
    ("examples", "tokens"): "take kind classification, or source tff, dataset stackoverflow",
    ("voxels", "tokens"): "take kind segmentation, or source tff, dataset stackoverflow",
    ("examples", "voxels"): "take kind classification, or source flamby, dataset ixi",
    ("tokens", "voxels"): "take kind next_words, or source flamby, dataset ixi",
}
"""By what the data have labels of and what the task takes them of."""


def labels_of(data: Source) -> Labelled:
    """What the data have labels of."""
    if isinstance(data, TFF) and data.dataset == "stackoverflow":
        return "tokens"
    return "voxels" if isinstance(data, FLamby) and data.dataset == "ixi" else "examples"


def scores_of(model: Model) -> Labelled | None:
    """What the model scores the classes of; None for a person's own, which has to be tried."""
    match model:
        case OwnModule():
            return None
        case StackOverflowLSTM() | Transformer():
            return "tokens"
        case UNet3D():
            return "voxels"
        case _:
            return "examples"


class Pictures(Settings):
    """What is done to pictures, [height, width] or [height, width, channels], when they are used. In training, a
    random ``crop`` by ``crop`` part is taken (drawn by the participation's own stream), and half of them are flipped
    left to right; in evaluation the middle part, unflipped. ``standardize`` then gives each picture mean 0 and
    deviation 1. (Hard et al. and Reddi et al. 2021 on CIFAR-100: 24, both.) Or ``mean`` is taken away, and divided by
    ``deviation``, a number each channel or one for all: those of the whole data set, say (FedBuff, appendix B.1)."""

    crop: int | None = Field(None, ge=1, le=4096)
    flip: bool = False
    standardize: bool = False
    mean: list[float] | None = Field(None, min_length=1)
    deviation: list[Annotated[float, Field(gt=0)]] | None = Field(None, min_length=1)

    @model_validator(mode="after")
    def _on_one_scale_in_one_way(self) -> Self:
        if (self.mean is None) != (self.deviation is None):
            raise ValueError("deviation: goes with mean; name both or neither")
        if self.mean is not None and self.deviation is not None and len(self.mean) != len(self.deviation):
            raise ValueError(f"deviation: has {len(self.deviation)} numbers, mean {len(self.mean)}; one each a channel")
        if self.mean is not None and self.standardize:
            raise ValueError("standardize: gives each picture a scale of its own; leave it out, or mean and deviation")
        return self

    @model_serializer(mode="wrap")
    def _without_what_changes_nothing(self, written: SerializerFunctionWrapHandler) -> dict[str, Any]:
        content: dict[str, Any] = written(self)
        return {key: value for key, value in content.items() if value not in (None, False)}

    def cropped(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of what is used of pictures of ``shape``."""
        return shape if self.crop is None else (self.crop, self.crop, *shape[2:])


Extra = Literal["top5_accuracy", "balanced_accuracy"]


class Learning(Settings):
    """What every task that trains has. ``pictures``: how they are changed. Total accuracy is over all held-out
    examples, straggler accuracy over those of the straggler classes or tags (Hard et al., section 5.1)."""

    learns: ClassVar[Labelled] = "examples"
    """What it takes labels of."""

    kind: Literal["classification", "next_words", "segmentation"]
    data: Source
    partition: Partition
    stragglers: Stragglers | None = None
    model: Model

    @field_validator("data")
    @classmethod
    def _data_are_labelled_for_it(cls, data: Source) -> Source:
        labelled = labels_of(data)
        if labelled == cls.learns:
            return data
        of = f"{data.source}, dataset {data.dataset}," if isinstance(data, TFF | FLamby) else data.source
        raise ValueError(f"source: {of} labels {_WORDS[labelled]}; {_MENDS[labelled, cls.learns]}")

    @field_validator("partition")
    @classmethod
    def _clients_come_from_somewhere(cls, partition: Partition, others: ValidationInfo) -> Partition:
        data = others.data.get("data")
        if isinstance(partition, ByColumn) and isinstance(data, Digits | CIFARBinary):
            raise ValueError("partition.kind: by_column needs data that bring clients along; take iid, say")
        if isinstance(partition, ByColumn) and isinstance(data, IDX) and data.writers is None:
            raise ValueError("data.writers: missing; partition.kind by_column needs the file of the digits' writers")
        if isinstance(partition, ByColumn) and isinstance(data, DataFile) and data.client is None:
            raise ValueError("data.client: missing; partition.kind by_column needs the column that names the client")
        if isinstance(partition, FedScaleMapping) and data is not None and not isinstance(data, DataFile):
            raise ValueError("partition.kind: fedscale names the rows of a data file; take data of source file, or iid")
        if cls.learns != "examples" and isinstance(partition, DrawnPartition) and not isinstance(partition, IID):
            told = f"{partition.kind} deals examples by their labels, of which these have many each"
            raise ValueError(f"partition.kind: {told}; take by_column or iid")
        return partition

    @field_validator("stragglers")
    @classmethod
    def _stragglers_can_be_told(cls, stragglers: Stragglers | None, others: ValidationInfo) -> Stragglers | None:
        data = others.data.get("data")
        if stragglers and stragglers.tags is not None:
            match data:
                case DataFile(tag=None):
                    raise ValueError("data.tag: missing; stragglers.tags needs the column that holds them")
                case DataFile() | TFF(dataset="cifar100" | "stackoverflow") | None:
                    pass
                case _:
                    told = "only a file's column and tff's cifar100 and stackoverflow have tags"
                    raise ValueError(f"stragglers.tags: {told}; take classes and clients")
        if stragglers and stragglers.classes is not None and cls.learns != "examples":
            raise ValueError("stragglers.classes: an example here has many labels; take tags, or leave stragglers out")
        return stragglers

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
        if stragglers and stragglers.clients is not None and stragglers.clients > clients:
            raise ValueError(f"stragglers.clients: {stragglers.clients} exceeds {source}.clients {clients}; lower it")
        return stragglers

    @field_validator("model")
    @classmethod
    def _characters_come_from_a_text(cls, model: Model, others: ValidationInfo) -> Model:
        data = others.data.get("data")
        of_leaf = data.dataset if isinstance(data, LEAF) else None
        if data is None:
            return model
        if isinstance(model, ShakespeareLSTM) and not isinstance(data, TextFile) and of_leaf != "shakespeare":
            mend = "take data of source text, or of source leaf, dataset shakespeare, or another model"
            raise ValueError(f"model.name: {model.name} reads characters; {mend}")
        if isinstance(model, Sent140LSTM) and of_leaf != "sent140":
            mend = "take data of source leaf, dataset sent140, or another model"
            raise ValueError(f"model.name: {model.name} reads words; {mend}")
        return model

    @field_validator("model")
    @classmethod
    def _model_scores_what_is_labelled(cls, model: Model) -> Model:
        scores = scores_of(model)
        if scores in (cls.learns, None):
            return model
        mend = {"examples": "name another", "tokens": "name stackoverflow_lstm or transformer", "voxels": "name unet3d"}
        raise ValueError(
            f"model.name: {model.name} scores {_WORDS[scores]}, and the task's labels are those of "
            f"{_WORDS[cls.learns]}; {mend[cls.learns]}"
        )

    @property
    def has_stragglers(self) -> bool:
        return self.stragglers is not None

    @property
    def accuracies(self) -> list[Accuracy]:
        """What an evaluation measures, as a share of 1: what may be a target, or be tuned for."""
        return ["total_accuracy", "straggler_accuracy"] if self.has_stragglers else ["total_accuracy"]

    def model_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """An example's shape as the model takes it, of ``shape`` in the data."""
        return shape

    @property
    def files(self) -> dict[str, Path]:
        """The files and folders that it names, by the keys of their paths: ``data.train``, say."""
        return {
            f"{key}.{name}": value
            for key in ("data", "partition", "model")
            for name, value in getattr(self, key)
            if isinstance(value, Path)
        }

    @property
    def places_of_files(self) -> dict[str, set[str]]:
        """The keys of paths, as ``model_dump`` leaves them out: where a file lies is no part of what it holds. A path
        that is not given is left out too, as if its key had never been."""
        parts = {"data": self.data, "partition": self.partition, "model": self.model}
        return {key: part.path_fields() for key, part in parts.items()}

    def with_files(self, found: Mapping[str, Path]) -> Self:
        """The same with these paths, by their keys, in the place of its own."""
        moved = {}
        for key in ("data", "partition", "model"):
            own = {place.partition(".")[2]: path for place, path in found.items() if place.partition(".")[0] == key}
            moved[key] = getattr(self, key).model_copy(update=own)
        return self.model_copy(update=moved)

    def data_trial(self, trial: int) -> int:
        """The trial by which a trial's data are drawn: its own, or 0 where all trials have the same data."""
        return trial if isinstance(self.partition, DrawnPartition) and self.partition.each_trial else 0


class Classification(Learning):
    """Cross-entropy on examples with a label each. ``metrics``: what is measured beside total and straggler accuracy:
    ``top5_accuracy``, and ``balanced_accuracy``, the mean over the classes of each one's accuracy."""

    kind: Literal["classification"]
    pictures: Pictures | None = None
    metrics: list[Extra] = Field(default_factory=list)

    @field_validator("metrics")
    @classmethod
    def _each_once(cls, metrics: list[Extra]) -> list[Extra]:
        if len(set(metrics)) < len(metrics):
            raise ValueError("metrics: one is named twice; name each once")
        return metrics

    @property
    def accuracies(self) -> list[Accuracy]:
        return [*super().accuracies, *self.metrics]

    def model_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape if self.pictures is None else self.pictures.cropped(shape)

    @model_serializer(mode="wrap")
    def _without_what_changes_nothing(self, written: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # So that results from before these keys were there are still those of the same settings (law 5).
        content: dict[str, Any] = written(self)
        if content.get("pictures", "") is None:
            del content["pictures"]
        if content.get("metrics", "") == []:
            del content["metrics"]
        return content


class NextWords(Learning):
    """Cross-entropy on each next token of a sentence, the padding left out. Accuracies are of the words in the
    vocabulary: padding, the end and unknown words do not count (Hard et al., section 5.1). Perplexity is exp(loss), and
    the loss is the mean over tokens."""

    learns: ClassVar[Labelled] = "tokens"

    kind: Literal["next_words"]


class Segmentation(Learning):
    """A label for each voxel. The loss is FLamby's for Fed-IXI, 1 less the Dice score of the class probabilities;
    ``dice`` is that score, total accuracy that of the voxels."""

    learns: ClassVar[Labelled] = "voxels"

    kind: Literal["segmentation"]

    @property
    def accuracies(self) -> list[Accuracy]:
        return [*super().accuracies, "dice"]


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

    @property
    def accuracies(self) -> list[Accuracy]:
        """None: nothing is learned."""
        return []

    def data_trial(self, trial: int) -> int:
        """0: all trials have the same clients."""
        return 0


def _bare_null(value: Any) -> Any:
    # An unquoted null in YAML is no word but nothing; as a task's kind it can only mean the null task.
    if isinstance(value, dict) and "kind" in value and value["kind"] is None:
        return {**value, "kind": "null"}
    return value


Task = Annotated[
    Classification | NextWords | Segmentation | NullTask, Field(discriminator="kind"), BeforeValidator(_bare_null)
]
