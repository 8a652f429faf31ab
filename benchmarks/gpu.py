"""What preflight does on a machine with NVIDIA GPUs: `make gpu`. Writes docs/gpu-run.md.

`python -m benchmarks.gpu [--python PROGRAM] [FILE]`. Exit code 0: all is right. 1: something is not. 3: no idle GPU, so
nothing ran and no page was written.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.gpu_trials import TRIALS, Machine, Outcome, Trial, Verdict, nvidia_smi_output, play, report_of
from benchmarks.measure import machine as machine_line
from preflight.checks.engine.registry import all_checks
from preflight.facts.parsers.nvidia.nvidia_smi import Gpus, query
from preflight.facts.reading import Missing

_NO_GPU = 3
_VERSIONS = "import torch; print(torch.__version__, torch.version.cuda, '.'.join(map(str, torch.cuda.nccl.version())))"
_HEAD = """\
# A run on a GPU

`make gpu` writes this page on a machine with NVIDIA GPUs. It takes about three minutes, and the GPUs must be idle. It
runs preflight's parsers, checks and probe on the real driver, CUDA and NCCL. The figures are the lowest of all GPUs. In
brackets is their share of the figure on the GPU's data sheet (`benchmarks/gpu_data_sheets.py`).

A machine with one GPU shows no traffic between GPUs or hosts. [never-run.md](never-run.md) lists the code that has not
run yet.
"""
_CHECKS = """
## Checks

The outcome of each GPU check on this machine (`preflight check --only GPU`). A finding is about the machine, not about
preflight.

| check | title | outcome |
|---|---|---|
"""


def gpus_here() -> Gpus | str:
    """Return the GPUs of this machine, or why there are none to test."""
    try:
        gpus = query(nvidia_smi_output("-q"))
    except FileNotFoundError:
        return "nvidia-smi is not on PATH"
    except (OSError, subprocess.SubprocessError) as error:
        return f"nvidia-smi does not run: {error}"
    if isinstance(gpus, Missing):
        return gpus.error
    if not gpus.gpus:
        return "nvidia-smi lists no GPU"
    users = [process for gpu in gpus.gpus for process in gpu.processes or () if "C" in process.kind]
    return f"a GPU is in use by {users[0].name} (pid {users[0].pid})" if users else gpus


def outcomes(trials: Sequence[Trial], machine: Machine) -> Iterator[tuple[Trial, Outcome]]:
    """Run all trials in turn, and print each outcome."""
    for trial in trials:
        outcome = play(trial, machine)
        print(f"{outcome.verdict:8} {trial.shows}: {outcome.text}", flush=True)
        yield trial, outcome


def check_rows(machine: Machine) -> Iterator[str]:
    """Yield a row of the page for each GPU check."""
    report = report_of("check", "--no-probe", inventory=machine.inventory("checks", devices=machine.count))
    for check in all_checks().values():
        if check.id.startswith("GPU"):
            findings = [finding for finding in report["findings"] if finding["check"] == check.id]
            texts = [f"{finding['outcome']}, `{finding['summary']}`" for finding in findings]
            outcome = ", ".join(texts) or ("pass" if check.id in report["checks"] else "skip")
            yield f"| {check.id} | {check.title} | {_cell(outcome)} |"


def versions_of(python: str) -> tuple[str, ...]:
    """Return the versions of torch, CUDA and NCCL, or () if this Python has no torch that uses CUDA."""
    try:
        done = subprocess.run([python, "-c", _VERSIONS], capture_output=True, text=True, check=False)
    except OSError:
        return ()
    return tuple(done.stdout.split()) if done.returncode == 0 else ()


def page(machine: Machine, versions: tuple[str, ...], results: Sequence[tuple[Trial, Outcome]]) -> str:
    """Return the page."""
    torch, cuda, nccl = versions
    gpu = machine.gpus.gpus[0]
    about = [
        f"| GPUs | {machine.count} × {gpu.product}, PCIe {gpu.pcie.generation_max} x{gpu.pcie.width_max} |",
        f"| driver | {machine.gpus.driver}, for CUDA up to {machine.gpus.cuda} |",
        f"| torch | {torch}, CUDA {cuda}, NCCL {nccl} |",
        f"| host | {machine_line()} |",
        f"| date | {datetime.now(UTC):%Y-%m-%d} |",
    ]
    rows = [f"| {trial.shows} | {outcome.verdict} | {_cell(outcome.text)} |" for trial, outcome in results]
    parts = [_HEAD, "\n".join(["| machine | |", "|---|---|", *about]), ""]
    parts += ["\n".join(["| trial | verdict | result |", "|---|---|---|", *rows])]
    return "\n".join(parts) + "\n" + _CHECKS + "\n".join(check_rows(machine)) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu", description="Run preflight on this machine's GPUs."
    )
    parser.add_argument("--python", default=sys.executable, help="a Python with a torch that uses CUDA")
    parser.add_argument("file", nargs="?", type=Path, default=Path("docs/gpu-run.md"))
    options = parser.parse_args(arguments)
    gpus = gpus_here()
    if isinstance(gpus, str):
        print(f"nothing ran: {gpus}. Run this command on a machine with an idle NVIDIA GPU.", file=sys.stderr)
        return _NO_GPU
    python = shutil.which(options.python) or options.python
    versions = versions_of(python)
    if len(versions) != len(("torch", "CUDA", "NCCL")):
        print(f"nothing ran: {python} has no torch that uses CUDA. Name another one with --python.", file=sys.stderr)
        return _NO_GPU
    with tempfile.TemporaryDirectory(prefix="preflight-gpu-") as folder:
        machine = Machine(python, Path(folder), gpus)
        results = list(outcomes(TRIALS, machine))
        options.file.write_text(page(machine, versions, results), encoding="utf-8")
    wrong = [trial for trial, outcome in results if outcome.verdict is Verdict.WRONG]
    print(f"{len(results) - len(wrong)} of {len(results)} trials without an error. The page is {options.file}.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
