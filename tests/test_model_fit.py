"""Whether a model goes with its data, told before a run; and what a file of weights does to what a run begins with."""

from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from fedhpc.clients.local_training import LocalTraining
from fedhpc.clients.settings import ClientSettings
from fedhpc.clients.steps.step_choice import StepChoice
from fedhpc.data.federated import FederatedData, open_prepared, open_shape
from fedhpc.data.preparation import fingerprint, prepare
from fedhpc.federation.schedulers.synchronous import SynchronousSettings
from fedhpc.mistakes import ExperimentError
from fedhpc.model_fit import model_mistakes
from fedhpc.models.settings import EfficientNet, Model, OwnModule, Sent140LSTM, UNet3D
from fedhpc.optimizers import SGD
from fedhpc.task import Classification

WORDS = ("<padding>", "good", "<unknown>")
CLIENT = ClientSettings(batch_size=4, steps=1, optimizer=SGD(name="sgd", rate=0.1))


def mistakes(model: Model, shape: tuple[int, ...], words: tuple[str, ...] = (), **client: object) -> list[str]:
    own = CLIENT.model_copy(update=client)
    algorithm = SynchronousSettings.model_construct(scheduler="synchronous", client=own)
    return model_mistakes(model, shape, (), ("0", "1"), words, [("fedcore", algorithm)])


def test_shapes_come_first(tmp_path: Path) -> None:
    (told,) = mistakes(UNet3D(name="unet3d"), (5, 5, 5))
    assert "takes volumes" in told
    (told,) = mistakes(Sent140LSTM(name="sent140_lstm", vectors=tmp_path / "missing"), (25,))
    assert "the data do not say which" in told


def test_files_of_weights_are_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("good 1 2 3\n")
    with pytest.raises(ExperimentError, match="line 1 has 3 numbers, and the model's words have 300"):
        mistakes(Sent140LSTM(name="sent140_lstm", vectors=tmp_path / "file"), (25,), WORDS)
    with pytest.raises(ExperimentError, match="no whole file of tensors by name"):
        mistakes(EfficientNet(name="efficientnet_b0", weights=tmp_path / "file"), (9, 9, 3))
    assert mistakes(Sent140LSTM(name="sent140_lstm"), (25,), WORDS) == []


def test_coresets_of_ones_own_model_need_a_last_layer(tmp_path: Path) -> None:
    head = "from torch import nn\ndef net(shape, classes):\n    return nn.Sequential(nn.Flatten(), "
    (tmp_path / "ends.py").write_text(head + "nn.Linear(4, classes))")
    (tmp_path / "goes_on.py").write_text(head + "nn.Linear(4, classes), nn.Tanh())")
    for name, count in (("ends", 0), ("goes_on", 1)):
        own = OwnModule(name="own", callable=f"{name}:net", file=tmp_path / f"{name}.py")
        found = mistakes(own, (2, 2), within_deadline="coreset")
        assert len(found) == count
        assert mistakes(own, (2, 2)) == []
    assert found[0].startswith("algorithms.fedcore.client.within_deadline: coresets go by the last fully connected")


def test_a_run_begins_with_the_files_vectors(tmp_path: Path) -> None:
    (tmp_path / "glove.txt").write_text("good " + " ".join(["0.25"] * 300) + "\n")
    data = FederatedData(
        features=np.ones((4, 3), np.float32),
        labels=np.arange(4) % 2,
        offsets=np.array([0, 4]),
        stragglers=np.zeros(1, bool),
        straggler_classes=np.empty(0, np.int64),
        test_features=np.ones((2, 3), np.float32),
        test_labels=np.arange(2),
        classes=2,
        client_names=("0",),
        class_names=("0", "1"),
        words=WORDS,
    )
    starts = []
    for vectors in (None, tmp_path / "glove.txt"):
        model = Sent140LSTM(name="sent140_lstm", vectors=vectors)
        starts.append(LocalTraining(model, CLIENT, data, 1, 0, StepChoice(form="plain")).initial_weights())
    assert (starts[1][300:600] == 0.25).all()
    assert (starts[1][:300] == starts[0][:300]).all()
    assert (starts[1][600:] == starts[0][600:]).all()


def test_what_a_file_of_weights_holds_is_part_of_the_fingerprint_and_not_its_place(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("x,y\n" + "".join(f"{n},{n % 2}\n" for n in range(8)))
    found = []
    for name, content in (("a.txt", "one"), ("b.txt", "one"), ("c.txt", "two")):
        (tmp_path / name).write_text(content)
        task = Classification.model_validate(
            {
                "kind": "classification",
                "data": {"source": "file", "path": "data.csv", "features": ["x"], "label": "y", "held_out": 0.5},
                "partition": {"kind": "iid", "clients": 2},
                "model": {"name": "efficientnet_b0", "weights": name},
            }
        )
        found.append(fingerprint(task, tmp_path))
    assert found[0] == found[1] != found[2]
    # The prepared data are the same in any case. Words are there where the source knows them.
    prepared = prepare(task, 0, tmp_path, tmp_path / "data")
    assert open_prepared(prepared).words == ()
    assert open_shape(prepared) == ((1,), 2, 0)
    with h5py.File(prepared, "a") as file:
        file["words"] = np.char.encode((*WORDS, "\u00e9t\u00e9"), "utf-8")
    assert open_prepared(prepared).words == (*WORDS, "\u00e9t\u00e9")
    assert open_shape(prepared) == ((1,), 2, 4)


def test_nothing_is_drawn_from_the_common_generator(tmp_path: Path) -> None:
    (tmp_path / "ends.py").write_text(
        "from torch import nn\ndef net(shape, classes):\n    return nn.Linear(4, classes)"
    )
    before = torch.get_rng_state()
    assert mistakes(OwnModule(name="own", callable="ends:net", file=tmp_path / "ends.py"), (4,)) == []
    assert torch.equal(torch.get_rng_state(), before)
