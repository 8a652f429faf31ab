"""Log of a run, for -v and --log-file: ssh connections, steps and timings, without secrets."""

import logging
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from preflight.app.files import refuse_place
from preflight.facts.redaction.redact import redact
from preflight.model.errors import UsageError
from preflight.model.text import printable

_LOGGER = "preflight"  # the parent of the loggers of all modules
_IN_PLACE_OF_PROGRESS = "\r\x1b[K"  # erases the line of progress on a terminal


class _Formatter(logging.Formatter):
    """One line a record, with its time in words, without secrets and control characters."""

    def __init__(self, time_of: Callable[[logging.LogRecord], str]) -> None:
        super().__init__()
        self._time_of = time_of

    def format(self, record: logging.LogRecord) -> str:
        return f"{self._time_of(record)}  {redact(printable(record.getMessage()))}"


def _since(start: float) -> Callable[[logging.LogRecord], str]:
    """Return the function that gives the seconds since the log began, for a person."""
    before = _IN_PLACE_OF_PROGRESS if sys.stderr.isatty() else ""
    return lambda record: f"{before}{record.created - start:7.2f} s"


def _timestamp(record: logging.LogRecord) -> str:
    """Return the time in UTC, for a file."""
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03}Z"


def start_log(*, verbose: bool, file: Path | None) -> None:
    """Log to stderr, to the file, or to both, in place of an earlier log. Raise UsageError for a file that cannot be
    written.
    """
    logger = logging.getLogger(_LOGGER)
    for handler in tuple(logger.handlers):
        logger.removeHandler(handler)
        handler.close()
    if verbose:
        _add(logger, logging.StreamHandler(), _Formatter(_since(time.time())))
    if file:
        refuse_place(file, "--log-file")
        try:
            stream = os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8")
        except OSError as error:
            raise UsageError(f"--log-file {file}: {error.strerror}") from error
        _add(logger, logging.StreamHandler(stream), _Formatter(_timestamp))
    logger.setLevel(logging.INFO if verbose or file else logging.NOTSET)
    logger.propagate = False


def _add(logger: logging.Logger, handler: logging.Handler, formatter: logging.Formatter) -> None:
    handler.setFormatter(formatter)
    logger.addHandler(handler)
