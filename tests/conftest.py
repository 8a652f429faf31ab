"""Options of the test run."""

from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--captures",
        type=Path,
        default=None,
        metavar="DIR",
        help="directory with real tool output; the parsers are held against it (expected values: tests/cases/captures)",
    )
