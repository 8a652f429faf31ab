"""Runs that a command line names: by id, by a unique beginning of it, or by the words last and passed."""

from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from pathlib import Path

from preflight.app.options import DEFAULT_INVENTORY
from preflight.history.runs import CheckRun, check_run, check_run_ids, check_runs, last_passed_run, newest_check_run
from preflight.history.store import HistoryError
from preflight.model.errors import UsageError
from preflight.provision.journal import PastRun, known_journals, past_run, past_runs, taken_back

LAST, PASSED = "last", "passed"
_CANDIDATES = 8  # runs that an ambiguous beginning lists
_LIST = "To list the runs: preflight history"


def any_run(word: str) -> PastRun | CheckRun:
    """Return the run, of a command that changed hosts or of check or probe. Raise UsageError or HistoryError."""
    if word == LAST:
        return _newest_of_all()
    if word == PASSED:
        return checking_run(word)
    journals = known_journals()
    ids = journals if word in journals else [*journals, *check_run_ids(word)]
    run = _only(word, ids)
    past = (past_run(run) or check_run(run)) if run else None
    if past is None:
        raise UsageError(_unknown(word))
    return past


def checking_run(word: str, inventory: Path = DEFAULT_INVENTORY, *, also: str = "") -> CheckRun:
    """Return the run of check or probe. Raise UsageError or HistoryError.

    `last` and `passed` are runs over `inventory`. `also` is added to the error: what else the word could have been.
    """
    if word == LAST:
        return _newest(inventory)
    if word == PASSED:
        last = _newest(inventory)
        if passed := last_passed_run(last):
            return passed
        raise UsageError(f"no run of cluster {last.setting.cluster} before run {last.run} passed. {_LIST}")
    run = _only(word, check_run_ids(word))
    if past := check_run(run) if run else None:
        return past
    if run := _only(word, known_journals()):
        raise UsageError(f"run {run} changed hosts. Choose a run of check or probe. {_LIST}")
    raise UsageError(_unknown(word, also))


def changing_run(word: str, inventory: Path | None) -> PastRun | None:
    """Return the run that changed hosts, for a command that takes it back. Raise UsageError.

    `last` is the newest run that is neither a rollback nor taken back. Return None for a run of another machine, which
    needs `inventory`.
    """
    if word == LAST:
        return _last_to_take_back(inventory)
    run = _only(word, known_journals())
    if past := past_run(run) if run else None:
        return past
    if inventory is not None:
        return None
    with suppress(HistoryError):
        check_id = _only(word, check_run_ids(word))
        if past_check := check_run(check_id) if check_id else None:
            raise UsageError(f"run {past_check.run} is of {past_check.command}, which changes nothing. {_LIST}")
    raise UsageError(f"{_unknown(word)}\nFor a run that was started on another machine, add --inventory.")


def _newest_of_all() -> PastRun | CheckRun:
    """Return the newest run of both kinds; ids begin with the time."""
    runs: list[PastRun | CheckRun] = list(islice(past_runs(), 1))
    runs += check_runs(1)
    if not runs:
        raise UsageError("this machine has no runs yet. To start one: preflight check --inventory hosts.toml")
    return max(runs, key=lambda past: past.run)


def _newest(inventory: Path) -> CheckRun:
    """Return the newest run over the given or default inventory; over any inventory if there is none."""
    has_inventory = inventory is not DEFAULT_INVENTORY or inventory.exists()
    newest = newest_check_run(str(inventory.absolute()) if has_inventory else "")
    if newest is None:
        scope = f" over {inventory}" if has_inventory else ""
        raise UsageError(
            f"this machine has no run of check or probe{scope}. To start one: preflight check --inventory {inventory}"
        )
    return newest


def _last_to_take_back(inventory: Path | None) -> PastRun:
    runs = [past for past in past_runs() if past.touched]
    undone = taken_back(runs)
    over = str(inventory.absolute()) if inventory else ""
    for past in runs:
        if not past.undoes and past.run not in undone and over in ("", past.inventory):
            return past
    raise UsageError(f"this machine has no run that changed hosts and was not rolled back. {_LIST}")


def _only(word: str, known: Iterable[str]) -> str | None:
    """Return the run that `word` names in full or as a beginning.

    Raise UsageError with the candidates if several match.
    """
    matches = sorted({run for run in known if word and run.startswith(word)}, reverse=True)
    if word in matches:
        return word
    if len(matches) > 1:
        remainder = [f"  … and {len(matches) - _CANDIDATES} more"] if len(matches) > _CANDIDATES else []
        listed = [f"  {run}" for run in matches[:_CANDIDATES]]
        head = f"{word} matches {len(matches)} runs. Give more of the id:"
        raise UsageError("\n".join([head, *listed, *remainder]))
    return matches[0] if matches else None


def _unknown(word: str, also: str = "") -> str:
    return f"this machine has no run {word or repr(word)}{also}. {_LIST}"
