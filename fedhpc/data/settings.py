"""What a task's data can be: a source, a partition over clients, and the straggler classes."""

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)

from fedhpc.data.public_settings import PublicSource
from fedhpc.settings import Settings

_SUFFIXES = (".csv", ".npz", ".h5", ".hdf5", ".nc")


class Digits(Settings):
    """The UCI handwritten digits that scikit-learn ships: 1,797 images of 8x8, ten classes, no clients."""

    source: Literal["digits"]
    held_out: float = Field(0.2, gt=0, lt=1)


class Synthetic(Settings):
    """Synthetic(alpha, beta) of Li et al. 2020 (FedProx), as FedCore uses it: logistic data, one model a client."""

    source: Literal["synthetic"]
    alpha: float = Field(ge=0)
    beta: float = Field(ge=0)
    clients: int = Field(30, ge=1, le=10**6)
    held_out: float = Field(0.1, gt=0, lt=1)
    seed: int = Field(0, ge=0, lt=2**32)


class DataFile(Settings):
    """A person's own data: an HDF5, NPZ or CSV file with named columns.

    HDF5 and NPZ hold arrays of equal first dimension; ``features`` names one of them, or lists several to stand side
    by side. In a CSV, ``features`` names columns, or is ``"*"`` for every column not named elsewhere. ``columns``
    picks columns of the features by their number, where not all are wanted. ``client`` names the column of the clients,
    which the partition ``by_column`` takes, ``tag`` that of what straggler clients are known by (``stragglers.tags``),
    which may be the clients' own, and ``sample`` that of the examples' own names, by which a mapping file calls them
    (``fedscale``).

    Held-out examples come in one of three ways. Separate arrays (``x_train``, ``x_test``) are named with ``{split}``
    in place of the word: ``features: x_{split}``. Or ``split`` names a column, and the rows that hold
    ``held_out_value`` there are held out. Or ``held_out`` is the share set aside: of every client's examples where
    the file's own clients are used, else of all examples.

    ``scaling``: ``unit`` divides integers by their type's maximum, and floating-point columns by their largest
    absolute training value; ``standard`` gives each feature mean 0 and deviation 1 over the training examples.
    ``drop_missing`` leaves out the examples with a missing value.
    """

    source: Literal["file"]
    path: Path
    features: str | Annotated[list[str], Field(min_length=1)]
    columns: list[Annotated[int, Field(ge=0)]] | None = Field(None, min_length=1)
    label: str
    client: str | None = None
    tag: str | None = None
    sample: str | None = None
    split: str | None = None
    held_out_value: str | int | None = None
    held_out: float | None = Field(None, gt=0, lt=1)
    scaling: Literal["none", "unit", "standard"] = "none"
    drop_missing: bool = False

    @model_serializer(mode="wrap")
    def _without_what_changes_nothing(self, written: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # So that results from before these keys were there are still those of the same settings (law 5).
        content: dict[str, Any] = written(self)
        for key in ("tag", "sample"):
            if content.get(key, "") is None:
                del content[key]
        return content

    @property
    def feature_names(self) -> list[str]:
        """``features`` as a list."""
        return [self.features] if isinstance(self.features, str) else self.features

    @property
    def templated(self) -> bool:
        """Whether training and held-out examples lie in arrays of their own."""
        return "{split}" in self.label

    @model_validator(mode="after")
    def _format_known(self) -> Self:
        suffix = self.path.suffix.lower()
        if suffix not in _SUFFIXES:
            raise ValueError(f"path: '{self.path.name}' is of no known format; known: {', '.join(_SUFFIXES)}")
        if suffix == ".csv" and self.templated:
            raise ValueError(
                "label: {split} is for the arrays of HDF5 and NPZ files; give split, a column, or held_out"
            )
        if suffix != ".csv" and "*" in self.feature_names:
            raise ValueError("features: '*' is for CSV files; name the array")
        return self

    @model_validator(mode="after")
    def _held_out_in_one_way(self) -> Self:
        named = {"label": [self.label], "features": self.feature_names}
        others = (("client", self.client), ("tag", self.tag), ("sample", self.sample))
        named |= {key: [name] for key, name in others if name}
        templates = {key: "{split}" in name for key, names in named.items() for name in names}
        if any(templates.values()) and not all(templates.values()):
            key = next(key for key, is_template in templates.items() if not is_template)
            raise ValueError(f"{key}: holds no {{split}}, but other keys do; write it in all of them or in none")
        ways = [
            way
            for way, taken in (
                ("{split} in the columns' names", self.templated),
                ("split", self.split is not None),
                ("held_out", self.held_out is not None),
            )
            if taken
        ]
        if len(ways) != 1:
            raise ValueError(
                f"held_out: {' and '.join(ways) or 'nothing'} says which examples are held out; give exactly one of "
                "{split} in the columns' names, split (a column, with held_out_value), or held_out (a share)"
            )
        if (self.split is None) != (self.held_out_value is None):
            raise ValueError("held_out_value: goes with split, a column; name both or neither")
        return self


class TextFile(Settings):
    """Next-character prediction on an HDF5 file of text, one document a client, as LEAF prepares Shakespeare.

    Document i is the bytes ``text[offsets[i]:offsets[i + 1]]``. An example is ``window`` characters, as codes, and its
    label the next one. Windows begin ``stride`` characters apart. ``limit`` keeps at most so many of a document, evenly
    spread. The last ``held_out`` share of a document's windows is held out, and the training windows that reach into it
    are left out.
    """

    source: Literal["text"]
    path: Path
    text: str
    offsets: str
    window: int = Field(80, ge=1, le=10**9)
    stride: int = Field(1, ge=1, le=10**9)
    limit: int | None = Field(None, ge=1, le=10**9)
    held_out: float = Field(0.1, gt=0, lt=1)


Source = Annotated[Digits | Synthetic | DataFile | TextFile | PublicSource, Field(discriminator="source")]


class _Drawn(Settings):
    """A partition that is drawn. With ``each_trial`` every trial has one of its own, drawn from (seed, trial), and
    the tuning runs have theirs; without it all have that of trial 0. Held-out examples are the same in all trials."""

    @model_serializer(mode="wrap")
    def _without_what_changes_nothing(self, written: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # So that results from before these keys were there are still those of the same settings (law 5).
        content: dict[str, Any] = written(self)
        for key in ("each_trial", "empty_clients", "most"):
            if key in content and content[key] == type(self).model_fields[key].default:
                del content[key]
        return content


class IID(_Drawn):
    """Examples dealt to clients at random in equal numbers (sizes differ by at most one)."""

    kind: Literal["iid"]
    clients: int = Field(ge=1, le=10**7)
    each_trial: bool = False


class Dirichlet(_Drawn):
    """For each class, the shares of the clients are one draw of Dirichlet(concentration) (Yurochkin et al. 2019).
    Where ``empty_clients`` is false, all is drawn again until every client has an example."""

    kind: Literal["dirichlet"]
    clients: int = Field(ge=1, le=10**7)
    concentration: float = Field(gt=0, le=1e12)
    empty_clients: bool = True
    each_trial: bool = False


class ClassPartition(_Drawn):
    """Each client holds ``least_classes`` to ``most_classes`` classes, and the clients of a class share its examples
    by draws of normal(``mean``, ``std``) (FedCompass, appendix D.1.1). Unless ``empty_clients``, all is drawn again
    until every client has an example."""

    kind: Literal["class_partition"]
    clients: int = Field(ge=1, le=10**6)
    least_classes: int = Field(ge=1, le=10**6)
    most_classes: int = Field(ge=1, le=10**6)
    mean: float = Field(10.0, gt=0, le=1e12)
    std: float = Field(3.0, ge=0, le=1e12)
    empty_clients: bool = False
    each_trial: bool = False

    @model_validator(mode="after")
    def _least_is_not_above_most(self) -> Self:
        if self.least_classes > self.most_classes:
            raise ValueError(f"least_classes: {self.least_classes} exceeds most_classes {self.most_classes}; lower it")
        return self


class DualDirichlet(_Drawn):
    """One Dirichlet draw says how much each client holds, and one for each client of which classes (FedCompass,
    appendix D.1.2): its alpha_1 is ``size_concentration``, its alpha_2 ``class_concentration``. Unless
    ``empty_clients``, all is drawn again until every client has an example."""

    kind: Literal["dual_dirichlet"]
    clients: int = Field(ge=1, le=10**6)
    size_concentration: float = Field(ge=1e-9, le=1e12)
    class_concentration: float = Field(ge=1e-9, le=1e12)
    empty_clients: bool = False
    each_trial: bool = False


class TwoClasses(_Drawn):
    """Client u holds the classes u mod n and u + 1 mod n, in numbers that FedProx and FedCore call a power law: of
    each ``least`` examples, and a share of what is left of it by a draw of lognormal(0, ``sigma``).

    FedCore's Table 1 (1,000 clients of MNIST's 70,000 images: 69,035, mean 69, deviation 106) is what a ``sigma`` of
    1.5 gives on average. FedProx's published generator draws with 2.0, whose deviation is 130 to 220. Who then would
    hold more than ``most`` examples is given so many, and the others are nobody's.
    """

    kind: Literal["two_classes"]
    clients: int = Field(ge=1, le=10**6)
    least: int = Field(5, ge=1, le=10**9)
    sigma: float = Field(1.5, ge=0, le=10)
    most: int | None = Field(None, ge=1, le=10**9)
    each_trial: bool = False

    @field_validator("most")
    @classmethod
    def _there_is_room_for_the_least(cls, most: int | None, others: ValidationInfo) -> int | None:
        least = others.data.get("least", 0)
        if most is not None and most < 2 * least:
            raise ValueError(f"{most} is below the {least} of each of two classes; raise it or lower least")
        return most


ZIPF_EXPONENT = 1.95
"""RELAY's (section 5.1)."""


class LabelLimited(_Drawn):
    """RELAY's label-limited mapping (Abdelmoniem et al. 2021, section 5.1, D3): each client draws so many ``labels`` of
    its own and then its ``examples`` of them, independently of the others, so that clients may hold the same example.

    ``distribution`` says how many of which label: ``balanced`` equal numbers (L1; they differ by at most one),
    ``uniform`` a label drawn evenly for each example (L2), ``zipf`` one drawn with chances proportional to
    rank^-``exponent`` of the labels in the client's own random order (L3). Without ``examples`` each client holds the
    training examples divided by the clients, rounded down. No client holds an example twice as long as the class has
    enough.
    """

    kind: Literal["label_limited"]
    clients: int = Field(ge=1, le=10**6)
    labels: int = Field(ge=1, le=10**6)
    examples: int | None = Field(None, ge=1, le=10**9)
    distribution: Literal["balanced", "uniform", "zipf"]
    exponent: float | None = Field(None, gt=0, le=100, validate_default=True)
    each_trial: bool = False

    @field_validator("exponent")
    @classmethod
    def _exponent_is_zipfs(cls, exponent: float | None, others: ValidationInfo) -> float | None:
        if others.data.get("distribution") == "zipf":
            return ZIPF_EXPONENT if exponent is None else exponent
        if exponent is not None and "distribution" in others.data:
            raise ValueError(f"{exponent:g} is for distribution zipf; leave it out, or take zipf")
        return exponent


class ByColumn(Settings):
    """The clients that the data bring along: one client for each value of the source's client column."""

    kind: Literal["by_column"]

    @model_validator(mode="before")
    @classmethod
    def _the_data_say_how_many(cls, given: Any) -> Any:
        if isinstance(given, dict) and "clients" in given:
            raise ValueError("partition.clients: by_column has the clients of the data, who say how many; leave it out")
        return given


class FedScaleMapping(Settings):
    """The clients of a mapping file of FedScale (Lai et al. 2022): comma-separated values, a line an example of a
    client, under the heading ``client_id,sample_path,label_name,label_id``. The labels are those of the data.

    A sample is named as in the data's column ``sample``, or by its row's number, from 0, where the data name no such
    column. Held-out examples stay held out, and training examples that the file does not name are nobody's.
    """

    kind: Literal["fedscale"]
    path: Path


DealtPartition = IID | Dirichlet | ClassPartition | DualDirichlet | TwoClasses
"""Of an example there is one client at most."""

DrawnPartition = DealtPartition | LabelLimited
Partition = Annotated[DrawnPartition | ByColumn | FedScaleMapping, Field(discriminator="kind")]


class Stragglers(Settings):
    """Hard et al., section 4.1, in one of its two ways. The ``clients`` with the most examples of ``classes`` are the
    straggler clients, and every other client loses its examples of those classes; a class is given by its number, from
    0 in the labels' order, or by its label where labels are words. Or each client with a training example that bears
    one of ``tags`` is a straggler client, and straggler accuracy is of the held-out examples that bear one."""

    classes: list[Annotated[int, Field(ge=0)] | str] | None = Field(None, min_length=1)
    clients: int | None = Field(None, ge=1, le=10**7)
    tags: list[str] | None = Field(None, min_length=1)

    @model_serializer(mode="wrap")
    def _without_what_changes_nothing(self, written: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # So that results from before there were tags are still those of the same settings (law 5).
        content: dict[str, Any] = written(self)
        return {key: value for key, value in content.items() if value is not None}

    @field_validator("classes", "tags")
    @classmethod
    def _each_once(cls, named: list[Any] | None, info: ValidationInfo) -> list[Any] | None:
        twice = [name for name in named or [] if (named or []).count(name) > 1]
        if twice:
            one = "class" if info.field_name == "classes" else "tag"
            raise ValueError(f"{twice[0]} is given twice; name each {one} once")
        return named

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.tags is not None and (self.classes is not None or self.clients is not None):
            raise ValueError("tags: whoever has one is a straggler client; leave out classes and clients, or tags")
        if self.tags is None and (self.classes is None or self.clients is None):
            raise ValueError("classes: give classes and clients, or tags")
        return self
