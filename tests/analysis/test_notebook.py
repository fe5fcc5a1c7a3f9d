"""``results/analysis.ipynb`` runs on any sweep, and its kept outputs are of the quickstart."""

import ast
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[2] / "results" / "analysis.ipynb"


def test_it_runs_from_top_to_bottom(swept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDHPC_RESULTS", str(swept))
    notebook = nbformat.read(NOTEBOOK, 4)
    client = NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(NOTEBOOK.parent)}})
    client.execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 7
    texts = " ".join(output.get("data", {}).get("text/plain", "") for output in outputs)
    assert "fedbuff" in texts
    assert "domain" in texts


def test_it_is_xarray_alone() -> None:
    notebook = nbformat.read(NOTEBOOK, 4)
    nbformat.validate(notebook)
    code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    found = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{name.name}" for name in node.names}
    assert found == {"os", "numpy", "xarray", "yaml", "matplotlib.pyplot", "fedhpc.store.open_experiment"}


def test_what_is_kept_is_whole_and_says_nothing_of_a_machine() -> None:
    notebook = nbformat.read(NOTEBOOK, 4)
    assert all(cell.execution_count for cell in notebook.cells if cell.cell_type == "code")
    assert not [
        output for cell in notebook.cells for output in cell.get("outputs", []) if output.output_type == "error"
    ]
    text = NOTEBOOK.read_text()
    assert not any(word in text for word in ("/tmp/", "/home/", "/root/"))
    assert len(text) < 600_000
