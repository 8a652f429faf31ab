"""What this machine knows of a run whose journal a host has lost. The hosts are those of tests/lab."""

from preflight.model.change import Area, Change, Kind, Plan
from preflight.provision.apply import Way
from preflight.provision.journal import PastRun
from preflight.provision.lost_journals import remaining_changes, what_is_left
from preflight.provision.rollback import Undoing
from preflight.transport.dispatch import Dispatch


def change(host: str, target: str) -> Change:
    return Change(host, Area.PORTS, Kind.FILE, target, None, "x", "PRT102")


def past(run: str, *made: Change, undoes: str = "") -> PastRun:
    return PastRun(run, "configure", "", "", "", made, undoes, made=made)


A, B = change("node01", "/etc/a"), change("node02", "/etc/b")


def test_what_a_later_run_took_back_is_not_left() -> None:
    first, other = past("1", A, B), past("2", change("node03", "/etc/a"))
    assert remaining_changes("1", [other, first]) == (A, B)
    assert remaining_changes("1", [past("3", A, undoes="1"), first]) == (B,)
    assert remaining_changes("1", [past("3", A, B, undoes="1"), first]) == ()


def test_a_rollback_that_was_taken_back_itself_leaves_the_run_as_it_was() -> None:
    runs = [past("1", A, B), past("2", A, B, undoes="1"), past("3", B, undoes="2")]
    assert remaining_changes("1", runs) == (B,)


def test_a_run_of_another_machine_is_not_known_here() -> None:
    assert remaining_changes("9", [past("1", A)]) == ()


def test_what_a_damaged_journal_still_tells_is_not_called_missing() -> None:
    """A device's address is told, and in no plan: no command takes it back."""
    address = Change("node01", Area.ADDRESSES, Kind.DEVICE_ADDRESS, "0", None, "10.1.0.1/24", "NPU301")
    undo = Undoing(Plan(()), damaged={"node01": 1}, recorded=(address,))
    left = what_is_left("1", undo, [past("1", address)], Way([], Dispatch({})), "2")
    assert left.away == ()
    assert left.notes[0].endswith("The journal on this machine has no further changes.")
