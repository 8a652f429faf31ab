"""Saved baselines: a name for a run whose figures are good, one for each setting and name."""

from preflight.history.runs import Look, Setting, figures_of, past_look
from preflight.history.store import reading, writing
from preflight.model.errors import UsageError
from preflight.model.figures import Baseline, comparable
from preflight.model.outcome import Outcome

USUAL = "default"  # the name of the one that the probe is judged by
CHECK = "PRB115"  # judges by it; what it says is no reason against saving another one
_OF_PORTS = "PRB116"  # a baseline is how its warning is said to be normal


def why_not_good(look: Look) -> str:
    """Why a run's figures should not be what others are measured by; empty where they may."""
    if not comparable(look.figures):
        return "it measured no bandwidth of 1 MiB or more"
    others = [finding for finding in look.findings if finding.check != CHECK]
    bad = {
        f.check for f in others if f.outcome is not Outcome.WARN or (f.check.startswith("PRB") and f.check != _OF_PORTS)
    }
    if bad:
        return f"its verdict was {look.verdict.value}: {', '.join(sorted(bad)[:4])}"
    if look.verdict is Outcome.UNKNOWN and len(others) == len(look.findings):
        return "its verdict was unknown: hosts were left out"
    return ""


def save(name: str, look: Look) -> str:
    """Call the run good; the run that had the name before, if one had. Raises UsageError and HistoryError."""
    if why := why_not_good(look):
        raise UsageError(f"run {look.run} is no baseline: {why}; a baseline is saved from a probe that passed")
    with writing() as db:
        row = db.execute("SELECT number FROM runs WHERE run = ?", (look.run,)).fetchone()
        before = db.execute(_RUN_OF, (*look.setting, name)).fetchone()
        db.execute("INSERT OR REPLACE INTO baselines VALUES (?, ?, ?, ?, ?)", (*look.setting, name, row["number"]))
    return before["run"] if before else ""


_RUN_OF = """SELECT run, number FROM baselines JOIN runs USING (number)
    WHERE (baselines.cluster, baselines.product, baselines.backend, baselines.name) = (?, ?, ?, ?)"""


def saved(setting: Setting, name: str = USUAL) -> Baseline | None:
    """The baseline of that name for runs like this one. Raises HistoryError."""
    with reading() as db:
        row = db.execute(_RUN_OF, (*setting, name)).fetchone()
        return Baseline(name, row["run"], figures_of(db, row["number"])) if row else None


def all_saved() -> list[tuple[str, Look]]:
    """Names and their runs, sorted by setting and name. Raises HistoryError."""
    with reading() as db:
        rows = db.execute(
            """SELECT name, run FROM baselines JOIN runs USING (number)
            ORDER BY baselines.cluster, baselines.product, baselines.backend, name"""
        )
        found = [(row["name"], row["run"]) for row in rows]
    return [(name, look) for name, run in found if (look := past_look(run))]
