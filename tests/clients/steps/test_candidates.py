from typing import Any

import pytest

from fedhpc.clients.settings import ClientSettings
from fedhpc.clients.steps.candidates import UnfitChoice, candidates
from fedhpc.clients.steps.step_choice import Device, StepChoice, StepWishes
from fedhpc.models.settings import (
    CelebACNN,
    CIFAR10ResNet18,
    Model,
    OwnModule,
    Sent140LSTM,
    ShakespeareLSTM,
    Transformer,
    UNet3D,
)
from fedhpc.optimizers import SGD
from tests.clients.steps.cases import MODELS


def ways(
    model: str,
    device: Device = "cpu",
    updates: int = 20,
    precision: str = "fp32",
    parameters: int = 610,
    within: str | None = None,
    **wishes: Any,
) -> list[StepChoice]:
    client = ClientSettings.model_validate(
        {
            "batch_size": 4,
            "epochs": 3,
            "optimizer": SGD(name="sgd", rate=0.05),
            "precision": precision,
            "within_deadline": within,
        }
    )
    return candidates(MODELS[model], client, device, updates, parameters, StepWishes(**wishes))


def test_without_wishes() -> None:
    # A quarter of 20 updates a stack, so that four ranks can share a server update.
    assert ways("mlp") == [StepChoice(form="dense", clients=5), StepChoice(form="dense", clients=1)]
    assert ways("emnist_cnn") == [StepChoice(form="channels_last"), StepChoice(form="plain")]
    assert ways("mlp", precision="bf16") == ways("emnist_cnn")
    on_gpu = ways("emnist_cnn", "cuda")
    assert [(way.form, way.clients, way.convolution, way.graph) for way in on_gpu] == [
        ("stacked", 5, "patches", True),
        ("stacked", 5, "grouped", True),
        ("stacked", 1, "patches", True),
        ("stacked", 1, "grouped", True),
        ("channels_last", 1, "patches", False),
        ("plain", 1, "patches", False),
    ]
    assert all(way.device == "cuda" and way.deterministic for way in on_gpu)


@pytest.mark.parametrize(
    ("updates", "on_cpu", "on_gpu"), [(1, 1, 1), (4, 1, 1), (5, 2, 2), (128, 32, 32), (129, 32, 33), (1000, 32, 64)]
)
def test_a_stacks_height_follows_the_updates_of_a_server_update(updates: int, on_cpu: int, on_gpu: int) -> None:
    assert ways("logistic", updates=updates)[0].clients == on_cpu
    assert ways("logistic", "cuda", updates)[0].clients == on_gpu


@pytest.mark.parametrize(("parameters", "height"), [(2**19, 32), (2**20, 16), (2**24, 1), (2**30, 1)])
def test_a_stack_of_large_models_is_lower(parameters: int, height: int) -> None:
    # 64 MiB of float32 are 2^24 weights.
    assert ways("logistic", updates=1000, parameters=parameters)[0] == StepChoice(form="dense", clients=height)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("model", ["mlp", "emnist_cnn"])
@pytest.mark.parametrize("form", ["plain", "channels_last", "compiled", "stacked"])
def test_a_form_that_is_wished_for_is_taken(form: str, model: str, device: Device) -> None:
    found = ways(model, device, form=form)
    assert {(way.form, way.device) for way in found} == {(form, device)}
    assert found[0].clients == (5 if form == "stacked" else 1)
    assert all(way.graph == (form == "stacked" and device == "cuda") for way in found)


def test_wishes_override_and_leave_the_ways_that_fit_them() -> None:
    assert ways("mlp", clients=7) == [StepChoice(form="dense", clients=7)]
    assert ways("emnist_cnn", deterministic=False) == [
        StepChoice(form="channels_last", deterministic=False),
        StepChoice(form="plain", deterministic=False),
    ]
    assert {(way.form, way.clients) for way in ways("emnist_cnn", "cuda", clients=4)} == {("stacked", 4)}
    assert {way.form for way in ways("emnist_cnn", "cuda", graph=True)} == {"stacked"}
    assert {way.convolution for way in ways("emnist_cnn", "cuda", form="stacked", convolution="grouped")} == {"grouped"}
    assert not any(way.graph for way in ways("emnist_cnn", "cuda", graph=False))
    assert ways("emnist_cnn", form="stacked", clients=3) == [StepChoice(form="stacked", clients=3)]


@pytest.mark.parametrize(
    ("model", "wishes", "words"),
    [
        ("emnist_cnn", {"form": "dense"}, "form: dense is for logistic and mlp in fp32 on a CPU"),
        ("mlp", {"form": "dense", "precision": "bf16"}, "form: dense is for logistic and mlp in fp32 on a CPU"),
        ("mlp", {"form": "dense", "device": "cuda"}, "form: dense is for logistic and mlp in fp32 on a CPU"),
        ("emnist_cnn", {"form": "plain", "clients": 4}, "clients: plain trains one client at a time; name dense or"),
        ("emnist_cnn", {"clients": 4}, "clients: channels_last trains one client at a time"),
        ("emnist_cnn", {"form": "stacked", "graph": True}, "graph: only stacked steps on a GPU are captured"),
        ("emnist_cnn", {"form": "plain", "graph": True, "device": "cuda"}, "graph: only stacked steps on a GPU"),
        ("mlp", {"graph": True}, "graph: only stacked steps on a GPU are captured; leave it out"),
        ("mlp", {"precision": "tf32"}, "precision: tf32 is for GPUs, and there is none; name fp32 or bf16"),
    ],
)
def test_what_cannot_be_is_refused_in_words(model: str, wishes: dict[str, Any], words: str) -> None:
    with pytest.raises(UnfitChoice, match=words):
        ways(model, **wishes)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("model", [CIFAR10ResNet18(name="cifar10_resnet18"), ShakespeareLSTM(name="shakespeare_lstm")])
def test_what_is_no_tree_of_stackable_layers_trains_one_client_at_a_time(model: Model, device: Device) -> None:
    client = ClientSettings(batch_size=4, steps=3, optimizer=SGD(name="sgd", rate=0.05))
    found = candidates(model, client, device, 20, 610, StepWishes())
    assert [(way.form, way.clients) for way in found] == [("channels_last", 1), ("plain", 1)]
    for form in ("stacked", "compiled"):
        words = f"step.form: {model.name} trains as torch's module, one client at a time; name channels_last or plain"
        with pytest.raises(UnfitChoice, match=words):
            candidates(model, client, device, 20, 610, StepWishes.model_validate({"form": form}))
    with pytest.raises(UnfitChoice, match="one client at a time"):
        candidates(model, client, device, 20, 610, StepWishes(clients=4))


def test_tf32_is_for_gpus() -> None:
    assert ways("mlp", "cuda", precision="tf32")[0].form == "stacked"


def test_coresets_train_by_the_module_or_where_logistic_is_in_closed_form() -> None:
    single = [StepChoice(form="channels_last"), StepChoice(form="plain")]
    assert ways("logistic", within="coreset") == ways("logistic")
    assert ways("mlp", within="coreset") == ways("emnist_cnn", within="coreset") == single
    assert {way.form for way in ways("emnist_cnn", "cuda", within="coreset")} == {"channels_last", "plain"}
    assert ways("mlp", within="fewer_epochs") == ways("mlp")
    for form, told in (
        ("stacked", "stacked does not train"),
        ("compiled", "compiled does not"),
        ("dense", "dense is for"),
    ):
        with pytest.raises(UnfitChoice, match=f"step.form: {told}"):
            ways("mlp", within="coreset", form=form)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_what_a_stack_cannot_compute_trains_as_torchs_module(device: Device) -> None:
    client = ClientSettings(batch_size=4, steps=3, optimizer=SGD(name="sgd", rate=0.05))
    own = OwnModule(name="own", callable="mine:net")
    both = [StepChoice(form="channels_last", device=device), StepChoice(form="plain", device=device)]
    for model in (Transformer(name="transformer"), Sent140LSTM(name="sent140_lstm"), UNet3D(name="unet3d")):
        assert candidates(model, client, device, 20, 610, StepWishes()) == both
    assert candidates(own, client, device, 20, 610, StepWishes()) == both[1:]
    for form in ("dense", "stacked", "compiled", "channels_last"):
        with pytest.raises(UnfitChoice, match="a module of one's own trains as it is"):
            candidates(own, client, device, 20, 610, StepWishes(form=form))


def test_fedbuffs_network_can_be_stacked() -> None:
    client = ClientSettings(batch_size=4, steps=3, optimizer=SGD(name="sgd", rate=0.05))
    (way,) = candidates(CelebACNN(name="celeba_cnn"), client, "cpu", 20, 610, StepWishes(form="stacked"))
    assert way.clients == 5
