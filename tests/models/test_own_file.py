import sys

import pytest

from fedhpc.mistakes import ExperimentError
from fedhpc.models.own_file import find_own, own_sources


def written(folder, **texts):
    for name, text in texts.items():
        file = folder.joinpath(*name.split("__")).with_suffix(".py")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def test_beside_the_experiment_comes_before_where_python_looks(tmp_path, monkeypatch):
    beside, elsewhere = tmp_path / "beside", tmp_path / "elsewhere"
    written(beside, mine="", pack__nets="")
    written(elsewhere, mine="", yours="", whole__init="")
    (elsewhere / "whole" / "init.py").rename(elsewhere / "whole" / "__init__.py")
    monkeypatch.syspath_prepend(elsewhere)
    assert find_own("mine", beside) == beside / "mine.py"
    assert find_own("pack.nets", beside) == beside / "pack" / "nets.py"
    assert find_own("yours", beside) == elsewhere / "yours.py"
    assert find_own("whole", beside) == elsewhere / "whole" / "__init__.py"


@pytest.mark.parametrize(
    ("module", "told"),
    [
        ("missing_one", "there is no module missing_one; put missing_one.py into"),
        ("missing_pack.nets", "put missing_pack/nets.py into"),
        ("numpy.missing_one", "there is no module numpy.missing_one"),
        ("types", "types is the name of one of Python's own modules; rename the file"),
        ("math", "math is the name of one of Python's own modules"),
    ],
)
def test_what_is_nowhere_is_one_sentence(tmp_path, module, told):
    with pytest.raises(ExperimentError) as caught:
        find_own(module, tmp_path)
    (sentence,) = caught.value.mistakes
    assert sentence.startswith("task.model.callable: ")
    assert told in sentence


def test_nothing_is_imported(tmp_path):
    written(tmp_path, loud="raise SystemExit", also="import loud")
    own_sources("also", find_own("also", tmp_path))
    assert "loud" not in sys.modules


def test_sources_are_the_module_and_its_neighbours(tmp_path):
    written(
        tmp_path,
        nets="import torch, layers.dense\nfrom blocks import Block\nimport random",
        blocks="def late():\n    from helper import x",
        helper="import nets",  # a circle
        random="",  # Python's own comes first
        unused="",
        layers__dense="from . import norms\nfrom .norms import nothing\nfrom ..outside import y",
        layers__norms="this is no Python",
    )
    (tmp_path / "layers" / "__init__.py").write_text("")
    found = own_sources("nets", tmp_path / "nets.py")
    assert list(found) == ["blocks", "helper", "layers", "layers.dense", "layers.norms", "nets"]
    assert found["layers"] == tmp_path / "layers" / "__init__.py"


def test_a_file_of_another_name_is_refused(tmp_path):
    written(tmp_path, nets="")
    with pytest.raises(
        ExperimentError, match=r"task\.model\.file: this is no module pack.nets; give the path of pack/nets"
    ):
        own_sources("pack.nets", tmp_path / "nets.py")
