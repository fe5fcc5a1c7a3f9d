"""``fedhpc data list``: the catalogue as a table, and what of it is here."""

from pathlib import Path

from rich.console import Console
from rich.table import Table

from fedhpc.data.catalogue import DataSet, data_set, data_sets
from fedhpc.data.fetching.records import changes
from fedhpc.data.paths import VARIABLE
from workflow.byte_words import in_bytes


def print_list(folder: Path | None, check: bool, console: Console) -> int:
    """Prints the table; with ``check``, whether what is there below ``folder`` is what it was on first use. Returns the
    exit status: 1 where something has changed."""
    table = Table(box=None, padding=(0, 1))
    for column in ("name", "what", "clients", "to download", "here", "used by"):
        right = column in ("clients", "to download")
        table.add_column(column, justify="right" if right else "left", no_wrap=column in ("name", "clients", "here"))
    changed: list[str] = []
    for name in data_sets():
        known = data_set(name)
        found = changes(folder, name) if check and folder is not None else []
        changed += found
        table.add_row(
            name,
            known.title,
            "-" if known.clients is None else f"{known.clients:,}",
            _size(known),
            "changed" if found else _here(known, folder),
            ", ".join(known.used_by),
        )
    if folder is None:
        where = f"{VARIABLE} is not set: no folder to look in"
    elif not folder.is_dir():
        where = f"there is no such folder: {folder}; set {VARIABLE} to another, or `fedhpc data fetch` makes this one"
    else:
        where = f"looked in {folder}"
    console.print(where, markup=False, highlight=False, soft_wrap=True)
    console.print(table)
    for sentence in changed:
        console.print(sentence, markup=False, highlight=False, soft_wrap=True)
    return 1 if changed else 0


def _size(known: DataSet) -> str:
    if known.size is not None:
        return in_bytes(known.size)
    return "size unknown" if known.files else "by hand"


def _here(known: DataSet, folder: Path | None) -> str:
    if folder is None:
        return "no"
    missing = known.missing(folder)
    if not missing:
        return "whole"
    return "partly" if len(missing) < len(known.all_places) else "no"
