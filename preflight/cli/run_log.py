"""Log of a run, for -v and --log-file: ssh connections, steps and timings, without secrets."""

import logging
import os
import sys
import time
from pathlib import Path

from preflight.app.files import refuse_place
from preflight.facts.redaction.redact import redact
from preflight.model.errors import UsageError
from preflight.model.text import printable

_LOGGER = "preflight"  # the parent of the loggers of all modules
_IN_PLACE_OF_PROGRESS = "\r\x1b[K"  # erases the line of progress on a terminal


class _Formatter(logging.Formatter):
    """One line a record, without secrets and control characters."""

    def format(self, record: logging.LogRecord) -> str:
        return f"{self._time(record)}  {redact(printable(record.getMessage()))}"

    def _time(self, record: logging.LogRecord) -> str:
        raise NotImplementedError


class _SinceStart(_Formatter):
    """Lines with the seconds since the log began, for a person."""

    def __init__(self) -> None:
        super().__init__()
        self._start = time.time()
        self._before = _IN_PLACE_OF_PROGRESS if sys.stderr.isatty() else ""

    def _time(self, record: logging.LogRecord) -> str:
        return f"{self._before}{record.created - self._start:7.2f} s"


class _Timestamp(_Formatter):
    """Lines with the time in UTC, for a file."""

    def _time(self, record: logging.LogRecord) -> str:
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
        _add(logger, logging.StreamHandler(), _SinceStart())
    if file:
        refuse_place(file, "--log-file")
        try:
            stream = os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8")
        except OSError as error:
            raise UsageError(f"--log-file {file}: {error.strerror}") from error
        _add(logger, logging.StreamHandler(stream), _Timestamp())
    logger.setLevel(logging.INFO if verbose or file else logging.NOTSET)
    logger.propagate = False


def _add(logger: logging.Logger, handler: logging.Handler, formatter: logging.Formatter) -> None:
    handler.setFormatter(formatter)
    logger.addHandler(handler)
