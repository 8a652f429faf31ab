"""Programs and packages of others that tests hold preflight against: wheels, fetched once a machine and unzipped beside
everything else; never installed, so that nothing imports them by accident."""

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
    """The folder of an unzipped wheel: of the first of `wanted` (pip's requirements) that the package index has.

    What was fetched before as `name` is taken as it is: the network is asked once a machine. pytest.fail if there is
    none.
    """
    place = CACHE / name
    said = [_fetch(requirement, place) for requirement in wanted if not place.is_dir()]
    if not place.is_dir():
        pytest.fail(
            f"the package index has no {' nor '.join(wanted)} for this Python and processor, or was not reached; "
            f"this test cannot do without; pip said: {' / '.join(said)}"
        )
    return place


def _fetch(requirement: str, place: Path) -> str:
    """Fetch a wheel and unzip it to `place`; returns pip's first and last complaint, empty if there is none."""
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
            for item in wheel.infolist():  # zipfile forgets which are programs
                mode = item.external_attr >> 16 & 0o777
                (Path(folder) / "unzipped" / item.filename).chmod(mode or 0o755)
        with contextlib.suppress(OSError):  # another run of the tests was faster
            (Path(folder) / "unzipped").rename(place)
    return ""
