"""The Parsl side of fedhpc: an experiment as a DAG of runs, and the ``fedhpc`` command.

In a Parsl program of your own, with a configuration loaded::

    import workflow
    under_way = workflow.sweep("experiment.yaml", folder="results/mine")
    print(under_way.report.result())
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workflow.dag import Sweep, sweep

__all__ = ["Sweep", "sweep"]


def __getattr__(name: str) -> Any:
    # Parsl takes a second to import, and the command that shows help or a run's rank never needs it.
    if name in __all__:
        from workflow import dag

        return getattr(dag, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
