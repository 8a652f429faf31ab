"""Options of the test run."""

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

DEVICES = Path("/dev")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A script started this run in the background. Without this, processes of the tests would ignore Ctrl-C, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--captures",
        type=Path,
        default=None,
        metavar="DIR",
        help="directory with real tool output to test the parsers with (expected values: tests/cases/captures)",
    )
    parser.addoption(
        "--mutations",
        type=int,
        default=0,
        metavar="N",
        help="number of mutated texts for each parser (test_parsers_mutated.py); 0 uses the default of the test",
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report the tests that did not run because this machine has no NPU or GPU."""
    missing = [
        kind for kind, name in (("NPU", "davinci[0-9]*"), ("GPU", "nvidia[0-9]*")) if not any(DEVICES.glob(name))
    ]
    if missing:
        kinds = " and no ".join(missing)
        terminalreporter.write_line(
            f"not run: tests that need a real device, as there is no {kinds} here; see docs/never-run.md"
        )


@pytest.fixture(scope="session", autouse=True)
def state_of_the_tests() -> Iterator[None]:
    """Keep the history of runs in a temporary folder, not in the caller's home, and ignore the caller's settings."""
    os.environ.pop("PREFLIGHT_INVENTORY", None)
    with tempfile.TemporaryDirectory(prefix="preflight-tests-") as place:
        os.environ["XDG_STATE_HOME"] = place
        os.environ["XDG_CONFIG_HOME"] = str(Path(place) / "config")
        yield
