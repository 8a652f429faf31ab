"""What goes to a terminal beside words: colours, and the line that is taken back."""

import io
import sys

import pytest

from preflight.app.progress_line import ProgressLine
from preflight.report.console import show
from preflight.report.text import Line
from preflight.transport.types import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Make stdout and stderr a terminal that can show colours. No fixture: pytest captures anew before the test."""
    found = Terminal()
    monkeypatch.setattr(sys, "stdout", found)
    monkeypatch.setattr(sys, "stderr", found)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return found


def test_a_terminal_gets_colours_and_one_line_of_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = at_a_terminal(monkeypatch)
    show([Line("gone wrong", "fail"), Line("aside", "dim")])
    ProgressLine().say("hosts 1/2")
    assert "\x1b[2maside" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[Khosts 1/2")


def test_who_wants_no_colour_gets_none_and_nothing_dim_either(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = at_a_terminal(monkeypatch)
    monkeypatch.setenv("NO_COLOR", "1")
    show([Line("gone wrong", "fail"), Line("aside", "dim")])
    assert terminal.getvalue() == "gone wrong\naside\n"


def test_a_dumb_terminal_gets_words_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = at_a_terminal(monkeypatch)
    monkeypatch.setenv("TERM", "dumb")
    show([Line("gone wrong", "fail")])
    progress = ProgressLine()
    progress.say("hosts 1/2")
    progress.clear()
    assert terminal.getvalue() == "gone wrong\n"


def test_of_two_phases_at_once_the_line_shows_the_first_until_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = at_a_terminal(monkeypatch)
    progress = ProgressLine()
    for phase, done in (("pings", 1), ("agents", 1), ("pings", 2), ("agents", 2)):
        progress(Progress(done=done, total=2, failed=0, slowest="node01", seconds=0.1, phase=phase))
    lines = terminal.getvalue().split("\r\x1b[K")[1:]
    assert [line.split(",")[0] for line in lines] == ["pings: 1/2 hosts", "pings: 2/2 hosts", "agents: 2/2 hosts"]


def test_if_the_first_of_two_phases_is_silent_the_line_shows_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = at_a_terminal(monkeypatch)
    clock = [100.0]
    monkeypatch.setattr("preflight.app.progress_line.time.monotonic", lambda: clock[0])
    progress = ProgressLine()
    for phase, clock[0] in (("pings", 100.0), ("agents", 100.9), ("agents", 101.1)):
        progress(Progress(done=1, total=2, failed=0, phase=phase))
    lines = terminal.getvalue().split("\r\x1b[K")[1:]
    assert [line.split(":")[0] for line in lines] == ["pings", "agents"]
