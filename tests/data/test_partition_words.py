import numpy as np
import pytest

from fedhpc.data.partition_words import asked, dealt
from fedhpc.data.settings import IID, ByColumn, ClassPartition, FedScaleMapping, LabelLimited, TwoClasses


def test_what_was_asked_for():
    assert asked(IID(kind="iid", clients=5, each_trial=True)) == "iid"
    assert asked(ByColumn(kind="by_column")) == "by_column"
    assert asked(TwoClasses(kind="two_classes", clients=4)) == "two_classes (least 5, sigma 1.5)"
    assert asked(TwoClasses(kind="two_classes", clients=4, most=50)) == "two_classes (least 5, sigma 1.5, most 50)"
    partition = ClassPartition(kind="class_partition", clients=5, least_classes=2, most_classes=4, empty_clients=True)
    assert asked(partition) == "class_partition (least_classes 2, most_classes 4, mean 10, std 3)"
    limited = LabelLimited(kind="label_limited", clients=5, labels=2, distribution="zipf", examples=60)
    assert asked(limited) == "label_limited (labels 2, examples 60, distribution zipf, exponent 1.95)"
    balanced = LabelLimited(kind="label_limited", clients=5, labels=2, distribution="balanced")
    assert asked(balanced) == "label_limited (labels 2, distribution balanced)"
    assert asked(FedScaleMapping(kind="fedscale", path="/far/away/train.csv")) == "fedscale (path train.csv)"


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ([[1, 2], [0, 9]], "2 clients with 3 to 9 training examples (median 6) of 1 to 2 classes"),
        ([[1, 2], [2, 1]], "2 clients with 3 training examples of 2 classes"),
        ([[1, 0]], "1 client with 1 training example of 1 class"),
        ([[1000, 2000], [0, 0]], "2 clients with 3,000 training examples of 2 classes; 1 of them is empty"),
        ([[0, 0], [0, 0]], "2 clients; 2 of them are empty"),
    ],
)
def test_what_the_clients_got(counts, words):
    assert dealt(np.array(counts)) == words
