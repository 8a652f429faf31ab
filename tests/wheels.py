"""Wheels of third-party packages that tests compare preflight with.

They are fetched once per machine and unzipped. They are never installed, so that nothing imports them by accident.
"""

import contextlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest

from preflight.model.places import cache_home

CACHE = cache_home() / "tests" / "wheels"


def unpacked(name: str, *wanted: str) -> Path:
    """Return the folder of an unzipped wheel, the first of `wanted` (pip's requirements) that the package index has.

    A folder that was fetched before as `name` is used as it is, so that the network is used once per machine.
    Fail the test with pytest.fail if there is no wheel.
    """
    place = CACHE / name
    said = [_fetch(requirement, place) for requirement in wanted if not place.is_dir()]
    if not place.is_dir():
        pytest.fail(
            f"this test needs a wheel, but the package index has no {' nor '.join(wanted)} for this Python and "
            f"processor, or was not reached; pip reported: {' / '.join(said)}"
        )
    return place


def _fetch(requirement: str, place: Path) -> str:
    """Fetch a wheel and unzip it to `place`. Return the first and last line of pip's error, or an empty string."""
    CACHE.mkdir(parents=True, exist_ok=True)
    pip = (sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--quiet")
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        done = subprocess.run(
            [*pip, "-d", folder, requirement], capture_output=True, text=True, timeout=300, check=False
        )  # fmt: skip
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines() or ["nothing"]
            return "; ".join(dict.fromkeys((lines[0], lines[-1])))
        with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
            wheel.extractall(Path(folder) / "unzipped")
            for item in wheel.infolist():  # zipfile drops the executable bit
                mode = item.external_attr >> 16 & 0o777
                (Path(folder) / "unzipped" / item.filename).chmod(mode or 0o755)
        with contextlib.suppress(OSError):  # another test run was faster
            (Path(folder) / "unzipped").rename(place)
    return ""
