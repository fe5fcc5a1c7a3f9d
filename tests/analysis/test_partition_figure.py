from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from matplotlib.collections import PathCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from fedhpc.analysis.partition_figure import drawn, partition_figure


def names(number: int) -> list[str]:
    return [str(each) for each in range(number)]


def markers(figure: Figure) -> PathCollection:
    return next(each for each in figure.axes[0].collections if isinstance(each, PathCollection))


@pytest.mark.parametrize(("clients", "classes"), [(1, 1), (5, 10), (10, 10), (20, 10), (60, 10), (30, 62)])
def test_a_markers_area_is_the_number_of_examples(clients: int, classes: int) -> None:
    counts = np.random.default_rng(0).integers(0, 50, (clients, classes))
    counts[0, 0] = 0 if counts.size > 1 else 3
    figure = drawn(counts, names(clients), names(classes), "a title")
    places, areas = np.asarray(markers(figure).get_offsets()), markers(figure).get_sizes()
    assert len(places) == np.count_nonzero(counts)
    held = counts[tuple(places.astype(int).T)]
    np.testing.assert_allclose(areas / areas.max(), held / counts.max())
    # The largest two side by side do not touch: a marker's diameter in points, a pitch in points.
    width, height = figure.get_size_inches() * 72
    assert areas.max() ** 0.5 < min(width / clients, height / classes)
    assert (figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()) == ("client", "class")
    assert figure.axes[0].get_title(loc="left") == "a title"


def test_straggler_clients_are_of_another_colour() -> None:
    counts = np.array([[3, 0], [1, 2], [5, 5]])
    figure = drawn(counts, names(3), names(2), "a title", np.array([False, True, False]))
    of_client = dict(
        zip(np.asarray(markers(figure).get_offsets())[:, 0], markers(figure).get_facecolors(), strict=True)
    )
    assert to_hex(of_client[1]) == "#d55e00"
    assert {to_hex(of_client[0]), to_hex(of_client[2])} == {"#0072b2"}
    assert figure.axes[0].get_title(loc="left") == "a title\nin orange the straggler clients"


def test_the_legend_shows_counts_by_their_area() -> None:
    figure = drawn(np.array([[4321, 10], [0, 700]]), names(2), names(2), "")
    legend = figure.axes[0].get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["200", "1,000", "4,000"]
    areas = [handle.get_sizes()[0] for handle in legend.legend_handles]  # type: ignore[union-attr]
    np.testing.assert_allclose(np.divide(areas, markers(figure).get_sizes().max()), np.divide([200, 1000, 4000], 4321))


@pytest.mark.parametrize("clients", [5, 10, 20, 60])
def test_no_text_lies_on_another(clients: int) -> None:
    counts = np.random.default_rng(0).integers(0, 5000, (clients, 10))
    figure = drawn(counts, names(clients), names(10), "class_partition (least_classes 3)\n10 clients")
    figure.draw_without_rendering()
    panel = figure.axes[0]
    legend = panel.get_legend()
    assert legend is not None
    for labels in (panel.get_xticklabels(), panel.get_yticklabels(), legend.get_texts()):
        boxes = [label.get_window_extent() for label in labels if label.get_text()]
        assert not any(one.overlaps(other) for place, one in enumerate(boxes) for other in boxes[:place])
    assert not legend.get_window_extent().overlaps(panel.get_window_extent())
    assert not legend.get_window_extent().overlaps(panel.title.get_window_extent())


def test_names_that_are_too_many_or_too_long_make_room() -> None:
    counts = np.ones((4, 100), int)
    classes = [f"class of the number {each}" for each in range(100)]
    figure = drawn(counts, ["a hospital", "b hospital", "c", "d"], classes, "")
    panel = figure.axes[0]
    figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in panel.get_yticklabels()]
    assert len(boxes) < 100
    assert not any(one.overlaps(other) for one, other in pairwise(boxes))
    assert panel.get_yticklabels()[0].get_text() == "class of the nu…"
    assert panel.get_xticklabels()[0].get_rotation() == 90


def test_many_clients_are_drawn_as_distributions() -> None:
    counts = np.zeros((61, 3), int)
    counts[:40, 0] = 7
    counts[40:60] = [3, 3, 3]  # and one client has nothing
    figure = drawn(counts, names(61), names(3), "a title")
    sizes, classes = figure.axes
    bars = {patch.get_x() + patch.get_width() / 2: patch.get_height() for patch in sizes.patches}
    assert bars == {7: 40, 8: 0, 9: 20}
    assert [patch.get_height() for patch in classes.patches] == [1, 40, 0, 20]
    assert [panel.get_ylabel() for panel in figure.axes] == ["clients", "clients"]
    assert sizes.get_xscale() == "linear"


def test_sizes_far_apart_are_drawn_along_a_logarithmic_axis() -> None:
    counts = np.arange(1, 1001)[:, np.newaxis]
    sizes = drawn(counts, names(1000), ["0"], "").axes[0]
    assert sizes.get_xscale() == "log"
    # Every bar holds the whole numbers within it, each once.
    assert sum(patch.get_height() for patch in sizes.patches) == 1000
    np.testing.assert_allclose(
        [patch.get_height() for patch in sizes.patches], [patch.get_width() for patch in sizes.patches]
    )


@pytest.mark.parametrize(("suffix", "start"), [(".png", b"\x89PNG"), (".PDF", b"%PDF"), (".svg", b"<?xml")])
@pytest.mark.parametrize("clients", [3, 100])
def test_the_file_is_what_its_suffix_says(tmp_path: Path, suffix: str, start: bytes, clients: int) -> None:
    file = tmp_path / f"partition{suffix}"
    partition_figure(np.ones((clients, 2), int), names(clients), names(2), "", file)
    assert file.read_bytes().startswith(start)
    assert [each.name for each in tmp_path.iterdir()] == [file.name]


def test_clients_without_any_example_can_be_drawn() -> None:
    for clients in (3, 100):
        drawn(np.zeros((clients, 2), int), names(clients), names(2), "").draw_without_rendering()
