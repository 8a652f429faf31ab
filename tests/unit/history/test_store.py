"""The history's file: what is written is read again, and a bad day costs one sentence."""

import pwd
import resource
import sqlite3
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from preflight.history import runs, store
from preflight.history.runs import check_run, check_runs, remember
from preflight.history.store import HistoryError
from preflight.model.outcome import Outcome
from tests.unit.past_runs import FIGURES, failed, figure, look, written


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(store, "LOCK_TIMEOUT", 0.1)


def known() -> list[str]:
    return [past.run for past in check_runs(99)]


def test_a_run_is_read_again_as_it_was_written() -> None:
    was = written("r1", failed("node02", 5), failed("node01", check="HST103", outcome=Outcome.WARN), figures=FIGURES)
    assert check_run("r1") == was
    assert known() == ["r1"]
    assert check_run("r2") is None


def test_only_its_owner_reads_it_and_no_other_file_stays() -> None:
    written("r1")
    assert stat.S_IMODE(store.path().stat().st_mode) == 0o600
    assert [entry.name for entry in store.path().parent.iterdir()] == ["history.sqlite"], "no WAL: homes may be NFS"


def test_reading_makes_no_file() -> None:
    assert known() == []
    assert not store.path().exists()


def test_the_runs_over_one_host_alone() -> None:
    written("r1")
    written("r2", hosts=("node02",))
    assert [past.run for past in check_runs(99, "node01")] == ["r1"]


def test_text_that_is_no_unicode_is_kept_escaped() -> None:
    written("r1", inventory="/srv/\udcff.toml")
    (past,) = check_runs(99)
    assert past.inventory == "/srv/\\udcff.toml"


# It stays small.


def test_the_oldest_runs_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "MOST_RUNS", 3)
    for number in range(5):
        written(f"r{number}", failed("node01"), figures=FIGURES)
    assert known() == ["r4", "r3", "r2"]
    with store.reading() as db:
        left = [db.execute(f"SELECT count(DISTINCT number) FROM {table}").fetchone()[0]
                for table in ("hosts", "findings", "figures")]  # fmt: skip
    assert left == [3, 3, 3]


def test_large_runs_are_forgotten_sooner_and_the_newest_never(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "MOST_ROWS", 10)
    for number in range(5):
        written(f"r{number}", hosts=tuple(f"node{n:02}" for n in range(4)))
    assert known() == ["r4", "r3"]
    written("r9", hosts=tuple(f"node{n:02}" for n in range(40)))
    assert known() == ["r9"]


def test_findings_beyond_reason_are_counted_and_the_worst_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "MOST_FINDINGS", 2)
    warnings = [failed("node01", n, outcome=Outcome.WARN) for n in range(3)]
    written("r1", *runs.notable_findings([*warnings, failed("node02")]))
    past = check_run("r1")
    assert past
    assert ([f.outcome for f in past.findings], past.dropped) == ([Outcome.FAIL, Outcome.WARN], 2)


# Bad days.


def test_a_file_that_is_no_database_is_named() -> None:
    store.path().parent.mkdir()
    store.path().write_text("not SQLite, and long enough to be looked at" * 100)
    for attempt in (known, lambda: remember(look("r1"))):
        with pytest.raises(HistoryError, match=r"is damaged: .*Move it away"):
            attempt()


def test_a_database_with_damaged_pages_is_named() -> None:
    for number in range(50):
        written(f"r{number}", failed("node01"), figures=FIGURES)
    data = bytearray(store.path().read_bytes())
    data[4096:] = b"\xa5" * (len(data) - 4096)
    store.path().write_bytes(data)
    with pytest.raises(HistoryError, match=r"history\.sqlite is damaged"):
        known()


@pytest.mark.parametrize("planted", [
    "runs SET verdict = 'weird'", "runs SET checks = x'ff'", "hosts SET host = x'00' WHERE host = 'node01'",
    "findings SET outcome = 'odd'", "findings SET device = 'five'",
    "figures SET scope = 'galaxy'", "figures SET busbw = 'fast'",
])  # fmt: skip
def test_a_row_that_is_not_understood_is_said(planted: str) -> None:
    written("r1", failed("node01", 5), figures=FIGURES)
    with store.writing() as db:
        db.execute(f"UPDATE {planted}")
    with pytest.raises(HistoryError, match=r"cannot parse the history .*: .*\. Move it away"):
        check_run("r1")


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with pytest.raises(
        HistoryError, match=r"cannot write the history .*: Not a directory\. To use another folder, set XDG_STATE_HOME"
    ):
        remember(look("r1"))


def test_nobody_at_home_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for a container's user who has no HOME and no entry in /etc/passwd."""
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    for attempt in (known, lambda: remember(look("r1"))):
        with pytest.raises(HistoryError, match=r"there is no home directory. Set XDG_STATE_HOME"):
            attempt()


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Writing beyond `size` fails, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_disk_that_is_full_is_said_and_what_was_there_stays() -> None:
    written("r1")
    many = tuple(figure(1.0, f"node01/{n} node02/{n}") for n in range(10_000))
    with largest_file(store.path().stat().st_size), pytest.raises(HistoryError, match="cannot use the history"):
        remember(look("r2", figures=many))
    assert known() == ["r1"]


def test_a_run_waits_for_another_one_but_not_for_ever() -> None:
    written("r1")
    with store.writing(), pytest.raises(HistoryError, match="database is locked"):
        remember(look("r2"))
    written("r3")
    assert known() == ["r3", "r1"]


def test_two_runs_that_end_at_once_are_both_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "LOCK_TIMEOUT", 60.0)
    both = [threading.Thread(target=lambda who=who: [written(f"{who}{n}") for n in range(5)]) for who in "ab"]
    for one in both:
        one.start()
    for one in both:
        one.join()
    assert sorted(known()) == sorted(f"{who}{n}" for who in "ab" for n in range(5))


# Versions.


def test_a_file_of_a_newer_preflight_is_left_alone() -> None:
    written("r1")
    with sqlite3.connect(store.path()) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(HistoryError, match="newer preflight"):
        remember(look("r2"))


def test_a_file_of_an_older_preflight_is_brought_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    was = written("r1", figures=FIGURES)
    later = (*store.MIGRATIONS, ("CREATE TABLE later (word TEXT)",))
    monkeypatch.setattr(store, "MIGRATIONS", later)
    assert check_run("r1") == was
    with store.reading() as db:
        assert (db.execute("PRAGMA user_version").fetchone()[0], db.execute("SELECT * FROM later").fetchall()) == (
            len(later), []
        )  # fmt: skip
