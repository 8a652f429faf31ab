"""`preflight baseline`: what may be saved, and what a comparison says."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from preflight.cli.main import main
from preflight.history import runs
from preflight.history.runs import check_runs
from preflight.model.figures import LEAST, Baseline, Figure, compare, figures, strangers
from preflight.model.measure import Member, Scope, TestOutcome, TestResult
from preflight.model.outcome import Outcome
from tests.unit.past_runs import FIGURES, MIB, SETTING, failed, figure, written

Command = Callable[..., tuple[int, str, str]]
WARNING = failed("node02", check="HST105", outcome=Outcome.WARN)


@pytest.fixture
def baseline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(["baseline", *arguments])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return run


def slower(share: float, of: Sequence[Figure] = FIGURES) -> tuple[Figure, ...]:
    return tuple(replace(one, busbw=share * one.busbw) for one in of)


# Figures.


def measured(busbw: float | None, *, members: str = "a/0 b/0", scope: Scope = Scope.PAIR, **more: object) -> TestResult:
    places = [place.split("/") for place in members.split()]
    ranked = tuple(Member(host, int(device), rank) for rank, (host, device) in enumerate(places))
    seconds = 1 / busbw if busbw else None
    test = TestResult("r1-0", "all_reduce", "float32", MIB, None, ranked, TestOutcome.PASS, "closed",
                      busbw_GBps=busbw, seconds=seconds, scope=scope)  # fmt: skip
    return replace(test, **more)  # type: ignore[arg-type]


def test_of_repeated_measurements_the_best_counts_and_of_several_roots_the_median() -> None:
    repeated = [measured(2.0), measured(5.0), measured(3.0)]
    assert [one.busbw for one in figures(repeated)] == [5.0]
    roots = [measured(busbw, op="broadcast", root=root) for root, busbw in enumerate([1.0, 4.0, 9.0])]
    assert [one.busbw for one in figures(roots)] == [4.0]


def test_what_failed_or_measured_nothing_is_no_figure() -> None:
    hang = measured(2.0, outcome=TestOutcome.HANG)
    assert figures([hang, measured(None), measured(1.0, bytes=0), measured(1.0, scope=Scope.DEVICE)]) == ()


def test_a_pair_is_the_same_pair_in_any_order() -> None:
    one, other = figures([measured(1.0, members="b/0 a/0")]), figures([measured(1.0)])
    assert one == other


def test_the_largest_size_that_both_have_is_compared_and_small_ones_never() -> None:
    sizes = [LEAST // 2, LEAST, 4 * LEAST, 8 * LEAST]
    was, now = ([figure(1.0, bytes=size) for size in chosen] for chosen in (sizes[:3], sizes))
    (one,) = compare(Baseline("b", "r1", tuple(was)), now)
    assert one.now.shape.bytes == 4 * LEAST
    assert compare(Baseline("b", "r1", tuple(was[:1])), now) == []


@pytest.mark.parametrize(("more", "scopes"), [({"ranks": 8}, [Scope.ALL]), ({"hosts": 4}, [Scope.ALL]), ({}, [])])
def test_other_ranks_are_no_measure(more: dict[str, int], scopes: list[Scope]) -> None:
    assert strangers(Baseline("b", "r1", FIGURES), [figure(1.0, "", **more)]) == scopes


@pytest.mark.parametrize(
    ("share", "pair", "everybody"),
    [(0.94, "pass", "pass"), (0.92, "warn", "pass"), (0.85, "warn", "warn"), (0.78, "fail", "warn"),
     (0.7, "fail", "fail")],
)  # fmt: skip
def test_limits_are_narrower_for_pairs(share: float, pair: str, everybody: str) -> None:
    found = compare(Baseline("b", "r1", FIGURES[:2]), slower(share)[:2])
    assert {one.now.shape.scope.value: one.outcome.value for one in found} == {"pair": pair, "all": everybody}


# Saving.


def test_the_last_probe_that_passed_is_saved_and_shown(baseline: Command) -> None:
    written("r1", figures=FIGURES)
    written("r2", WARNING, figures=FIGURES)
    written("r3", failed("node02", 5), figures=FIGURES)
    written("r4")
    assert baseline("save") == (0, "saved run r2 as baseline default of lab (atlas-a2, hccl)\n"
                                   "bandwidths: 3\nnext: preflight baseline show\n",
                                   "skipped run r4: it measured no bandwidth of 1 MiB or more\n"
                                   "skipped run r3: its verdict was fail (PRB101)\n")  # fmt: skip
    code, out, _ = baseline("show")
    assert (code, max(map(len, out.splitlines())) <= 80) == (0, True)
    assert "    10.00  all_reduce sum float32 16 MiB                2 pairs, slowest shown" in out.splitlines()
    assert baseline("save", "r1")[1].startswith(
        "saved run r1 as baseline default of lab (atlas-a2, hccl) in place of run r2"
    )


@pytest.mark.parametrize(
    ("findings", "why"),
    [
        ([failed("node02", 5)], "its verdict was fail (PRB101)"),
        ([failed("node02", check="PRB103", outcome=Outcome.WARN)], "its verdict was warn (PRB103)"),
        ([failed("node02", outcome=Outcome.UNKNOWN)], "its verdict was unknown (PRB101)"),
    ],
)  # fmt: skip
def test_a_run_whose_probe_found_something_is_no_baseline(baseline: Command, findings: list, why: str) -> None:  # type: ignore[type-arg]
    written("r1", *findings, figures=FIGURES)
    code, out, err = baseline("save", "r1")
    assert (code, out) == (2, "")
    assert f"run r1 cannot be a baseline: {why}" in err
    assert baseline("save")[0] == 2


def test_a_run_that_is_only_slower_than_the_last_baseline_may_be_the_new_one(baseline: Command) -> None:
    written("r1", failed("node02", check="PRB115"), figures=slower(0.5))
    assert baseline("save")[0] == 0


def test_a_baseline_may_say_that_pairs_far_below_their_ports_are_normal(baseline: Command) -> None:
    written("r1", failed("node02", check="PRB116", outcome=Outcome.WARN), figures=FIGURES)
    assert baseline("save")[0] == 0
    written("r2", failed("node02", check="PRB116"), figures=FIGURES)
    assert baseline("save", "r2")[0] == 2


def test_a_baseline_is_not_replaced_by_one_that_covers_less(baseline: Command) -> None:
    written("r1", figures=FIGURES)
    baseline("save")
    written("r2", figures=FIGURES[:2])
    code, out, err = baseline("save")
    assert (code, out) == (2, "")
    assert err == (
        "preflight: run r2 has fewer bandwidths than baseline default, run r1: 1 instead of 2 of pair. Save it "
        "under another name with --name, or replace the baseline with --force.\n"
    )
    assert "default of lab (atlas-a2, hccl): run r1" in baseline("show")[1]
    assert baseline("save", "--name", "small")[0] == 0
    assert baseline("save", "--force")[0] == 0
    assert "in place of run r2" in baseline("save", "r1")[1]


def test_compare_takes_the_run_that_save_would_take(baseline: Command) -> None:
    written("r1", figures=FIGURES)
    baseline("save")
    written("r2", figures=(figure(8.0, bytes=8),))
    code, out, err = baseline("compare")
    assert (code, out.startswith("bus bandwidth in GB/s: run r1 against baseline default, run r1")) == (0, True)
    assert err == "skipped run r2: it measured no bandwidth of 1 MiB or more\n"


def test_each_setting_has_its_own_and_names_keep_several(baseline: Command) -> None:
    written("r1", figures=FIGURES)
    written("r2", figures=slower(0.5), setting=SETTING._replace(backend="gloo"))
    assert [baseline("save", run)[0] for run in ("r1", "r2")] == [0, 0]
    assert baseline("save", "r1", "--name", "before the move")[0] == 0
    heads = [line for line in baseline("show")[1].splitlines() if ": run " in line]
    assert [head.partition(":")[0] for head in heads] == [
        "default of lab (atlas-a2, gloo)", "before the move of lab (atlas-a2, hccl)", "default of lab (atlas-a2, hccl)"
    ]  # fmt: skip


def test_the_run_of_a_baseline_is_not_forgotten(baseline: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    written("r1", figures=FIGURES)
    baseline("save")
    monkeypatch.setattr(runs, "MOST_RUNS", 2)
    for run in ("r2", "r3", "r4"):
        written(run, figures=FIGURES)
    assert [past.run for past in check_runs(9)] == ["r4", "r3", "r1"]


# Comparing.


def test_the_worst_comes_first_and_what_is_well_is_folded(baseline: Command) -> None:
    pairs = tuple(figure(10.0 + n, f"node01/{n} node02/{n}") for n in range(8))
    written("r1", figures=(figure(8.0), *pairs))
    baseline("save")
    now = (figure(7.0), replace(pairs[0], busbw=5.0), *pairs[1:7], replace(pairs[7], busbw=16.5))
    written("r2", failed("node01", check="PRB115"), figures=now)
    code, out, _ = baseline("compare")
    lines = out.splitlines()
    assert code == 1
    assert [line.split()[:4] for line in lines[2:5]] == [
        ["fail", "10.00", "5.00", "50%"], ["warn", "8.00", "7.00", "88%"], ["pass", "17.00", "16.50", "97%"]
    ]  # fmt: skip
    who = ["node01/0 - node02/0", "all 16 ranks", "7 pairs, slowest shown"]
    assert [line.endswith("  " + words) for line, words in zip(lines[2:5], who, strict=True)] == [True] * 3
    assert lines[-2:] == ["FAIL: 2 of 9 bandwidths too low", "next: preflight explain PRB115"]
    found = json.loads(baseline("compare", "-o", "json")[1])["baselines"][0]
    assert (found["run"], found["baseline"], found["compared"][0]["share"]) == ("r2", "r1", 0.5)


def test_warnings_alone_are_no_failure_and_what_was_not_compared_is_said(baseline: Command) -> None:
    written("r1", figures=FIGURES)
    baseline("save")
    written("r2", figures=(figure(8.0, ranks=8), *slower(0.9, FIGURES[1:])))
    code, out, _ = baseline("compare", "r2")
    assert (code, "WARN: 2 of 2 bandwidths too low" in out) == (0, True)
    assert "not compared: all (hosts, ranks or sizes differ from the baseline)" in out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["save"], "no probe from this machine has passed with bandwidths yet. Run: preflight probe"),
        (["save", "r9"], "this machine has no run r9. To list the runs: preflight history"),
        (["compare"], "no probe from this machine has passed with bandwidths yet"),
        (["compare", "r9"], "this machine has no run r9. To list the runs: preflight history"),
        (["save", "--name", "\x1b"], "is not a name of 1 to 40 characters"),
    ],
)
def test_bad_input_is_one_sentence(
    baseline: Command, arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code, out, err = baseline(*arguments)
    except SystemExit as end:
        code, (out, err) = int(str(end.code)), capsys.readouterr()
    assert (code, out) == (2, "")
    assert sentence in err


def test_nothing_saved_and_nothing_comparable_are_said(baseline: Command) -> None:
    assert baseline("show")[:2] == (0, "no baseline is saved yet\nnext: preflight baseline save\n")
    written("r1", figures=FIGURES)
    assert "no baseline default of lab (atlas-a2, hccl)" in baseline("compare")[2]
    baseline("save")
    written("r2", figures=(figure(8.0, ranks=8),))
    code, _, err = baseline("compare", "r2")
    assert code == 2
    assert "cannot compare run r2 with baseline default, run r1" in err
