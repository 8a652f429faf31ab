"""What this machine knows of a run whose journal a host has lost. The hosts are those of tests/lab."""

from preflight.model.change import Area, Change, Kind
from preflight.provision.journal import PastRun
from preflight.provision.lost_journals import made_by


def change(host: str, target: str) -> Change:
    return Change(host, Area.PORTS, Kind.FILE, target, None, "x", "PRT102")


def past(run: str, *made: Change, undoes: str = "") -> PastRun:
    return PastRun(run, "configure", "", "", "", made, undoes, made=made)


A, B = change("node01", "/etc/a"), change("node02", "/etc/b")


def test_what_a_later_run_took_back_is_not_left() -> None:
    first, other = past("1", A, B), past("2", change("node03", "/etc/a"))
    assert made_by("1", [other, first]) == (A, B)
    assert made_by("1", [past("3", A, undoes="1"), first]) == (B,)
    assert made_by("1", [past("3", A, B, undoes="1"), first]) == ()


def test_a_rollback_that_was_taken_back_itself_leaves_the_run_as_it_was() -> None:
    runs = [past("1", A, B), past("2", A, B, undoes="1"), past("3", B, undoes="2")]
    assert made_by("1", runs) == (B,)


def test_a_run_of_another_machine_is_not_known_here() -> None:
    assert made_by("9", [past("1", A)]) == ()
