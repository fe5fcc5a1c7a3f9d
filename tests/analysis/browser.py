"""A real browser without a screen, to look at the report's page."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

# What a person's browser would find: the script is added to a copy, since the page itself forbids all scripts.
_LOOK = """
<script>
addEventListener("load", () => {
  const found = {
    width: innerWidth,
    scrolls: document.documentElement.scrollWidth,
    pictures: [...document.images].map(one => [one.alt, one.naturalWidth, one.getBoundingClientRect().width]),
    anchors: [...document.querySelectorAll('nav a')].map(one => !!document.querySelector(one.getAttribute('href'))),
    links: [...document.querySelectorAll('.files a')].map(one => one.getAttribute('href')),
  };
  const kept = document.createElement("script");
  kept.id = "found"; kept.type = "application/json"; kept.textContent = JSON.stringify(found);
  document.body.append(kept);
});
</script></body>"""


def browser() -> str:
    """The browser's program; skips the test where there is none, or fails it where one is required."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        if os.environ.get("FEDHPC_TEST_BROWSER") == "required":
            pytest.fail("FEDHPC_TEST_BROWSER=required, and there is no chromium here")
        pytest.skip("there is no chromium here, in which the page could be looked at")
    return program


def seen(page: Path, folder: Path, width: int) -> dict[str, Any]:
    """What the browser makes of a page in a window so wide; a screenshot is left in ``folder``. The page is in a
    frame of that width, since no window is as narrow as a phone's."""
    copy = folder / f"page-{width}.html"
    text = page.read_text(encoding="utf-8")
    text, forbidden = re.subn(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    assert forbidden == 1
    copy.write_text(text.replace("</body>", _LOOK), encoding="utf-8")
    frame = folder / f"frame-{width}.html"
    frame.write_text(
        "<!DOCTYPE html><title>frame</title><style>body { margin: 0 } iframe { border: 0 }</style>"
        f'<iframe id="page" src="{copy.name}" style="width: {width}px; height: 6000px"></iframe>'
        '<script>addEventListener("load", () => { const made = document.createElement("script"); made.id = "found";'
        'made.type = "application/json"; made.textContent = document.getElementById("page").contentDocument'
        '.getElementById("found").textContent; document.body.append(made); });</script>',
        encoding="utf-8",
    )
    done = _run(folder, frame, "--allow-file-access-from-files", "--dump-dom")
    match = re.search(r'<script id="found" type="application/json">(.*?)</script>', done.stdout, re.DOTALL)
    assert match is not None, done.stderr
    screenshot = folder / f"page-{width}.png"
    _run(folder, frame, f"--window-size={max(width, 500)},6000", f"--screenshot={screenshot}")
    assert screenshot.read_bytes().startswith(b"\x89PNG")
    found: dict[str, Any] = json.loads(match[1])
    return found


def console(page: Path, folder: Path) -> list[str]:
    """What the browser says on its console of the page as it is."""
    done = _run(folder, page, "--enable-logging=stderr", "--dump-dom")
    assert "</html>" in done.stdout
    return [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def _run(folder: Path, page: Path, *options: str) -> subprocess.CompletedProcess[str]:
    fixed = "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"
    own = f"--user-data-dir={folder / 'browser'}"
    command = [browser(), *fixed, own, "--virtual-time-budget=5000", *options, page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
