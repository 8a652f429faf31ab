"""How much of what runs have seen is kept."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from preflight.app.remember import remembered
from preflight.app.run import ClusterRun
from preflight.app.run_options import CheckOptions
from preflight.history import documents, runs, store
from preflight.history.documents import FACTS
from preflight.history.runs import RunSetting, remember
from preflight.history.store import HistoryError, reading
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome
from preflight.report.build import build
from tests.unit.cli.test_diff import facts, ran
from tests.unit.healthy import healthy_cluster
from tests.unit.past_runs import failed, look


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def test_facts_of_the_newest_runs_are_kept_and_those_of_the_last_that_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MOST_RUNS", 2)
    ran("r0", facts=facts())
    ran("r1", facts=facts())
    for number in range(2, 6):
        ran(f"r{number}", failed("node01"), facts=facts())
    assert [run for run in (f"r{n}" for n in range(6)) if documents.kept(run, FACTS)] == ["r1", "r4", "r5"]


def test_facts_that_are_too_large_together_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MOST_BYTES", 10)
    for number in range(3):
        ran(f"r{number}", failed("node01"), facts=facts())
    assert [run for run in ("r0", "r1", "r2") if documents.kept(run, FACTS)] == ["r2"]


def test_facts_of_many_clusters_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MOST_RUNS", 2)
    monkeypatch.setattr(documents, "MOST_BYTES", 1000)
    for number in range(9):
        remember(look(f"r{number}", setting=RunSetting(f"job-{number}", "atlas-a2")), {FACTS: b"x" * 300})
    with reading() as db:
        left = [run for (run,) in db.execute("SELECT run FROM kept JOIN runs USING (number) ORDER BY run")]
    assert left == ["r6", "r7", "r8"], "the clusters that were looked at longest ago went first"


def test_of_the_newest_cluster_the_last_run_that_passed_stays_however_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MOST_BYTES", 10)
    for run, findings in (("r1", []), ("r2", [failed("node01")])):
        ran(run, *findings, facts=facts())
    assert all(documents.kept(run, FACTS) for run in ("r1", "r2"))
    ran("r3", failed("node01"), facts=facts(), setting=RunSetting("other", "atlas-a2"))
    assert [run for run in ("r1", "r2", "r3") if documents.kept(run, FACTS)] == ["r3"]


def test_runs_of_many_clusters_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "MOST_RUNS", 5)
    for number in range(60):
        ran(f"r{number:02}", setting=RunSetting(f"job-{number}", "atlas-a2"))
    assert runs.check_run_ids() == [f"r{number:02}" for number in range(59, 39, -1)]


@pytest.mark.parametrize(
    ("bound", "largest", "says"), [("LARGEST", 5, "larger than 0 MiB"), ("LARGEST_COMPRESSED", 5, "larger than 0 MiB")]
)
def test_facts_that_are_too_large_to_be_read_are_one_sentence(
    bound: str, largest: int, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran("r1", facts=facts())
    assert documents.kept("r1", FACTS)
    monkeypatch.setattr(documents, bound, largest)
    with pytest.raises(HistoryError, match=says):
        documents.kept("r1", FACTS)


def test_facts_that_are_cut_are_one_sentence() -> None:
    ran("r1", facts=facts())
    with store.writing() as db:
        db.execute("UPDATE kept SET body = substr(body, 1, length(body) - 20)")
    with pytest.raises(HistoryError, match="it is truncated"):
        documents.kept("r1", FACTS)


def test_what_is_no_unicode_is_remembered_without_documents() -> None:
    finding = Finding("PRT101", Outcome.FAIL, "node01: \udcff", "node01")
    report_ = build("check", datetime.now(UTC), ["node01"], [finding])
    options = CheckOptions(Path("/srv/\udcff.toml"))
    notes = remembered(report_, ClusterRun("check", options, healthy_cluster(), ()), 1, "").notes
    assert [note[:31] for note in notes] == ["facts and report of this run ar"]
    assert runs.check_run_ids() == [report_.run]
