"""The real data files, where they are at hand; the expected counts are those of their README and attributes."""

from itertools import pairwise

import h5py
import numpy as np
import pytest

from fedhpc.data.sources.text_file import window_starts, with_single_spaces


def test_mnist_by_writer(shared_data, opened):
    path = str(shared_data / "mnist_by_writer.h5")
    names = {"features": "x_{split}", "label": "y_{split}", "client": "writer_{split}"}
    data = opened({"source": "file", "path": path, "scaling": "unit", **names})
    assert (data.features.shape, data.test_features.shape) == ((60_000, 28, 28), (10_000, 28, 28))
    assert len(data.population) == 539
    assert data.features.max() == 1
    with h5py.File(path) as file:
        writers, images = file["writer_train"][()], file["x_train"][()]
    for client in (0, 100, 538):
        rows = writers == int(data.client_names[client])
        mine = data.features[data.offsets[client] : data.offsets[client + 1]]
        np.testing.assert_array_equal(mine, (images[rows] / 255).astype(np.float32))


def test_two_classes_on_mnist_come_near_fedcores_table_1(shared_data, tmp_path, opened):
    # Table 1 counts all 70,000 images, of which each client's last tenth is held out. Here one image is, since
    # something must be.
    with h5py.File(shared_data / "mnist_by_writer.h5") as file:
        labels = np.concatenate([file["y_train"][()], file["y_test"][()]]).astype(np.int64)
    held_out = np.arange(len(labels)) == 0
    np.savez(tmp_path / "labels.npz", x=labels.astype(np.float32), y=labels, s=held_out.astype(int))
    names = {"features": ["x"], "label": "y", "split": "s", "held_out_value": 1}
    source = {"source": "file", "path": "labels.npz", **names}
    data = opened(source, {"kind": "two_classes", "clients": 1000})
    sizes = data.population.examples
    # 69,035 of a mean of 69 and a deviation of 106; of 40 draws of sigma 1.5 all deviations lie within 80 and 145.
    assert sizes.sum() == pytest.approx(69_035, abs=100)
    assert round(sizes.mean()) == 69
    assert 80 < sizes.std() < 145
    for user in (0, 9, 123):
        assert set(np.flatnonzero(data.class_counts[user])) == {user % 10, (user + 1) % 10}


def test_fashion_mnist_and_cifar10(shared_data, opened):
    for name, shape, training, held_out in (
        ("fashion_mnist_20k", (28, 28), 20_000, 4_000),
        ("cifar10_subset", (3, 32, 32), 8_000, 2_000),
    ):
        file = {"source": "file", "path": str(shared_data / f"{name}.h5")}
        data = opened(file | {"features": "x_{split}", "label": "y_{split}"}, {"kind": "iid", "clients": 7})
        assert (data.shape, len(data.labels), len(data.test_labels)) == (shape, training, held_out)
        assert np.bincount(data.labels).tolist() == [training // 10] * 10
        assert data.features.max() == 255


def test_heart_disease_by_hospital(shared_data, opened):
    file = {"source": "file", "path": str(shared_data / "heart_disease_by_hospital.h5"), "held_out": 0.2}
    names = {"features": "x", "label": "y", "client": "hospital"}
    # FLamby's 740 complete rows are those with no value missing in the first ten features: 303, 261, 46 and 130.
    data = opened(file | names | {"columns": list(range(10)), "drop_missing": True, "scaling": "standard"})
    assert data.population.examples.tolist() == [303 - 61, 261 - 52, 46 - 9, 130 - 26]
    assert len(data.test_labels) == 61 + 52 + 9 + 26
    np.testing.assert_allclose(data.features.mean(axis=0), 0, atol=1e-5)


def test_shakespeare_by_role(shared_data, opened):
    path = shared_data / "shakespeare_roles_pd.h5"
    with h5py.File(path) as file:
        text, offsets, windows = file["text"][()], file["role_offset"][()], file["n_windows80"][()]
    roles = [text[a:b].tobytes() for a, b in pairwise(offsets)]
    found = [sum(map(len, window_starts(len(with_single_spaces(role)), 80, None, 1e-9))) for role in roles]
    assert found == windows.tolist()
    assert sum(found) == 4_160_118

    source = {"source": "text", "path": str(path), "text": "text", "offsets": "role_offset", "limit": 20}
    data = opened(source)
    assert len(data.population) == 1146
    assert data.population.examples.max() <= 18
    assert data.shape == (80,)
    first = "".join(data.class_names[int(code)] for code in data.features[0])
    assert first == "In delivering my son from me, I bury a second husband. What hope is there of his"
    assert data.class_names[data.labels[0]] == " "
