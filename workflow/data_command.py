"""``fedhpc data``: what data sets the papers use, where they come from, and what an experiment makes of them."""

import sys
from pathlib import Path
from typing import Annotated

import typer

data_app = typer.Typer(no_args_is_help=True, help="Data sets: what there is, how to get it, what is in it.")


def resolvable(path: Path | None) -> Path | None:
    """Refuses a path that symbolic links lead round in a circle, at which Python 3.11 and 3.12 raise a RuntimeError."""
    try:
        return path and path.resolve() and path
    except (RuntimeError, OSError):
        raise typer.BadParameter(f"a symbolic link of {path} leads to itself") from None


ExperimentFile = Annotated[Path, typer.Argument(metavar="EXPERIMENT", help="The experiment's YAML file.")]
Output = Annotated[
    Path | None,
    typer.Option("--output", callback=resolvable, help="Results folder. By default results/<experiment>."),
]
To = Annotated[Path | None, typer.Option("--to", metavar="FOLDER", help="By default the folder in FEDHPC_DATA.")]


@data_app.command("list")
def list_data(
    to: To = None,
    check: Annotated[
        bool, typer.Option("--check", help="Read what is there, and say what has changed since it was fetched.")
    ] = False,
) -> None:
    """Say what data sets there are, and which of them are here."""
    from fedhpc.data.paths import data_folder
    from workflow.console import console
    from workflow.data_list import print_list

    raise typer.Exit(print_list(to or data_folder(), check, console()))


@data_app.command("fetch")
def fetch_data(
    name: Annotated[str, typer.Argument(metavar="NAME", help="One of those that `fedhpc data list` names.")],
    to: To = None,
) -> None:
    """Download a data set, unless it is here, and check it. For login nodes."""
    from fedhpc.data.paths import data_folder
    from workflow.console import console
    from workflow.data_fetch import print_fetch

    raise typer.Exit(print_fetch(name, to or data_folder(), console(), sys.stderr))


@data_app.command("prepare")
def prepare_data(
    experiment: ExperimentFile,
    output: Output = None,
    check: Annotated[bool, typer.Option("--check", help="Instead, read what was prepared and check it.")] = False,
) -> None:
    """Bring an experiment's data into the form that its runs read, as its sweep would."""
    from fedhpc.experiment import load_experiment
    from workflow.console import console
    from workflow.data_prepare import print_check, print_prepare
    from workflow.results_folder import default_folder

    loaded = load_experiment(experiment)
    folder = output or default_folder(loaded)
    raise typer.Exit((print_check if check else print_prepare)(loaded, folder, console()))


@data_app.command("describe")
def describe_data(
    experiment: ExperimentFile,
    draw: Annotated[
        Path | None,
        typer.Option("--draw", metavar="FILE", help="Also draw who holds how much of what: a .png, .pdf or .svg."),
    ] = None,
    output: Output = None,
) -> None:
    """Say what an experiment's clients hold: examples, labels, stragglers."""
    from fedhpc.experiment import load_experiment
    from workflow.console import console
    from workflow.data_describe import print_description
    from workflow.results_folder import default_folder

    loaded = load_experiment(experiment)
    print_description(loaded, output or default_folder(loaded), draw, console())
