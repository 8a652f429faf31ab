"""The trials of `make gpu`: what preflight does on a machine with NVIDIA GPUs, each with its expected outcome."""

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from benchmarks.gpu_data_sheets import DATA_SHEETS, LEAST, pcie
from benchmarks.measure import PREFLIGHT
from preflight.facts.parsers.nvidia import nvidia_smi
from preflight.facts.parsers.nvidia.nvidia_smi.gpu import Gpu, Gpus
from preflight.facts.reading import Missing
from preflight.model.cluster import Cluster, Device, Host, ProbeSettings, Product
from preflight.model.measure import Member, Scope
from preflight.probe.agents import Agents, ProbeWorkload
from preflight.probe.conductor import Conductor
from preflight.probe.operations.operation import Operation
from preflight.probe.rounds import RankGroup, Round
from preflight.transport.local import LocalTransport
from preflight.transport.types import Options

_LIMIT = 300  # seconds of one command
_STEP = 60.0  # seconds of a rank's step
_GOOD = ("pass", "refused")  # a refused type is no fault
_SHOWN = 200  # characters of a message on the page
_FEW = f"--query-gpu={','.join(nvidia_smi.FEW)} --format=csv,noheader"
_HOLD = """\
import sys, torch
memory = torch.zeros(1 << 28, dtype=torch.uint8, device="cuda")
torch.cuda.synchronize()
print("ready", flush=True)
sys.stdin.read()
"""
# A driver of CUDA 11.2. The runtime asks a driver for its version before anything else.
_OLD_DRIVER = """\
int cuInit(unsigned flags) { (void)flags; return 0; }
int cuDriverGetVersion(int *version) { *version = 11020; return 0; }
"""


class Verdict(StrEnum):
    RIGHT = "right"
    WRONG = "wrong"
    NOT_RUN = "not run"


@dataclass(frozen=True)
class Outcome:
    """The outcome of a trial: a verdict, and what was seen."""

    verdict: Verdict
    text: str


def _right(text: str) -> Outcome:
    return Outcome(Verdict.RIGHT, text)


def _wrong(text: str) -> Outcome:
    return Outcome(Verdict.WRONG, text)


def _not_run(text: str) -> Outcome:
    return Outcome(Verdict.NOT_RUN, text)


def _right_if(is_right: bool, text: str) -> Outcome:
    return Outcome(Verdict.RIGHT if is_right else Verdict.WRONG, text)


@dataclass(frozen=True)
class Machine:
    """The machine of the trials. `python`: one with a torch that uses CUDA. `folder`: for inventories."""

    python: str
    folder: Path
    gpus: Gpus

    def inventory(self, name: str, *, devices: int, setup: str = "") -> Path:
        """Write an inventory of this machine, and return its path."""
        text = f"""\
[cluster]
name = "gpu"
product = "nvidia"
cidrs = ["127.0.0.0/8"]
devices = {devices}

[ssh]
transport = "local"

[firewall]
policy = "off"

[probe]
python = {json.dumps(self.python)}
setup = {json.dumps(setup)}
idle = true

[[hosts]]
name = "localhost"
address = "127.0.0.1"
"""
        path = self.folder / f"{name}.toml"
        path.write_text(text)
        return path

    @property
    def count(self) -> int:
        return len(self.gpus.gpus)


@dataclass(frozen=True)
class Trial:
    """A trial. `shows`: what it shows, for the page."""

    shows: str
    run: Callable[[Machine], Outcome]


def nvidia_smi_output(arguments: str) -> str:
    """Return the output of nvidia-smi. Raise OSError or subprocess.SubprocessError if it does not run."""
    return subprocess.run(["nvidia-smi", *arguments.split()], capture_output=True, text=True, timeout=60).stdout


def report_of(*arguments: str, inventory: Path) -> Mapping[str, Any]:
    """Run a command of preflight and return its report. Raise RuntimeError if there is none."""
    argv = [*PREFLIGHT, *arguments, "--inventory", str(inventory), "-o", "json"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=_LIMIT, stdin=subprocess.DEVNULL)
    try:
        report: Mapping[str, Any] = json.loads(done.stdout)
    except ValueError:
        raise RuntimeError(f"no report, exit code {done.returncode}: {done.stderr[-1000:]}") from None
    return report


def _parsed(question: str, parse: Callable[[str], Any], *, may_be_empty: bool = False) -> Callable[[Machine], Outcome]:
    """Return a trial of a parser: nothing of the tool's output may be unread."""

    def run(_: Machine) -> Outcome:
        text = nvidia_smi_output(question)
        if may_be_empty and not text.strip():
            return _right("the tool prints nothing")
        value = parse(text)
        if isinstance(value, Missing):
            return _wrong(value.error)
        unread = [missing.error for missing in value.unread]
        return _right_if(not unread, unread[0] if unread else f"{len(text.splitlines())} lines, all of them parsed")

    return run


def _same(question: str, parse: Callable[[str], Gpus | Missing], names: Sequence[str]) -> Callable[[Machine], Outcome]:
    """Return a trial of another form of nvidia-smi's answer: these fields are those of -q."""

    def run(machine: Machine) -> Outcome:
        other = parse(nvidia_smi_output(question))
        if isinstance(other, Missing):
            return _wrong(other.error)
        pairs = zip(machine.gpus.gpus, other.gpus, strict=True)
        differences = [name for gpu, same in pairs for name in names if getattr(gpu, name) != getattr(same, name)]
        return _right_if(not differences, ", ".join(differences) or f"{len(names)} fields of each GPU are those of -q")

    return run


_CONSTANT = ("bus", "product", "architecture", "uuid", "serial", "minor", "vbios", "persistence", "compute_mode", "mig",
             "recovery_action", "memory_total", "ecc", "retired_pages", "remapped_rows", "fabric")  # fmt: skip


def _kernel_log(machine: Machine) -> Outcome:
    facts = report_of("facts", inventory=machine.inventory("facts", devices=machine.count))
    log = facts["hosts"]["localhost"]["nvidia"]["value"]["log"]
    if log["error"] or not log["value"]["lines"]["lines"]:
        return _wrong(log["error"] or "no line of the driver")
    lines = log["value"]["lines"]
    return _right_if(not lines["unread"], f"{lines['lines']} lines of the driver, {len(lines['xids'])} Xids")


def _device_tests(machine: Machine) -> Outcome:
    """Return whether every value was right, and every figure is near the data sheet's."""
    report = report_of(
        "probe", "--idle", "--scope", "device", inventory=machine.inventory("devices", devices=machine.count)
    )
    tests = [test for test in report["tests"] if test["op"] != "init"]
    wrong = [f"{test['op']} {test['dtype']}: {test['outcome']}" for test in tests if test["outcome"] != "pass"]
    if wrong or not tests:
        return _wrong(", ".join(wrong) or "no test ran")
    return judge_figures(tests, machine.gpus.gpus)


def judge_figures(tests: Sequence[Mapping[str, Any]], gpus: Sequence[Gpu]) -> Outcome:
    """Return whether the figures of devices alone are near those of the data sheet. All values were right."""
    figures = list(_figures(tests, gpus))
    low = [figure for figure in figures if figure.is_low]
    return _right_if(not low, "every value exact, " + ", ".join(figure.text for figure in (low or figures)))


@dataclass(frozen=True)
class _Figure:
    text: str
    is_low: bool


def _figures(tests: Sequence[Mapping[str, Any]], gpus: Sequence[Gpu]) -> Iterator[_Figure]:
    """Yield the lowest figure of each test among all GPUs, with the share of the data sheet's figure."""
    gpu = gpus[0]
    sheet, link = DATA_SHEETS.get(gpu.product or ""), pcie(gpu.pcie.generation_max, gpu.pcie.width_max)
    for op in ("memory", "copy_in", "copy_out"):
        rates = [test["algbw_GBps"] for test in tests if test["op"] == op]
        rate = min(rates) * (2 if op == "memory" else 1)  # a copy reads and writes
        yield _figure(op, rate, "GB/s", (sheet.memory if sheet else None) if op == "memory" else link, LEAST[op])
    for dtype in ("float32", "float16", "bfloat16"):
        rates = [test["tflops"] for test in tests if test["op"] == "matmul" and test["dtype"] == dtype]
        if rates:
            yield _figure(dtype, min(rates), "TFLOP/s", sheet.tflops(dtype) if sheet else None, LEAST[dtype])


def _figure(name: str, value: float, unit: str, stated: float | None, least: float) -> _Figure:
    text = f"{name} {value:.0f} {unit}"
    if stated is None:
        return _Figure(f"{text} (no data sheet)", False)
    return _Figure(f"{text} ({value / stated:.0%} of {stated:.0f})", value < least * stated)


def _collectives(ranks: int | None) -> Callable[[Machine], Outcome]:
    """Return a trial of NCCL with so many ranks; None: with all GPUs, at least two."""

    def run(machine: Machine) -> Outcome:
        devices = ranks or machine.count
        if ranks is None and devices < 2:
            return _not_run("this machine has one GPU")
        inventory = machine.inventory(f"nccl{devices}", devices=devices)
        report = report_of("probe", "--idle", "--scope", "all", inventory=inventory)
        return judge_collectives([test for test in report["tests"] if test["op"] != "init"])

    return run


def judge_collectives(tests: Sequence[Mapping[str, Any]]) -> Outcome:
    """Return whether every value was right. NCCL may refuse a type."""
    wrong = [f"{test['op']} {test['dtype']}: {test['outcome']}" for test in tests if test["outcome"] not in _GOOD]
    if wrong or not tests:
        return _wrong(", ".join(wrong) or "no test ran")
    refused = [f"{test['op']} {test['dtype']}" for test in tests if test["outcome"] == "refused"]
    text = f"{len(tests) - len(refused)} tests of {len({test['op'] for test in tests})} operations, all values exact"
    if refused:
        text += f". NCCL refuses {', '.join(sorted(set(refused)))}"
    largest = max((test["busbw_GBps"] or 0.0 for test in tests if test["op"] == "all_reduce"), default=0.0)
    return _right(f"{text}. all_reduce reaches {largest:.0f} GB/s (bus)" if largest else text)


def _failed_probe(name: str, expected: Sequence[str], *, setup: str) -> Callable[[Machine], Outcome]:
    """Return a trial of a probe that has to fail with all expected words in a finding of PRB101."""

    def run(machine: Machine) -> Outcome:
        text = setup.replace("FOLDER", str(machine.folder))
        inventory = machine.inventory(name, devices=1, setup=text)
        return reported(report_of("probe", "--idle", inventory=inventory), expected)

    return run


def reported(report: Mapping[str, Any], expected: Sequence[str]) -> Outcome:
    """Return whether a finding of PRB101 has all expected words."""
    texts = [(it["summary"], it["cause"]) for it in report["findings"] if it["check"] == "PRB101"]
    right = [text for text in texts if all(word in "\n".join(text) for word in expected)]
    if not texts:
        return _wrong("no finding of PRB101")
    summary, cause = (right or texts)[0]
    return _right_if(bool(right), f"{_quoted(summary)}, cause: {cause}" if cause else _quoted(summary))


def _quoted(text: str) -> str:
    """Return a message as it is, in backticks, and shortened."""
    return f"`{text[:_SHOWN]}{'…' if len(text) > _SHOWN else ''}`"


def _two_ranks_on_one_gpu(machine: Machine) -> Outcome:
    """Play a pair of two hosts that are both this machine. An inventory refuses such hosts if it can recognize them."""
    hosts = tuple(Host(name, "127.0.0.1", devices=(Device(0),)) for name in ("node01", "node02"))
    cluster = Cluster("gpu", Product.NVIDIA, hosts, probe=ProbeSettings(machine.python, backend="nccl"))
    test = Operation("all_reduce", "float32", 4096, reduction="sum", iterations=1)
    pair = RankGroup("g0", (Member("node01", 0, 0), Member("node02", 0, 1)), (test,), Scope.PAIR)
    with Agents(cluster, hosts, LocalTransport(Options()), ProbeWorkload("nccl")) as agents:
        conductor = Conductor(agents, "nccl", lambda _: None)
        conductor.roll_call(hosts, float("inf"))
        conductor.deadline = _STEP
        observations = list(conductor.play(Round("r1", (pair,), lanes=1), float("inf")))
    errors = [view.error for observation in observations for view in observation.ranks if view.error]
    refused = [error for error in errors if "Duplicate GPU" in error]
    return _right_if(bool(refused), _quoted((refused or errors or ["both ranks passed"])[0]))


def _old_driver(machine: Machine) -> Outcome:
    source, library = machine.folder / "libcuda.c", machine.folder / "libcuda.so.1"
    source.write_text(_OLD_DRIVER)
    try:
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return _not_run("there is no C compiler (cc) for the stand-in of a driver")
    setup = 'export LD_LIBRARY_PATH="FOLDER:$LD_LIBRARY_PATH"'
    return _failed_probe("old-driver", ["too old", "the driver is older"], setup=setup)(machine)


@contextmanager
def _gpu_in_use(machine: Machine) -> Iterator[int]:
    """Yield the pid of a process that uses the first GPU."""
    holder = subprocess.Popen([machine.python, "-c", _HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with holder:
        assert holder.stdout is not None and holder.stdin is not None
        if holder.stdout.readline().strip() != "ready":
            raise RuntimeError("torch could not use the GPU")
        yield holder.pid
        holder.stdin.close()


def _busy(machine: Machine) -> Outcome:
    inventory = machine.inventory("busy", devices=machine.count)
    with _gpu_in_use(machine) as pid:
        report = report_of("check", "--idle", inventory=inventory)
    busy = [it["summary"] for it in report["findings"] if it["check"] == "GPU108"]
    refused = [note for note in report["notes"] if "in use" in note]
    if not (busy and refused):
        return _wrong("the process was not noticed")
    return _right_if(str(pid) in refused[0] and not report["tests"], f"{_quoted(busy[0])}, {_quoted(refused[0])}")


def _free_again(machine: Machine) -> Outcome:
    report = report_of(
        "check", "--no-probe", "--only", "GPU108", inventory=machine.inventory("free", devices=machine.count)
    )
    return _right_if(report["verdict"] == "pass", f"GPU108: {report['verdict']}")


TRIALS = (
    Trial("nvidia-smi -q", _parsed("-q", nvidia_smi.query)),
    Trial("nvidia-smi -q -x (XML)", _parsed("-q -x", nvidia_smi.query)),
    Trial("the same in XML", _same("-q -x", nvidia_smi.query, _CONSTANT)),
    Trial("six fields (--query-gpu)", _same(_FEW, nvidia_smi.few, ("bus", "product", "uuid", "memory_total"))),
    Trial("nvidia-smi, the table", _parsed("", nvidia_smi.table)),
    Trial("nvidia-smi topo -m", _parsed("topo -m", nvidia_smi.topology)),
    Trial("nvidia-smi nvlink -s", _parsed("nvlink -s", nvidia_smi.nvlink, may_be_empty=True)),
    Trial("nvidia-smi nvlink -e", _parsed("nvlink -e", nvidia_smi.nvlink_errors, may_be_empty=True)),
    Trial("the driver's lines of the kernel log", _kernel_log),
    Trial("devices: copies, and products of each type", _device_tests),
    Trial("NCCL with one rank: every collective", _collectives(1)),
    Trial("NCCL with all GPUs: every collective", _collectives(None)),
    Trial("a GPU in use is not probed", _busy),
    Trial("a GPU is free again after its process", _free_again),
    Trial("CUDA_VISIBLE_DEVICES hides all GPUs",
          _failed_probe("hidden", ["no GPU is visible", "DEVICES="], setup="export CUDA_VISIBLE_DEVICES=")),
    Trial("CUDA_VISIBLE_DEVICES names a GPU that is not there",
          _failed_probe("absent", ["no GPU is visible", "=99"], setup="export CUDA_VISIBLE_DEVICES=99")),
    Trial("two ranks on one GPU are refused", _two_ranks_on_one_gpu),
    Trial("a driver that is too old (a **stand-in** for libcuda, behind the real torch)", _old_driver),
    Trial("NCCL_NET=IB without an RDMA device",
          _failed_probe("net-ib", ["NCCL", "NCCL_NET demands"], setup="export NCCL_NET=IB")),
)  # fmt: skip


def play(trial: Trial, machine: Machine) -> Outcome:
    """Return the outcome of a trial. A trial that breaks is wrong."""
    try:
        return trial.run(machine)
    except Exception as error:  # the other trials go on
        return _wrong(f"{type(error).__name__}: {error}"[-_SHOWN:])
