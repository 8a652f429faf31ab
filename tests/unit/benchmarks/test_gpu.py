"""`make gpu`: refusals without an idle GPU, the verdicts, and the page. The trials themselves need a GPU."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import gpu
from benchmarks.gpu_data_sheets import pcie
from benchmarks.gpu_trials import Machine, Outcome, Trial, Verdict, judge_collectives, judge_figures, play, reported
from preflight.facts.parsers.nvidia.nvidia_smi import Gpus
from tests.unit.healthy_gpus import healthy_nvidia

_BUSY = """\
Driver Version : 580.159.04
Attached GPUs : 1
GPU 00000000:00:06.0
    Product Name : NVIDIA H100 80GB HBM3
    Processes
        GPU instance ID : N/A
        Process ID : 615
            Type : C
            Name : python3
            Used GPU Memory : 800 MiB
"""


@pytest.fixture
def gpus() -> Gpus:
    value = healthy_nvidia(0).gpus.value
    assert value is not None
    return value


def tool(folder: Path, output: str) -> None:
    (folder / "nvidia-smi").write_text(f"#!/bin/sh\nprintf '%s' '{output}'\n")
    (folder / "nvidia-smi").chmod(0o755)


def test_without_nvidia_smi_nothing_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    page = tmp_path / "page.md"
    assert gpu.main([str(page)]) == 3
    printed = capsys.readouterr()
    assert printed.err.startswith("nothing ran: nvidia-smi is not on PATH")
    assert printed.out == ""
    assert not page.exists()


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("NVIDIA-SMI has failed because it couldnt communicate with the NVIDIA driver.", "NVIDIA-SMI has failed"),
        (_BUSY, "a GPU is in use by python3 (pid 615)"),
    ],
)
def test_without_an_idle_gpu_nothing_runs(
    output: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tool(tmp_path, output)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert gpu.main([str(tmp_path / "page.md")]) == 3
    assert reason in capsys.readouterr().err
    assert not (tmp_path / "page.md").exists()


def measured(memory: float, bfloat16: float) -> list[dict[str, Any]]:
    copies: list[dict[str, Any]] = [{"op": op, "dtype": "int32", "algbw_GBps": rate, "tflops": None}
              for op, rate in (("memory", memory), ("copy_in", 53.0), ("copy_out", 53.0))]  # fmt: skip
    return [*copies, {"op": "matmul", "dtype": "bfloat16", "algbw_GBps": None, "tflops": bfloat16}]


def test_figures_are_compared_with_the_data_sheet(gpus: Gpus) -> None:
    outcome = judge_figures(measured(1150.0, 790.0), gpus.gpus)
    assert outcome.verdict is Verdict.RIGHT
    assert "memory 2300 GB/s (69% of 3350)" in outcome.text
    assert "bfloat16 790 TFLOP/s (80% of 989)" in outcome.text


@pytest.mark.parametrize(("memory", "bfloat16", "text"), [(400.0, 790.0, "memory 800"), (1150.0, 90.0, "bfloat16 90")])
def test_a_figure_far_below_the_data_sheet_is_wrong(memory: float, bfloat16: float, text: str, gpus: Gpus) -> None:
    outcome = judge_figures(measured(memory, bfloat16), gpus.gpus)
    assert outcome.verdict is Verdict.WRONG
    assert text in outcome.text


def test_without_a_data_sheet_no_figure_is_wrong(gpus: Gpus) -> None:
    unknown = [replace(gpu, product="NVIDIA H900") for gpu in gpus.gpus]
    outcome = judge_figures(measured(1.0, 1.0), unknown)
    assert outcome.verdict is Verdict.RIGHT
    assert "bfloat16 1 TFLOP/s (no data sheet)" in outcome.text


def collective(outcome: str, dtype: str = "float32") -> dict[str, Any]:
    return {"op": "all_reduce", "dtype": dtype, "outcome": outcome, "busbw_GBps": 400.0}


def test_collectives_pass_although_a_type_is_refused() -> None:
    outcome = judge_collectives([collective("pass"), collective("refused", "int16")])
    text = "1 tests of 1 operations, all values exact. NCCL refuses all_reduce int16. all_reduce reaches 400 GB/s (bus)"
    assert outcome == Outcome(Verdict.RIGHT, text)


@pytest.mark.parametrize("tests", [[], [collective("pass"), collective("wrong_data")], [collective("not_run")]])
def test_collectives_that_fail_or_do_not_run_are_wrong(tests: list[dict[str, Any]]) -> None:
    assert judge_collectives(tests).verdict is Verdict.WRONG


def test_the_rate_of_a_pcie_link_follows_from_generation_and_width() -> None:
    assert pcie(5, 16) == pytest.approx(63, abs=0.1)
    assert pcie(None, 16) is None
    assert pcie(5, None) is None


def test_a_probe_that_has_to_fail_is_wrong_if_it_passes() -> None:
    finding = {"check": "PRB101", "summary": "node01: no GPU is visible", "cause": "hidden"}
    assert reported({"findings": [finding]}, ["no GPU is visible", "hidden"]).verdict is Verdict.RIGHT
    assert reported({"findings": [finding]}, ["too old"]).verdict is Verdict.WRONG
    assert reported({"findings": []}, []).verdict is Verdict.WRONG


def test_a_trial_that_breaks_is_wrong(tmp_path: Path, gpus: Gpus) -> None:
    def breaks(_: Machine) -> Outcome:
        raise RuntimeError("no report, exit code 2")

    outcome = play(Trial("breaks", breaks), Machine("python3", tmp_path, gpus))
    assert outcome == Outcome(Verdict.WRONG, "RuntimeError: no report, exit code 2")
