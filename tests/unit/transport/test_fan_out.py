"""Many hosts at once: bounded, in order, each with its deadline."""

import io
import resource
import threading
import time

import pytest

from preflight.app.progress_line import ProgressLine, line_of
from preflight.model.cluster import Host
from preflight.transport import ErrorKind, FanOutLimits, Progress, TransportError, fan_out, fanout, process_limits
from preflight.transport import attempt as attempts
from preflight.transport.types import WholeProgress


def hosts(count: int) -> list[Host]:
    return [Host(f"node{i:03}", f"10.1.0.{i}") for i in range(count)]


def test_results_are_in_the_inventorys_order() -> None:
    def work(host: Host) -> str:
        time.sleep(0.05 if host.name == "node000" else 0)
        return host.address

    results = fan_out(hosts(5), work, FanOutLimits(5, 5))
    assert list(results.items()) == [(f"node{i:03}", f"10.1.0.{i}") for i in range(5)]


def test_no_hosts_are_no_work() -> None:
    assert fan_out([], lambda host: host.name, FanOutLimits(4, 1)) == {}


def test_at_the_end_of_the_run_hosts_without_a_result_are_given_up() -> None:
    """One host is done, one waits for its program, and one has not been contacted."""
    released = threading.Event()

    def work(host: Host) -> str:
        if host.name == "node000":
            return "done"
        attempts.waiting_for("the program")
        released.wait(20)
        return "late"

    results = fan_out(hosts(3), work, FanOutLimits(1, 20, until=time.monotonic() + 0.3))
    released.set()
    first, second, third = results.values()
    assert first == "done"
    assert isinstance(second, TransportError) and isinstance(third, TransportError)
    assert second.kind is third.kind is ErrorKind.BUDGET
    assert second.summary == "node001: preflight still waited for the program when the time budget ended"
    assert third.summary == "node002: the host was not contacted when the time budget ended"


def test_after_the_end_of_the_run_no_host_is_contacted() -> None:
    contacted: list[str] = []
    results = fan_out(hosts(2), lambda host: contacted.append(host.name), FanOutLimits(2, 20, until=time.monotonic()))
    assert contacted == []
    assert [error.kind for error in results.values() if isinstance(error, TransportError)] == [ErrorKind.BUDGET] * 2


def most_at_once(pool: int, expected: int, *, logs_in: bool = False) -> int:
    """How many hosts run together at most; each waits until `expected` do, and a little longer."""
    lock = threading.Lock()
    full = threading.Event()
    running = most = 0

    def work(_: Host) -> None:
        nonlocal running, most
        if logs_in:
            attempts.current().logged_in()
        with lock:
            running += 1
            most = max(most, running)
            if running >= expected:
                full.set()
        full.wait(5)
        time.sleep(0.02)
        with lock:
            running -= 1

    fan_out(hosts(90), work, FanOutLimits(pool, 20))
    return most


@pytest.mark.parametrize(("pool", "most"), [(3, 3), (1000, 64), (0, 1)])
def test_as_many_hosts_as_the_pool_has_but_never_more_than_64_log_in_at_once(pool: int, most: int) -> None:
    assert most_at_once(pool, expected=most) == most


def test_a_host_that_has_logged_in_holds_up_no_other() -> None:
    assert most_at_once(1000, expected=90, logs_in=True) == 90
    assert most_at_once(70, expected=70, logs_in=True) == 70


def test_no_more_hosts_than_a_third_of_the_open_file_limit_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda kind: (30, 30) if kind == resource.RLIMIT_NOFILE else (-1, -1))
    assert most_at_once(64, expected=10) == 10


def test_no_more_hosts_than_a_fourth_of_the_thread_limit_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_limits, "most_threads", lambda: 20.0)
    assert most_at_once(64, expected=5) == 5


def test_if_no_thread_can_be_started_the_host_waits_for_another_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start

    def limited(thread: threading.Thread) -> None:
        if thread.name.startswith("host-") and threading.active_count() > before + 2:
            raise RuntimeError("can't start new thread")
        start(thread)

    before = threading.active_count()
    monkeypatch.setattr(threading.Thread, "start", limited)

    def work(host: Host) -> str:
        time.sleep(0.05)
        return host.name

    results = fan_out(hosts(9), work, FanOutLimits(64, 20))
    assert list(results) == list(results.values()) == [host.name for host in hosts(9)]


def test_a_host_that_fails_is_a_result_like_any_other() -> None:
    def work(host: Host) -> int:
        if host.name == "node001":
            raise TransportError(ErrorKind.REFUSED, "node001: refused", "look")
        return 1

    results = fan_out(hosts(3), work, FanOutLimits(2, 5))
    assert results["node000"] == results["node002"] == 1
    failed = results["node001"]
    assert isinstance(failed, TransportError)
    assert failed.kind is ErrorKind.REFUSED


def test_a_host_beyond_its_deadline_is_abandoned_by_name_and_broken_off_and_frees_its_place() -> None:
    dropped = threading.Event()

    def work(host: Host) -> str:
        if host.name == "node000":
            attempts.waiting_for("the ssh banner")
            with attempts.current().breakable(dropped.set):
                dropped.wait(10)
        return "done"

    started = time.monotonic()
    results = fan_out(hosts(3), work, FanOutLimits(1, 0.3))
    assert time.monotonic() - started < 2
    late = results["node000"]
    assert isinstance(late, TransportError)
    assert late.kind is ErrorKind.TIMEOUT
    assert late.summary.startswith("node000: timed out after 0 s (waiting for the ssh banner)")
    assert results["node001"] == results["node002"] == "done"
    assert dropped.is_set()


def test_the_deadline_of_a_host_starts_with_its_own_turn() -> None:
    results = fan_out(hosts(6), lambda _: time.sleep(0.15), FanOutLimits(1, 0.5))
    assert set(results.values()) == {None}


def test_a_bug_goes_up_with_the_hosts_name_and_breaks_the_others_off() -> None:
    dropped = threading.Event()
    begun = threading.Event()

    def work(host: Host) -> None:
        if host.name == "node001":
            begun.wait(5)
            raise KeyError("no such section")
        with attempts.current().breakable(dropped.set):
            begun.set()
            dropped.wait(10)

    with pytest.raises(KeyError) as raised:
        fan_out(hosts(2), work, FanOutLimits(2, 20))
    assert "while working on host node001" in raised.value.__notes__
    assert dropped.wait(1)


def test_an_interrupt_of_the_caller_breaks_everything_off_at_once() -> None:
    dropped = threading.Event()
    begun = threading.Event()

    def work(_: Host) -> None:
        with attempts.current().breakable(dropped.set):
            begun.set()
            dropped.wait(10)

    def interrupt(_: Progress) -> None:
        if begun.is_set():
            raise KeyboardInterrupt

    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        fan_out(hosts(2), work, FanOutLimits(2, 20), progress=interrupt)
    assert dropped.wait(1)
    assert time.monotonic() - started < 1.5


def test_work_that_becomes_breakable_after_the_break_ends_at_once() -> None:
    attempt = attempts.Attempt()
    attempt.break_off()
    dropped = threading.Event()
    with attempt.breakable(dropped.set):
        assert dropped.is_set()


def test_progress_counts_and_names_the_slowest_host_and_what_it_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fanout, "_REPORT", 0.0)
    reports: list[Progress] = []
    release = threading.Event()

    def work(host: Host) -> None:
        if host.name == "node000":
            attempts.waiting_for("the program")
            release.wait(5)
        elif host.name == "node001":
            raise TransportError(ErrorKind.SUDO, "node001: no", "do")
        else:
            release.set()

    fan_out(hosts(3), work, FanOutLimits(2, 5), progress=reports.append, phase="facts")
    assert [report.done for report in reports] == sorted(report.done for report in reports)
    assert any(report.slowest == "node000" and report.waiting_for == "the program" for report in reports)
    last = reports[-1]
    assert (last.done, last.total, last.failed, last.slowest, last.phase) == (3, 3, 1, None, "facts")


def test_the_progress_line_says_what_the_slowest_host_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(shown, "isatty", lambda: True)
    monkeypatch.setattr("sys.stderr", shown)
    clock = [100.0]
    monkeypatch.setattr("preflight.app.progress_line.time.monotonic", lambda: clock[0])
    line = ProgressLine()
    line(Progress(0, 8, 0, phase="facts"))
    clock[0] += 13.0
    line(Progress(3, 8, 1, "node07", 12.4, "sudo's answer to the password", "facts"))
    assert shown.getvalue().endswith("facts: 3/8 hosts, 1 failed, node07 waits 12 s for sudo's answer to the password")


@pytest.mark.parametrize(
    ("progress", "seconds", "line"),
    [
        (Progress(3, 8, 0, "node07", 4.9, "the program", "facts"), 3.2, "facts: 3/8 hosts, 3 s"),
        (
            Progress(3, 8, 0, "node07", 6.0, "the program", "facts"),
            60.0,
            "facts: 3/8 hosts, 60 s, node07 waits 6 s for the program",
        ),
        (Progress(0, 8, 0), 0.0, "hosts: 0/8 hosts, 0 s"),
        (
            Progress(4, 9, 0, "node01/3", 7.0, "stage communicator", "round", "tests", WholeProgress(140, 277, 36.2)),
            12.4,
            "probe: 140/277 tests, 12 of 36 s, node01/3 waits 7 s for stage communicator",
        ),
        (
            Progress(4, 9, 0, "node01/3", 1.0, "stage closed", "round", "tests", WholeProgress(280, 290, 36.2)),
            40.0,
            "probe: 280/290 tests, 40 s",
        ),
    ],
)
def test_a_line_of_progress_fits_80_columns_and_names_what_is_waited_for_after_some_seconds(
    progress: Progress, seconds: float, line: str
) -> None:
    assert line_of(progress, seconds) == line
    assert len(line) < 80


def test_a_file_gets_a_line_of_progress_every_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    shown, clock = io.StringIO(), [100.0]
    monkeypatch.setattr("sys.stderr", shown)
    monkeypatch.setattr("preflight.app.progress_line.time.monotonic", lambda: clock[0])
    line = ProgressLine()
    for second in range(31):
        clock[0] = 100.0 + second
        line(Progress(second, 30, 0, phase="facts"))
    assert shown.getvalue() == "facts: 10/30 hosts, 10 s\nfacts: 20/30 hosts, 20 s\n"


@pytest.mark.parametrize("terminal", [True, False])
def test_no_progress_is_written_into_a_question(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> None:
    shown, clock = io.StringIO(), [100.0]
    monkeypatch.setattr(shown, "isatty", lambda: terminal)
    monkeypatch.setattr("sys.stderr", shown)
    monkeypatch.setattr("preflight.app.progress_line.time.monotonic", lambda: clock[0])
    line = ProgressLine()
    with line.paused():
        before = shown.getvalue()
        clock[0] += 60.0
        line(Progress(1, 2, 0, phase="apply"))
        assert shown.getvalue() == before
    clock[0] += 60.0
    line(Progress(1, 2, 0, phase="apply"))
    assert shown.getvalue() != before
