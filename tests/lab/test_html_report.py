"""The HTML report in a real browser, which is Debian's Chromium, without a screen."""

import subprocess
from pathlib import Path

import pytest

from preflight.report.html import html
from preflight.report.text import printable
from tests.unit.report.test_forms import HOSTILE, Page, everything

pytestmark = pytest.mark.lab

# It is not to look for its makers' hosts, nor for a graphics card.
BROWSER = (
    "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--window-size=1000,2000",
)  # fmt: skip
LIGHT, DARK = 1, 0  # Chromium's preferredColorScheme


@pytest.fixture
def page(tmp_path: Path) -> Path:
    file = tmp_path / "report.html"
    file.write_text(html(everything(), {}, fold=",".join, next_step="preflight explain NPU100"))
    return file


def browse(page: Path, *asked: str) -> bytes:
    own = f"--user-data-dir={page.parent / 'profile'}"
    return subprocess.run([*BROWSER, own, *asked, page.as_uri()], capture_output=True, check=True, timeout=120).stdout


def test_a_browser_shows_what_hosts_have_said_as_text(page: Path) -> None:
    shown = Page(browse(page, "--dump-dom").decode())
    written = Page(page.read_text())
    assert (shown.tags - written.tags).keys() <= {"tbody"}, "a browser puts these into tables"
    assert not written.tags - shown.tags
    assert printable(HOSTILE) in "".join(shown.words)


def test_it_is_drawn_light_and_dark(page: Path) -> None:
    pictures = []
    for scheme in (LIGHT, DARK):
        picture = page.parent / f"{scheme}.png"
        browse(page, f"--blink-settings=preferredColorScheme={scheme}", f"--screenshot={picture}")
        pictures.append(picture.read_bytes())
    assert all(picture.startswith(b"\x89PNG") and len(picture) > 20_000 for picture in pictures)
    assert pictures[0] != pictures[1]
