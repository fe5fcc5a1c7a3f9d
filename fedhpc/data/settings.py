"""What a task's data can be: a source, a partition over clients, and the straggler classes."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from fedhpc.settings import Settings


class Digits(Settings):
    """The UCI handwritten digits that scikit-learn ships: 1,797 images of 8x8, ten classes, no clients."""

    source: Literal["digits"]
    held_out: float = Field(0.2, gt=0, lt=1)


class Synthetic(Settings):
    """Synthetic(alpha, beta) of Li et al. 2020 (FedProx), as FedCore uses it: logistic data, one model a client."""

    source: Literal["synthetic"]
    alpha: float = Field(ge=0)
    beta: float = Field(ge=0)
    clients: int = Field(30, ge=1)
    held_out: float = Field(0.1, gt=0, lt=1)
    seed: int = Field(0, ge=0)


class DataFile(Settings):
    """A person's own data: an HDF5, NPZ or CSV file with named columns.

    HDF5 and NPZ hold arrays of equal first dimension; ``features`` names one of them (or a list of columns to stack).
    In a CSV, ``features`` lists columns, or is ``"*"`` for every column not named elsewhere. A file that keeps its
    training and held-out examples in separate arrays (``x_train``, ``x_test``) is named with ``{split}`` in place of
    the word: ``features: x_{split}``. Otherwise ``split`` names a column whose value tells training from held-out
    examples, or ``held_out`` sets a share of every client's examples aside.
    """

    source: Literal["file"]
    path: Path
    features: str | list[str]
    label: str
    client: str | None = None
    split: str | None = None
    held_out_value: str | int | None = None
    held_out: float | None = Field(None, gt=0, lt=1)
    scaling: Literal["none", "unit", "standard"] = "none"
    drop_missing: bool = False


Source = Annotated[Digits | Synthetic | DataFile, Field(discriminator="source")]


class IID(Settings):
    """Examples dealt to clients at random in equal numbers (sizes differ by at most one)."""

    kind: Literal["iid"]
    clients: int = Field(ge=1)


class Dirichlet(Settings):
    """For each class, the shares of the clients are one draw of Dirichlet(concentration) (Yurochkin et al. 2019)."""

    kind: Literal["dirichlet"]
    clients: int = Field(ge=1)
    concentration: float = Field(gt=0)


class ByColumn(Settings):
    """The clients that the data bring along: one client for each value of the source's client column."""

    kind: Literal["by_column"]


Partition = Annotated[IID | Dirichlet | ByColumn, Field(discriminator="kind")]


class Stragglers(Settings):
    """Hard et al., section 4.1: the ``clients`` with the most examples of ``classes`` are the straggler clients, and
    every other client loses its examples of those classes."""

    classes: list[int] = Field(min_length=1)
    clients: int = Field(ge=1)
