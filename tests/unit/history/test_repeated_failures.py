"""Who fails again and again is named, once, and in few words."""

from dataclasses import replace
from pathlib import Path

import pytest

from preflight.history.repeated_failures import notes, repeated_failures
from preflight.inventory import fold
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome
from tests.unit.past_runs import SETTING, failed, written


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def said(*now: Finding, cluster: str = SETTING.cluster) -> list[str]:
    return list(notes(repeated_failures(cluster, now), fold))


BAD = failed("node02", 5)


def test_a_device_that_failed_twice_before_is_named() -> None:
    for run, findings in enumerate([[BAD], [], [BAD], [BAD, failed("node01", 5)], []]):
        written(f"r{run}", *findings)
    assert said(BAD, failed("node01", 5), failed("node02", 4)) == [
        "node02/5 failed PRB101 in 3 of the previous 5 runs. See: preflight history --host node02"
    ]


@pytest.mark.parametrize("now", [failed("node02"), failed("node02", 5, "PRB102")])
def test_another_subject_and_another_check_are_other_faults(now: Finding) -> None:
    written("r1", BAD)
    written("r2", BAD)
    assert said(now) == []
    assert said() == [], "what passes now is nobody's complaint"
    assert said(BAD, cluster="another") == []


def test_only_the_last_five_runs_over_the_host_in_which_the_check_looked_count() -> None:
    written("r1", BAD)
    written("r2", BAD)
    for run in range(3, 8):
        written(f"r{run}", hosts=("node01",))
        written(f"s{run}", checks=frozenset({"HST101"}))
    assert said(BAD) == ["node02/5 failed PRB101 in 2 of the previous 2 runs. See: "
                         "preflight history --host node02"]  # fmt: skip
    for run in range(4):
        written(f"t{run}")
    assert said(BAD) == [], "four of the last five were well"


def test_of_a_pair_whose_fault_is_not_known_the_pair_is_named() -> None:
    pair = replace(failed("node01", 3, "PRB103"), peer="node02/3")
    for run in ("r1", "r2"):
        written(run, pair)
    assert said(failed("node01", 3, "PRB103"), replace(pair, peer="node02/4")) == []
    assert [line.partition(" failed")[0] for line in said(pair)] == ["node01/3 with node02/3"]


def test_warnings_do_not_count() -> None:
    for run in range(5):
        written(f"r{run}", failed("node02", 5, outcome=Outcome.WARN))
    assert said(BAD) == []


def test_the_notes_are_folded_and_few() -> None:
    hosts = [f"node{n:02}" for n in range(1, 41)]
    checks = [f"HST10{n}" for n in range(6)]
    now = [failed(host, check=check) for host in hosts for check in checks]
    for run in range(3):
        written(f"r{run}", *now, hosts=tuple(hosts), checks=frozenset(checks))
    lines = said(*now)
    assert len(lines) == 4
    assert lines[0].startswith("node[01-40] failed HST100 in 3 of the previous 3 runs")
    assert lines[-1] == "hosts repeatedly failed 3 more checks. See: preflight history"


def test_many_devices_of_one_check_are_counted() -> None:
    now = [failed("node01", device) for device in range(8)]
    written("r1", *now)
    written("r2", *now[1:], BAD)
    written("r3", *now)
    (line,) = said(*now)
    assert line.startswith("node01/1, node01/2, node01/3, node01/4 and 4 more failed PRB101 in up to 3 of the previous")
