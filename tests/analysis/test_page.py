"""The report's page: complete in itself, and a text in it stays a text."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from fedhpc.analysis.account import Account, Missing
from fedhpc.analysis.report import write_report
from fedhpc.experiment import load_experiment
from fedhpc.published import Published
from tests.analysis.browser import browser, console, seen
from tests.analysis.test_latency_figure import written
from tests.analysis.test_table import small_sweep
from workflow.tuning import write_reports

HOSTILE = "</title><script>alert('x')</script><img src=http://x.invalid onerror=alert(1)>{{ 7 * 7 }}"
BLOCK = {"table": "hard_table_22", "scenario": "slow", "rows": {"fedavg": "FedAvg", "fedbuff": "FedBuff"}}
ACCOUNT = Account(
    name="small",
    title=HOSTILE,
    planned=12,
    finished=6,
    missing=[
        Missing("fedbuff/slow/trial-1", "failed", f"ValueError: {HOSTILE}", "logs/one.log", "fedhpc run one"),
        Missing("fedbuff/even/trial-0", "failed", f"ValueError: {HOSTILE}", "logs/two.log", "fedhpc run two"),
        Missing("fedbuff/even/trial-1", "was interrupted at 40 %", "", "", "fedhpc run three"),
    ],
    command="fedhpc sweep <here>",
    settings=f"title: {HOSTILE}\n",
    facts=[("hosts", HOSTILE)],
)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sweep")
    small_sweep(folder)
    write_report(folder, [Published.model_validate(BLOCK)], account=ACCOUNT)
    return folder / "report" / "index.html"


def test_nothing_outside_the_page_is_needed(page: Path) -> None:
    text = page.read_text()
    sources = re.findall(r'\ssrc="([^"]{0,30})', text)
    assert len(sources) == 10
    assert all(source.startswith("data:image/png;base64,") for source in sources)
    assert not re.search(r"<(script|link rel=.stylesheet|iframe|object)|@import|url\(", text)
    links = re.findall(r'href="([^"]*)"', text)
    files = {link for link in links if not link.startswith(("#", "data:"))}
    assert files
    assert files <= {file.name for file in page.parent.iterdir()}
    assert all(f'id="{link[1:]}"' in text for link in links if link.startswith("#"))
    assert len(re.findall(r'<img [^>]*alt="[^"]{20,}"', text)) == len(sources)


def test_what_experiments_and_logs_hold_stays_text(page: Path) -> None:
    text = page.read_text()
    assert "<script" not in text
    assert "onerror=alert(1)&gt;" in text
    assert "{{ 7 * 7 }}" in text
    assert text.count("&lt;script&gt;") >= 5


def test_it_says_what_is_missing_and_what_goes_on(page: Path) -> None:
    text = page.read_text()
    assert "6 of 12 runs are finished" in text
    assert "fedhpc sweep &lt;here&gt;" in text
    assert "fedhpc run one" in text
    assert "1 more for the same reason" in text  # told once
    assert "fedbuff/even/trial-1: was interrupted at 40 %" in text


def test_marks_against_the_interval_are_told_apart(page: Path) -> None:
    text = page.read_text()
    # By hand: 37.5 % is below the paper's interval, fedbuff's 62.5 % above its own.
    assert re.search(r'<td class="outside">below by [\d.]+ points</td>', text)
    assert re.search(r'<td class="outside">above by [\d.]+ points</td>', text)


def test_nothing_finished_is_a_page_that_says_so(tmp_path: Path) -> None:
    experiment = written(tmp_path)
    nothing = replace(ACCOUNT, finished=0)
    with pytest.raises(FileNotFoundError, match="no finished results"):
        write_report(tmp_path, experiment=experiment, account=nothing)
    text = (tmp_path / "report" / "index.html").read_text()
    assert "No run of a trial is finished" in text
    assert "0 of 12 runs are finished" in text
    # What its clients will take is known all the same.
    assert 'id="figure-latency"' in text
    assert load_experiment(tmp_path / "experiment.yaml").name == "experiment"


@pytest.fixture(scope="session")
def real(swept: Path) -> Path:
    """The page of a sweep that was really run."""
    browser()
    write_reports(swept)
    return swept / "report" / "index.html"


@pytest.mark.parametrize("width", [390, 1100])
def test_in_a_browser(real: Path, tmp_path: Path, width: int) -> None:
    found = seen(real, tmp_path, width)
    assert found["width"] == width
    assert found["scrolls"] <= width  # nothing is cut off, and nothing scrolls sideways but tables and figures
    assert len(found["pictures"]) == 11
    assert all(natural > 0 and shown > 0 and alternative for alternative, natural, shown in found["pictures"])
    assert found["anchors"]
    assert all(found["anchors"])


def test_a_browser_has_nothing_to_complain_of(page: Path, real: Path, tmp_path: Path) -> None:
    assert console(page, tmp_path) == []
    assert console(real, tmp_path) == []


def test_the_browser_would_have_complained(tmp_path: Path) -> None:
    browser()
    bad = tmp_path / "bad.html"
    bad.write_text("<!DOCTYPE html><html><body><script>console.error('oh')</script></body></html>")
    assert len(console(bad, tmp_path)) == 1
