import pytest
from pydantic import TypeAdapter, ValidationError

from fedhpc.data.settings import ClassPartition, DataFile, Dirichlet, Partition, Stragglers

BOTH = {"source": "file", "path": "d.h5", "features": "x", "label": "y"}


def _sentence(settings, **values):
    with pytest.raises(ValidationError) as error:
        settings(**values)
    return error.value.errors()[0]["msg"]


@pytest.mark.parametrize(
    ("values", "beginning"),
    [
        ({}, "held_out: nothing says which examples are held out; give exactly one of"),
        ({"held_out": 0.2, "split": "s", "held_out_value": 1}, "held_out: split and held_out says which"),
        (
            {"features": "x_{split}", "label": "y_{split}", "held_out": 0.2},
            "held_out: {split} in the columns' names and held_out says which",
        ),
        ({"features": "x_{split}"}, "label: holds no {split}, but other keys do"),
        ({"label": "y_{split}"}, "features: holds no {split}, but other keys do"),
        ({"features": "x_{split}", "label": "y_{split}", "client": "c"}, "client: holds no {split}, but other keys do"),
        ({"split": "s"}, "held_out_value: goes with split, a column"),
        ({"held_out": 0.2, "held_out_value": 1}, "held_out_value: goes with split, a column"),
        ({"held_out": 0.2, "path": "d.txt"}, "path: 'd.txt' is of no known format; known: .csv, .npz, .h5"),
        ({"path": "d.csv", "features": "x_{split}", "label": "y_{split}"}, "label: {split} is for the arrays of HDF5"),
        ({"held_out": 0.2, "features": "*"}, "features: '*' is for CSV files"),
    ],
)
def test_a_file_says_in_one_way_which_examples_are_held_out(values, beginning):
    assert _sentence(DataFile, **BOTH | values).startswith(f"Value error, {beginning}")


@pytest.mark.parametrize(
    "values",
    [
        {"held_out": 0.2},
        {"split": "s", "held_out_value": 1},
        {"features": ["a_{split}", "b_{split}"], "label": "y_{split}", "client": "c_{split}"},
        {"features": "*", "path": "D.CSV", "held_out": 0.2},
    ],
)
def test_each_way_alone_is_right(values):
    DataFile(**BOTH | values)


def test_straggler_classes_are_named_once():
    assert "3 is given twice; name each class once" in _sentence(Stragglers, classes=[3, 1, 3], clients=1)


def test_a_concentration_is_finite_and_positive():
    assert _sentence(Dirichlet, kind="dirichlet", clients=2, concentration=0) == "Input should be greater than 0"


def test_the_fewest_classes_are_no_more_than_the_most():
    told = _sentence(ClassPartition, kind="class_partition", clients=4, least_classes=3, most_classes=2)
    assert told == "Value error, least_classes: 3 exceeds most_classes 2; lower it"


@pytest.mark.parametrize(
    "block",
    [
        {"kind": "iid", "clients": 3},
        {"kind": "dirichlet", "clients": 3, "concentration": 0.5},
        {"kind": "dirichlet", "clients": 3, "concentration": 0.5, "empty_clients": False},
        {"kind": "class_partition", "clients": 3, "least_classes": 1, "most_classes": 2, "mean": 9.0, "std": 2.0},
        {"kind": "dual_dirichlet", "clients": 3, "size_concentration": 3.0, "class_concentration": 0.5},
        {"kind": "dual_dirichlet", "clients": 3, "size_concentration": 3.0, "class_concentration": 1.0}
        | {"empty_clients": True, "each_trial": True},
        {"kind": "two_classes", "clients": 3, "least": 4, "sigma": 1.0, "each_trial": True},
        {"kind": "by_column"},
    ],
)
def test_a_partition_is_written_as_before_its_later_keys_came(block):
    """Results' hashes are of what is written, so that a key's default must add nothing (law 5)."""
    partitions = TypeAdapter(Partition)
    read = partitions.validate_python(block)
    assert partitions.dump_python(read, mode="json") == block
    assert partitions.validate_python(partitions.dump_python(read)) == read
