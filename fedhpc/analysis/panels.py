"""How panels stand on a figure: a scenario each, three beside one another at most, so that a page has room."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

MOST_COLUMNS = 3
WIDTH = 9.0  # inches
_CHARACTER = 0.078  # inches, of a legend's name
_HANDLE = 0.65  # inches that a legend's sample of a line takes, and the gap to the next column
_LEGEND_LINE = 0.22  # inches

# Okabe and Ito's colours, which the colour-blind tell apart, less the yellow that white paper swallows.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", ":", "-.")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")


def new_figure(height: float) -> "Figure":
    """A figure as wide as a page, so many inches high."""
    # Not pyplot: it would look for a display and keep every figure.
    from matplotlib.figure import Figure

    return Figure(figsize=(WIDTH, height), dpi=200, layout="constrained")


def scenario_panels(
    scenarios: Sequence[str],
    height: float,
    below: float = 0.0,
    sharex: bool | Literal["all"] = False,
    sharey: bool = True,
) -> "tuple[Figure, list[Axes]]":
    """A panel a scenario, each ``height`` inches high, titled by it, with ``below`` inches for a legend."""
    columns = min(MOST_COLUMNS, len(scenarios))
    rows = -(-len(scenarios) // columns)
    figure = new_figure(rows * height + below)
    grid = figure.subplots(rows, columns, sharex=bool(sharex), sharey=sharey, squeeze=False)
    panels = list(grid.flat)
    for empty in panels[len(scenarios) :]:
        empty.remove()
    for number, panel in enumerate(panels[: len(scenarios)]):
        panel.set_title(scenarios[number], fontsize=11)
        # What shares its axis with a panel above an empty place has labels all the same.
        panel.tick_params(labelbottom=not sharex or number + columns >= len(scenarios))
    return figure, panels[: len(scenarios)]


def is_left(number: int, panels: int) -> bool:
    """Whether the panel of that number stands at the left edge."""
    return number % min(MOST_COLUMNS, panels) == 0


def is_right(number: int, panels: int) -> bool:
    """Whether no panel stands to the right of the one of that number."""
    return (number + 1) % min(MOST_COLUMNS, panels) == 0 or number + 1 == panels


def is_lowest(number: int, panels: int) -> bool:
    """Whether no panel stands under the one of that number."""
    return number + min(MOST_COLUMNS, panels) >= panels


def dress(panel: "Axes") -> None:
    """Grid and spines."""
    panel.grid(color="0.9", linewidth=0.8)
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)


def legend(
    figure: "Figure",
    algorithms: Sequence[str],
    handles: Mapping[str, Any] | None = None,
    place: Literal["lower", "upper"] = "lower",
) -> None:
    """Under the panels, or above them, the algorithms that have a line in one of them; or those that ``handles`` has,
    each with its sample, or a tuple of samples side by side."""
    from matplotlib.legend_handler import HandlerTuple

    if handles is None:
        handles = {
            str(label): handle
            for panel in figure.axes
            for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)
        }
    names = [algorithm for algorithm in algorithms if algorithm in handles]
    if names:
        figure.legend(
            [handles[name] for name in names],
            names,
            loc="outside upper center" if place == "upper" else "outside lower center",
            ncols=_columns(algorithms),
            frameon=False,
            fontsize=9,
            columnspacing=1.2,
            handlelength=4.0 if any(isinstance(handles[name], tuple) for name in names) else None,
            handler_map={tuple: HandlerTuple(ndivide=None)},
        )


def legend_height(algorithms: Sequence[str]) -> float:
    """Inches that ``legend`` takes."""
    return _LEGEND_LINE * -(-len(algorithms) // _columns(algorithms)) + 0.1


def logarithmic_ticks(axis: "Axis", low: float, high: float) -> None:
    """Gives a logarithmic axis that goes from ``low`` to ``high`` ticks that are read at once (0.5, 20, 3,000), a few
    of them however short it is."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    span = high / low
    steps = (1, 1.5, 2, 3, 4, 5, 6, 8) if span < 5 else (1, 2, 5) if span < 100 else (1, 3) if span < 3000 else (1,)
    axis.set_major_locator(LogLocator(subs=steps))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 10 else f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def _columns(names: Sequence[str]) -> int:
    """The most columns of a legend, which is filled from top to bottom, for which the figure is wide enough."""
    for columns in range(len(names), 1, -1):
        lines = -(-len(names) // columns)
        widths = [max(map(len, names[first : first + lines])) for first in range(0, len(names), lines)]
        if sum(_CHARACTER * width + _HANDLE for width in widths) <= WIDTH:
            return columns
    return 1
