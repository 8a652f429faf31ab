"""What runs of check and probe leave in the history, how it is listed, and that a verdict never depends on it."""

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from preflight.app.end import end
from preflight.app.progress_line import ProgressLine
from preflight.app.remember import baseline_of
from preflight.app.run import ClusterRun
from preflight.app.run_options import ProbeOptions
from preflight.app.session import Session
from preflight.checks.engine.run import NotRun
from preflight.cli.main import main
from preflight.cli.output import present
from preflight.cli.report_options import ReportOutput
from preflight.history import store
from preflight.history.baselines import save
from preflight.history.runs import check_runs
from preflight.model.change import Plan
from preflight.model.cluster import Cluster, Host, Product
from preflight.model.figures import Baseline
from preflight.model.finding import Finding
from preflight.model.measure import Scope
from preflight.model.outcome import Outcome
from preflight.provision.journal import RunJournal, require_directory
from tests.unit.healthy import observations
from tests.unit.past_runs import FIGURES, SETTING, failed, look, written

CLUSTER = Cluster("lab", Product.ATLAS_A2, (Host("node01", "10.1.0.1"), Host("node02", "10.1.0.2")))
EndedRun = Callable[..., tuple[int, str]]


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def ended(capsys: pytest.CaptureFixture[str]) -> EndedRun:
    """A probe of two hosts ends."""

    def run(*findings: Finding, output: str = "console", remembered: bool = True) -> tuple[int, str]:
        args = argparse.Namespace(outputs=[ReportOutput(output)], save=None, all=False)
        options = ProbeOptions(quick=True, scope=(Scope.ALL, Scope.PAIR), sizes=(8, 1 << 20))
        session = Session(CLUSTER, CLUSTER.hosts, Mock(), ProgressLine()) if remembered else None
        probe = ClusterRun("probe", options, CLUSTER, CLUSTER.hosts, session, findings=findings, runner="hccl")
        probe.observations = tuple(observations({}))
        last = end(probe)
        code = present(args, last)
        return code, capsys.readouterr().out

    return run


def history(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["history", *arguments])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


BAD, FINE = failed("node02", 5), Finding("PRB102", Outcome.PASS, "node01: fine", "node01")


def test_a_run_that_ends_is_remembered_with_what_it_found_and_measured(ended: EndedRun) -> None:
    code, out = ended(BAD, FINE, Finding("PRB103", Outcome.SKIP, "too few", "node01"))
    (past,) = check_runs(9)
    assert (code, past.exit, past.verdict, past.hosts) == (1, 1, Outcome.FAIL, ("node01", "node02"))
    assert past.checks == {"PRB101", "PRB102"}, "a check that was skipped has not looked"
    assert [(f.check, f.host, f.device) for f in past.findings] == [("PRB101", "node02", 5)]
    assert past.asked == "--quick --scope all,pair --sizes 8,1048576"
    assert (past.setting, past.next_step) == (SETTING, "preflight explain PRB101")
    assert out.endswith("next: preflight explain PRB101\n")
    with store.reading() as db:
        assert db.execute("SELECT count(*) FROM figures").fetchone()[0] == 10


def test_a_run_over_no_host_leaves_nothing(ended: EndedRun, state: Path) -> None:
    assert ended(BAD, remembered=False)[0] == 1
    assert list(state.iterdir()) == []


def test_a_device_that_fails_again_is_named_in_the_report(ended: EndedRun) -> None:
    said = [ended(BAD)[1] for _ in range(3)]
    assert ["preflight history --host node02" in " ".join(text.split()) for text in said] == [False, False, True]
    notes = json.loads(ended(BAD, output="json")[1])["notes"]
    assert notes == ["node02/5 failed PRB101 in 3 of the previous 3 runs. See: preflight history --host node02"]


@pytest.mark.parametrize("findings", [(FINE,), (BAD,)])
def test_a_history_that_cannot_be_written_changes_no_verdict(
    ended: EndedRun, findings: tuple[Finding, ...], state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    well, _ = ended(*findings)
    monkeypatch.setenv("XDG_STATE_HOME", str(state / "preflight" / "history.sqlite"))
    code, out = ended(*findings)
    assert code == well
    assert "note: this run is not in the history: cannot" in out
    assert "Not a directory. To use another folder, set XDG_STATE_HOME." in " ".join(out.split())


# Listing.


def test_both_kinds_are_listed_the_newest_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert history(capsys)[1] == "this machine has no runs yet\n"
    written("20261121-1", BAD, failed("node01", check="HST103"), FINE)
    require_directory()
    journal = RunJournal("20261121-2")
    journal.start("rollback", Path("hosts.toml"), Plan(), undoes="r1", asked=["node01"])
    journal.finish(0)
    written("20261121-3", command="check")
    lines = history(capsys)[1].splitlines()
    assert [line.split()[:2] for line in lines[1:4]] == [
        ["20261121-3", "check"], ["20261121-2", "rollback"], ["rolls", "back"]
    ]  # fmt: skip
    assert lines[4].endswith("fail: HST103, PRB101")
    assert lines[4].split()[1:3] == ["probe", "hccl"]
    written("20261121-4", asked="--quick --scope pair")
    assert history(capsys, "-n", "1")[1].splitlines()[2].strip() == "--quick --scope pair"
    assert lines[-1] == "next: preflight history 20261121-3"
    last, *listed = json.loads(history(capsys, "-o", "json", "-n", "3")[1])["runs"]
    assert last["asked"] == "--quick --scope pair"
    assert [(run["run"], run["verdict"], run["exit"]) for run in listed] == [
        ("20261121-3", "pass", 0), ("20261121-2", None, 0)
    ]  # fmt: skip
    assert set(listed[0]) == set(listed[1])


@pytest.mark.parametrize(
    ("home", "code", "says"), [("nope", 0, "{}, the directory of runs, does not exist"),
                               ("file", 3, "cannot read the runs in {}: Not a directory")],
)  # fmt: skip
def test_an_empty_list_says_whether_there_is_a_place_for_runs(
    home: str, code: int, says: str, state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (state / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(state / home))
    found, out, err = history(capsys)
    assert found == code
    assert says.format(state / home) in out + err


def test_the_runs_over_a_host_say_what_came_of_it_there(capsys: pytest.CaptureFixture[str]) -> None:
    written("r1", BAD, failed("node02", 6))
    written("r2", failed("node01"))
    written("r3", hosts=("node01",))
    lines = history(capsys, "--host", "node02")[1].splitlines()
    assert [line.split(maxsplit=4)[4] for line in lines[1:3]] == [
        "pass (whole run: fail)", "fail: PRB101 (device 5, 6)"
    ]  # fmt: skip
    assert history(capsys, "--host", "node09")[1] == "this machine has no run with node09\n"


def test_one_run_is_shown_with_its_findings_folded_and_what_to_do_next(capsys: pytest.CaptureFixture[str]) -> None:
    both = [Finding("HST103", Outcome.FAIL, f"{host}: its clock is off", host) for host in ("node01", "node02")]
    written("r1", *both, figures=FIGURES, next_step="preflight explain HST103")
    _, out, _ = history(capsys, "r1")
    assert "    node[01-02]: its clock is off" in out.splitlines()
    assert out.splitlines()[-2:] == ["FAIL: node[01-02], exit code 1", "next: preflight explain HST103"]
    (run,) = json.loads(history(capsys, "r1", "-o", "json")[1])["runs"]
    assert [finding["check"] for finding in run["findings"]] == ["HST103", "HST103"]
    assert (run["figures"][0]["op"], run["figures"][0]["busbw_GBps"]) == ("all_reduce", 8.0)
    code, out, err = history(capsys, "r2")
    assert (code, out) == (2, "")
    assert "this machine has no run r2" in err


def test_the_journals_are_listed_where_the_history_is_damaged(capsys: pytest.CaptureFixture[str]) -> None:
    require_directory()
    journal = RunJournal("r1")
    journal.start("configure", Path("hosts.toml"), Plan())
    journal.finish(0)
    store.path().write_text("no database " * 1000)
    code, out, err = history(capsys)
    assert code == 3
    assert "configure" in out
    assert "is damaged" in err


def test_rows_that_are_not_understood_change_no_verdict_and_end_a_list_in_one_sentence(
    ended: EndedRun, capsys: pytest.CaptureFixture[str]
) -> None:
    was = written("r1", figures=FIGURES)
    save("default", was)
    with store.writing() as db:
        db.execute("UPDATE runs SET verdict = 'weird'")
        db.execute("UPDATE figures SET scope = 'galaxy'")
    assert ended(BAD)[0] == 1
    measure = baseline_of(SETTING)
    assert isinstance(measure, NotRun)
    assert "'galaxy' is not a valid Scope" in measure.reason
    code, _, err = history(capsys)
    assert code == 3
    assert "'weird' is not a valid Outcome. Move it away" in " ".join(err.split())


def test_what_the_hosts_said_reaches_no_screen_unescaped(capsys: pytest.CaptureFixture[str]) -> None:
    written("r1", Finding("HST103", Outcome.FAIL, "node01: \x1b[2J", "node01"))
    assert "\x1b" not in history(capsys, "r1")[1]


# The baseline that a probe is judged by.


def test_the_baseline_of_the_same_setting_is_the_measure_or_why_there_is_none() -> None:
    was = look("r1", figures=FIGURES)
    written("r1", figures=FIGURES)
    save("default", was)
    assert baseline_of(SETTING) == Baseline("default", "r1", FIGURES)
    other = baseline_of(SETTING._replace(backend="gloo"))
    assert isinstance(other, NotRun)
    assert other.reason == "no baseline of lab over gloo is saved. To save one: preflight baseline save"
    os.truncate(store.path(), 5000)
    broken = baseline_of(SETTING)
    assert isinstance(broken, NotRun)
    assert "is damaged" in broken.reason
