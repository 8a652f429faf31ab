"""What docs/slurm.md has an operator type on one machine, typed; what it says that he sees, seen."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.conftest import ROOT, preflight

pytestmark = pytest.mark.lab

PAGE = (ROOT / "docs" / "slurm.md").read_text()
BLOCKS = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
SHOWN = re.findall(r"^```\n(node01 idle.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Path]:
    """The page's commands, with a lab of their own."""
    if os.geteuid() != 0:
        pytest.fail("this needs root, as the page says")
    lab, script = tmp_path / "lab", tmp_path / "page.sh"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/preflight").symlink_to(ROOT / ".venv/bin/preflight")
    text = "".join(f"echo ---- {number}\n{block}" for number, block in enumerate(BLOCKS))
    script.write_text(text.replace("LAB=/tmp/slurm-lab", f"LAB={lab}"))
    yield script
    preflight("lab", "down", "--dir", lab, check=False)


def test_the_page_does_as_it_says(page: Path) -> None:
    environment = {**os.environ, "PATH": f"{page.parent}/bin:{os.environ['PATH']}"}
    done = subprocess.run(["bash", page], env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    parts = dict(re.findall(r"^---- (\d)\n(.*?)(?=^---- |\Z)", done.stdout, re.MULTILINE | re.DOTALL))
    assert len(parts) == len(BLOCKS) == 4, done.stdout + done.stderr
    broken, preflight_broken = parts["1"], parts["2"]
    assert SHOWN[0] in broken, done.stdout + done.stderr
    assert re.search(r" NodeList=node\[01,03\]$", broken, re.MULTILINE)
    assert "Restarts=1" in broken
    assert '"slurm": "drained"' in broken
    assert SHOWN[0] in preflight_broken
    assert '"outcome": "unknown"' in preflight_broken
    assert "is down" in parts["3"]
