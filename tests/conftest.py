"""Options of the test run."""

import signal
from pathlib import Path

import pytest

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
