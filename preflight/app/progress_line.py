"""Progress of a run, as one line on stderr."""

import logging
import shutil
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from preflight.app.stream import RunStream
from preflight.app.timeline import Timeline
from preflight.report.console import is_dumb
from preflight.transport.types import Progress

TESTS = "probe"
WAITS = 5.0  # seconds after which a host or device that is waited for is shown
WIDTH = 80  # columns of a line in a file
EVERY = 10.0  # seconds between two lines if stderr is no terminal
SILENT = 1.0  # seconds without a report after which the line shows another phase that runs at the same time
_LOG = logging.getLogger(__name__)


class ProgressLine:
    """One line on stderr with the progress, and from some seconds on with what is waited for.

    If stderr is no terminal, or one that cannot erase a line, it is a new line every `EVERY` seconds. `stream` receives
    the reports, too.
    """

    def __init__(self, stream: RunStream | None = None) -> None:
        self._stream = stream
        self._terminal = sys.stderr.isatty() and not is_dumb()
        self._writing = threading.RLock()
        self._paused = False
        self.timeline = Timeline()
        self._logged: dict[str, int] = {}  # by phase: the work that was done in the last report that was logged
        self._written = time.monotonic()  # when the last line was written to a file
        self._begin: dict[str, float] = {}  # by phase; all phases of the probe's tests are one
        self._shown = ("", 0.0)  # the phase in the line, and when it last reported

    def __call__(self, progress: Progress) -> None:
        self._log(progress)
        if self._stream:
            self._stream.show_progress(progress)
        self.timeline.take(progress)
        with self._writing:
            now, phase = time.monotonic(), TESTS if progress.whole else progress.phase
            line = line_of(progress, now - self._begin.setdefault(phase, now))
            over = progress.done >= progress.total and not progress.whole
            if over:
                del self._begin[phase]  # the next work of this name begins anew
            if self._takes_turn(phase, now, over=over):
                self._show(line, now, over=progress.done >= progress.total)

    def _takes_turn(self, phase: str, now: float, *, over: bool) -> bool:
        """Return whether the line shows this phase. Of two at once it stays with the first, until that is silent."""
        shown, reported = self._shown
        if shown not in ("", phase) and now - reported < SILENT:
            return False
        self._shown = ("" if over else phase, now)
        return True

    def _show(self, line: str, now: float, *, over: bool) -> None:
        if self._terminal:
            self.say(line)
        elif not self._paused and now - self._written >= EVERY and not over:
            self._written = now
            self.note(line[:WIDTH])

    def _log(self, progress: Progress) -> None:
        """Log the first and the last report of a phase, and each one in which more work is done."""
        if progress.phase and progress.done != self._logged.get(progress.phase):
            self._logged[progress.phase] = progress.done
            failed = f", {progress.failed} failed" if progress.failed else ""
            _LOG.info("%s: %d of %d done%s", progress.phase, progress.done, progress.total, failed)

    @property
    def on_terminal(self) -> bool:
        """True if the line is on a terminal, where a person may wait for news."""
        return self._terminal

    def say(self, text: str) -> None:
        """Replace the line; an empty text clears it."""
        with self._writing:
            if self._terminal and not self._paused:
                sys.stderr.write(f"\r\x1b[K{text[: _width()]}")
                sys.stderr.flush()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Clear the line and write none meanwhile, since it would overwrite a question to the user."""
        with self._writing:
            self.clear()
            self._paused = True
        try:
            yield
        finally:
            self._paused = False

    def note(self, text: str) -> None:
        """Print a permanent line on stderr, wrapped to the width of a terminal."""
        if self._terminal:
            text = textwrap.fill(text, _width(), break_on_hyphens=False, break_long_words=False)
        with self._writing:
            self.clear()
            print(text, file=sys.stderr, flush=True)

    def clear(self) -> None:
        self.say("")


def line_of(progress: Progress, seconds: float) -> str:
    """Return the progress in one line. `seconds` have passed since its phase began, or the tests of the probe."""
    waits = bool(progress.slowest) and progress.seconds >= WAITS
    if whole := progress.whole:
        expected = f" of {whole.expected:.0f}" if seconds < whole.expected else ""
        words = [f"{TESTS}: {whole.done}/{whole.total} tests", f"{seconds:.0f}{expected} s"]
    else:
        words = [f"{progress.phase or 'hosts'}: {progress.done}/{progress.total} {progress.unit}"]
        words += [] if waits and abs(seconds - progress.seconds) < WAITS else [f"{seconds:.0f} s"]
    if progress.failed:
        words.append(f"{progress.failed} failed")
    if waits:
        waiting_for = f" for {progress.waiting_for}" if progress.waiting_for else ""
        words.append(f"{progress.slowest} waits {progress.seconds:.0f} s{waiting_for}")
    return ", ".join(words)


def _width() -> int:
    return shutil.get_terminal_size().columns - 1
