"""Saved baselines: names for runs with good figures. Each setting and name has one."""

from preflight.history.runs import CheckRun, RunSetting, check_run, figures_of
from preflight.history.store import reading, writing
from preflight.model.errors import UsageError
from preflight.model.figures import Baseline, comparable
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome

USUAL = "default"  # the baseline that PRB115 compares with
CHECK = "PRB115"  # compares with a baseline, so its findings do not count against a new one
_OF_PORTS = "PRB116"  # its warning is accepted by saving a baseline

_RUN_OF = """SELECT run, number FROM baselines JOIN runs USING (number)
    WHERE (baselines.cluster, baselines.product, baselines.backend, baselines.name) = (?, ?, ?, ?)"""


def reason_against(run: CheckRun) -> str:
    """Return why a run's figures should not become a baseline, "" if they may."""
    if not comparable(run.figures):
        return "it measured no bandwidth of 1 MiB or more"
    findings = [finding for finding in run.findings if finding.check != CHECK]
    if checks := sorted({finding.check for finding in findings if _counts_against(finding)}):
        return f"its verdict was {run.verdict.value} ({', '.join(checks[:4])})"
    if run.verdict is Outcome.UNKNOWN and len(findings) == len(run.findings):
        return "its verdict was unknown, since hosts were left out"
    return ""


def _counts_against(finding: Finding) -> bool:
    if finding.outcome is Outcome.WARN:
        return finding.check.startswith("PRB") and finding.check != _OF_PORTS
    return True


def save(name: str, run: CheckRun) -> str:
    """Save the run as a baseline. Return the run that had the name before, or "".

    Raises UsageError for a run that is not good enough, and HistoryError.
    """
    if reason := reason_against(run):
        raise UsageError(f"run {run.run} cannot be a baseline: {reason}. A baseline needs a probe that passed.")
    with writing() as db:
        row = db.execute("SELECT number FROM runs WHERE run = ?", (run.run,)).fetchone()
        previous = db.execute(_RUN_OF, (*run.setting, name)).fetchone()
        db.execute("INSERT OR REPLACE INTO baselines VALUES (?, ?, ?, ?, ?)", (*run.setting, name, row["number"]))
    return previous["run"] if previous else ""


def saved(setting: RunSetting, name: str = USUAL) -> Baseline | None:
    """Return the baseline of that name for runs with this setting. Raises HistoryError."""
    with reading() as db:
        row = db.execute(_RUN_OF, (*setting, name)).fetchone()
        return Baseline(name, row["run"], figures_of(db, row["number"])) if row else None


def all_baselines() -> list[tuple[str, CheckRun]]:
    """Return all names with their runs, sorted by setting and name. Raises HistoryError."""
    with reading() as db:
        rows = db.execute(
            """SELECT name, run FROM baselines JOIN runs USING (number)
            ORDER BY baselines.cluster, baselines.product, baselines.backend, name"""
        ).fetchall()
    runs = [(row["name"], check_run(row["run"])) for row in rows]
    return [(name, run) for name, run in runs if run]
