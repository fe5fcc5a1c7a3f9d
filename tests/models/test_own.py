"""A person's own module: what is made fit, and what is refused in one sentence."""

import sys

import pytest
import torch
from pydantic import ValidationError

from fedhpc.mistakes import ExperimentError
from fedhpc.models.batch_norm import BatchNorm1d
from fedhpc.models.dropout import KeyedDropout
from fedhpc.models.flat import count_statistics, flatten
from fedhpc.models.own import build_own
from fedhpc.models.own_checks import check_own
from fedhpc.models.parameters import parameters_of
from fedhpc.models.settings import OwnModule

HEAD = "import torch\nfrom torch import nn\nfrom torch.nn import functional\n"
NET = HEAD + "def net(shape, classes, width=4):\n    return nn.Sequential({})\n"
FINE = "nn.Flatten(), nn.Linear(6, width), nn.ReLU(), nn.Linear(width, classes)"
SHAPE = (2, 3)


def own(folder, text, called="net", **arguments):
    (folder / "mine.py").write_text(text)
    return OwnModule(name="own", callable=f"mine:{called}", arguments=arguments, file=folder / "mine.py")


def module(body):
    """A class whose forward is ``body``."""
    lines = "\n".join("        " + line for line in body.splitlines())
    return (
        HEAD
        + "class Net(nn.Module):\n"
        + "    def __init__(self, classes):\n        super().__init__()\n        self.last = nn.Linear(6, classes)\n"
        + "        self.other = nn.Linear(2, 2)\n        self.register_buffer('seen', torch.zeros(()))\n"
        + f"    def forward(self, x):\n{lines}\n"
        + "def net(shape, classes):\n    return Net(classes)\n"
    )


def test_it_is_called_with_shape_classes_and_arguments(tmp_path):
    settings = own(tmp_path, NET.format(FINE), width=7)
    built = build_own(settings, SHAPE, 5)
    assert built(torch.zeros(4, 2, 3)).shape == (4, 5)
    assert parameters_of(settings, SHAPE, 5) == 7 * 7 + 8 * 5
    assert built.training
    found = check_own(settings, SHAPE, 5)
    assert found.ends_linearly
    assert not found.statistics


def test_dropout_and_batch_normalisation_are_replaced(tmp_path):
    text = HEAD + (
        "def net(shape, classes):\n    drop = nn.Dropout(0.25)\n    return nn.Sequential(nn.Flatten(), drop, "
        "nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), drop), nn.Dropout(0), nn.LazyLinear(classes))\n"
    )
    settings = own(tmp_path, text)
    _, drop, (_, norm, again), none, _ = build_own(settings, SHAPE, 3)
    assert isinstance(drop, KeyedDropout)
    assert (drop.threshold, none.threshold) == (64, 0)
    assert again is drop
    assert type(norm) is BatchNorm1d
    assert check_own(settings, SHAPE, 3).statistics


def test_an_edited_file_and_another_of_the_same_name_are_read_anew(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    for folder, width in ((one, 3), (two, 5)):
        folder.mkdir()
        (folder / "helper.py").write_text(f"WIDTH = {width}\n")
    text = (
        HEAD
        + "def net(shape, classes):\n    from helper import WIDTH\n"
        + "    return nn.Sequential(nn.Flatten(), nn.Linear(6, WIDTH), nn.Linear(WIDTH, classes))\n"
    )
    settings = [own(folder, text) for folder in (one, two)]
    before = list(sys.path)
    assert [build_own(each, SHAPE, 2)[1].out_features for each in settings] == [3, 5]
    (one / "helper.py").write_text("WIDTH = 1234\n")
    assert build_own(settings[0], SHAPE, 2)[1].out_features == 1234
    assert not {"helper", "mine"} & {*sys.modules}
    assert sys.path == before


def test_a_module_of_a_package_imports_its_neighbours(tmp_path):
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").write_text("")
    (tmp_path / "pack" / "sizes.py").write_text(
        "from dataclasses import dataclass\n@dataclass\nclass Sizes:\n    width: int = 9\n"
    )
    file = tmp_path / "pack" / "nets.py"
    file.write_text(NET.format(FINE) + "from .sizes import Sizes\nclass Wide:\n    pass\n")
    settings = OwnModule(name="own", callable="pack.nets:net", file=file)
    assert build_own(settings, SHAPE, 2)[1].out_features == 4
    assert not {"pack", "pack.nets", "pack.sizes"} & {*sys.modules}


def test_labels_of_places_are_asked_for(tmp_path):
    settings = own(tmp_path, HEAD + "def net(shape, classes):\n    return nn.Linear(3, classes)\n")
    assert check_own(settings, SHAPE, 5, (2,)).ends_linearly
    with pytest.raises(ExperimentError, match=r"torch.float32 of the shape \[2, 5\]"):
        check_own(settings, SHAPE, 5)


def test_coresets_are_told_where_logits_are_no_linear_layers_output(tmp_path):
    assert not check_own(
        own(
            tmp_path,
            module("return self.last(x.flatten(1)) * 2 + 0 * self.other.weight.sum() + 0 * self.other.bias.sum()"),
        ),
        SHAPE,
        3,
    ).ends_linearly


ALL = "self.last(x.flatten(1)) + 0 * self.other.weight.sum() + 0 * self.other.bias.sum()"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("def net(:", "importing mine raises SyntaxError"),
        ("import not_there_at_all", "importing mine raises ModuleNotFoundError: No module named 'not_there_at_all'"),
        ("raise SystemExit", "importing mine raises SystemExit"),
        ("def nets(shape, classes): pass", "mine has no net; did you mean 'nets'?"),
        ("net = 3", "mine:net is no function but a int"),
        ("def net(shape): pass", "mine:net raises TypeError: net() takes 1 positional argument but 2 were given"),
        (
            "def net(shape, classes):\n    raise KeyError('x')",
            "mine:net raises KeyError: 'x', called with the shape (2, 3)",
        ),
        ("def net(shape, classes): return 3", "mine:net returns no torch module but a int"),
        (NET.format("nn.Linear(5, classes)"), "its module raises RuntimeError"),
        (NET.format("nn.Flatten()"), "its module has no parameters"),
        (
            NET.format(FINE + ", nn.Dropout(0.1)"),
            "nn.Dropout(0.1) is no multiple of 1/256, by which fedhpc draws; take nn.Dropout(26 / 256)",
        ),
        (NET.format(FINE + ", nn.AlphaDropout(0.5)"), "AlphaDropout draws from torch's own generator"),
        (
            NET.format("nn.Linear(3, classes)"),
            "for 2 examples of the shape [2, 3] its module returns torch.float32 of the shape [2, 2, 3]",
        ),
        (
            module("return self.last.double()(x.double().flatten(1)).float()"),
            "its parameter last.weight is torch.float64 on cpu; leave it torch.float32 on the CPU",
        ),
        (NET.format(FINE + ").requires_grad_(False"), "its parameter 1.weight is frozen"),
        (
            NET.format("nn.Flatten(), nn.BatchNorm1d(6, momentum=None), nn.Linear(6, classes)"),
            "its layer 1 averages over all batches",
        ),
        (
            NET.format("nn.Flatten(), nn.BatchNorm1d(6, track_running_stats=False), nn.Linear(6, classes)"),
            "its module cannot train on a batch of 1 example: ValueError: Expected more than 1 value per channel",
        ),
        (
            module("return functional.dropout(" + ALL + ", 0.5, self.training)"),
            "its module draws from torch's own generator as it trains",
        ),
        (
            module("import random\nreturn random.random() * (" + ALL + ")"),
            "its module gives other numbers for the same examples at its second call",
        ),
        (
            module("self.calls = getattr(self, 'calls', 0) + 1\nreturn (" + ALL + ") / self.calls"),
            "its module gives other numbers for the same examples at its second call",
        ),
        (module("x.mul_(2)\nreturn " + ALL), "its module changes the examples that it is given"),
        (module("raise SystemExit(0)"), "its module raises SystemExit: 0 for a batch of 2 examples"),
        (
            module("if self.training: raise SystemExit\nreturn " + ALL),
            "its module cannot train on a batch of 2 examples: SystemExit",
        ),
        (
            module("return " + ALL).replace(
                "nn.Linear(2, 2)", "nn.Linear(2, 2).apply(lambda one: one.bias.data.fill_(torch.nan))"
            ),
            "its parameter other.bias begins as NaN or infinite",
        ),
        (module("return self.last(x.flatten(1))"), "its parameter other.weight has no part in the result"),
        (module("self.seen += 1\nreturn " + ALL), "its buffer seen changes as it trains"),
        (module("return (" + ALL + ").double()"), "its module returns torch.float64 of the shape [2, 3]"),
        (module("return [" + ALL + "]"), "its module returns no tensor but a list"),
        (
            module("return " + ALL).replace("torch.zeros(())", "torch.tensor(__import__('random').random())"),
            "two modules built after the same torch.manual_seed differ",
        ),
    ],
)
def test_what_cannot_be_trained_is_one_sentence(tmp_path, text, told):
    before = torch.get_rng_state()
    with pytest.raises(ExperimentError) as caught:
        check_own(own(tmp_path, text), SHAPE, 3)
    (sentence,) = caught.value.mistakes
    assert sentence.startswith("task.model.callable: ")
    assert told in sentence
    assert "\n" not in sentence
    assert caught.value.path == tmp_path / "mine.py"
    assert torch.equal(torch.get_rng_state(), before)


def test_a_constant_buffer_is_no_part_of_the_vector(tmp_path):
    settings = own(tmp_path, module("return " + ALL + " + self.seen"))
    built = build_own(settings, SHAPE, 3)
    assert count_statistics(built) == 0
    assert len(flatten(built)) == 7 * 3 + 3 * 2


@pytest.mark.parametrize("named", ["net.make", "net.py", "net.py:make()", ":make", "net:"])
def test_what_is_no_module_and_function_is_told(named: str) -> None:
    with pytest.raises(ValidationError, match="is no module:function; for the function make"):
        OwnModule(name="own", callable=named)
