"""Options of the test run."""

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

DEVICES = Path("/dev")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in the background by a script: what the tests start, and interrupt, would ignore Ctrl-C, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--captures",
        type=Path,
        default=None,
        metavar="DIR",
        help="directory with real tool output; the parsers are held against it (expected values: tests/cases/captures)",
    )
    parser.addoption(
        "--mutations",
        type=int,
        default=0,
        metavar="N",
        help="mutated texts that each parser has to take (test_parsers_mutated.py); 0: as many as it says",
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What passes here says nothing of it."""
    missing = [
        kind for kind, name in (("NPU", "davinci[0-9]*"), ("GPU", "nvidia[0-9]*")) if not any(DEVICES.glob(name))
    ]
    if missing:
        kinds = " and no ".join(missing)
        terminalreporter.write_line(
            f"not run: what only a real device runs, see docs/never-run.md; there is no {kinds} here"
        )


@pytest.fixture(scope="session", autouse=True)
def state_of_the_tests() -> Iterator[None]:
    """Runs are written down in a place of the tests' own, not in the caller's home."""
    with tempfile.TemporaryDirectory(prefix="preflight-tests-") as place:
        os.environ["XDG_STATE_HOME"] = place
        yield
