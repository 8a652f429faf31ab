"""Logs of hosts, fetched into a temporary folder."""

import argparse
import signal
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NoReturn

from preflight.app.session import session
from preflight.cli.options import host_options
from preflight.diagnose.fetch import HostAccess, LogSelection, fetch
from preflight.diagnose.fetched import Fetched
from preflight.model.errors import PreflightError, UsageError

_SINCE, _MOST = 86400, 32 << 20  # seconds; bytes from one host


@contextmanager
def fetched_logs(args: argparse.Namespace) -> Iterator[Fetched]:
    """Fetch the hosts' logs into a temporary folder that only this user may open.

    Raise UsageError or PreflightError.
    """
    for name in args.log:
        if not name.startswith(("/", "~/")):
            raise UsageError(f"{name}: paths on the hosts must start with / or ~/")
    with session(host_options(args)) as s, ExitStack() as stack:
        selection = LogSelection(tuple(args.log), s.cluster.probe, args.since or _SINCE, args.most or _MOST)
        try:
            folder = stack.enter_context(_folder())
            fetched = fetch(HostAccess(s.hosts, s.transport, s.pool, s.progress), selection, folder)
        except OSError as error:
            where = f" in {error.filename}" if error.filename else ""
            raise PreflightError(
                f"cannot store the logs{where}: {error.strerror}. To use another folder, set TMPDIR."
            ) from error
        s.progress.clear()
        yield fetched


@contextmanager
def _folder() -> Iterator[Path]:
    """Create a temporary folder that is removed also if a scheduler ends this process, or its terminal closes."""
    before = {number: signal.signal(number, _interrupted) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        with tempfile.TemporaryDirectory(prefix="preflight-") as folder:
            yield Path(folder)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupted(*_: object) -> NoReturn:
    raise KeyboardInterrupt
