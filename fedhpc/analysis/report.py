"""What a finished sweep leaves to look at: the closing table and the picture."""

from pathlib import Path

from fedhpc.analysis.figures import accuracy_figure
from fedhpc.analysis.table import closing_table, csv_table, format_table
from fedhpc.store.reader import open_experiment
from fedhpc.store.replacing import replacing


def write_report(folder: Path) -> str:
    """Writes ``FOLDER/report/table.txt``, ``table.csv`` and, where something was learned, ``accuracy.png``.

    Returns the table as text. Raises FileNotFoundError where the folder holds no result.
    """
    dataset = open_experiment(folder)
    rows = closing_table(dataset)
    text = format_table(rows)
    for name, content in (("table.txt", text), ("table.csv", csv_table(rows))):
        with replacing(folder / "report" / name) as temporary:
            temporary.write_text(content, encoding="utf-8")
    if rows[0].measures:
        accuracy_figure(dataset, folder / "report" / "accuracy.png")
    return text
