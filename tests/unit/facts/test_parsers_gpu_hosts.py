"""Bad days of the readers of GPU hosts' tools: no text is an exception, and nothing is told that was not there."""

import csv
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from preflight.facts.parsers.nvidia.nvidia_logs.xid_catalogue import XIDS
from preflight.facts.parsers.nvidia.nvidia_smi import trouble
from preflight.facts.parsers.registry import PARSERS
from preflight.model.text import quote

CASES = Path(__file__).parents[2] / "cases" / "parsers"
RDMA = ("ibstat", "ibstatus", "ibv_devinfo", "infiniband.sysfs", "rdma.link", "show_gids")
TABLES = sorted((*RDMA, *(name for name in PARSERS if name.startswith("nvidia-smi."))))
OURS = [*TABLES, "fabricmanager.log", "kernel-log.xids", "nccl-tests"]


def texts(parser: str) -> list[str]:
    return [path.read_bytes().decode() for path in sorted((CASES / parser).glob("*.txt"))]


def parse(parser: str, text: str) -> Any:
    return json.loads(msgspec.json.encode(PARSERS[parser](text)))


def errors(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if value.get("error"):
            yield value["error"]
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from errors(item)


def told(value: Any) -> Iterator[str | float]:
    """Every number and word of an answer; what it says in an error or of its own is left out."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key not in ("error", "action", "meaning", "count", "lines"):
                yield from told(item)
    elif isinstance(value, list):
        for item in value:
            yield from told(item)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield value


@cache
def lines_and_junk(parser: str) -> st.SearchStrategy[list[str]]:
    """Return lines of the parser's cases, whole and with junk behind or between them."""
    lines = st.sampled_from(sorted({line for text in texts(parser) for line in text.split("\n")}))
    junk = st.text(max_size=40) | st.sampled_from(["\x1b[2J", "\u2028", "\x00", "9" * 5000, "N/A", "ERR!", "\t", "  "])
    return st.lists(lines | junk | st.builds(lambda a, b: a[: len(a) // 2] + b, lines, junk), max_size=40)


@pytest.mark.parametrize("parser", OURS)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # on a busy machine, too
@given(data=st.data())
def test_no_text_is_an_exception_and_every_error_is_one_printable_sentence(parser: str, data: st.DataObject) -> None:
    text = "\n".join(data.draw(lines_and_junk(parser)))
    for error in errors(parse(parser, text)):
        assert error.isprintable()
        assert len(error) < 400


@pytest.mark.parametrize("parser", TABLES)
def test_of_a_text_that_was_cut_nothing_is_told_that_the_whole_does_not_say(parser: str) -> None:
    for text in texts(parser):
        value = parse(parser, text)
        if not any(errors(value)):
            for end in range(0, len(text), max(1, len(text) // 100)):
                assert set(told(parse(parser, text[:end]))) <= {*told(value), ""}, text[:end][-200:]


def test_of_nccl_tests_that_were_cut_whole_rows_and_ranks_are_told_and_that_it_was_cut() -> None:
    for text in texts("nccl-tests"):
        whole = parse("nccl-tests", text)
        for end in range(0, len(text), max(1, len(text) // 200)):
            found = parse("nccl-tests", text[:end])
            for run, full in zip(found.get("runs", ()), whole.get("runs", ()), strict=False):
                assert run["ranks"] == full["ranks"][: len(run["ranks"])]
                assert run["rows"] == full["rows"][: len(run["rows"])]
                assert run["average"] in (None, full["average"])
            last = found["runs"][-1] if "runs" in found else None
            in_a_line = bool(text[:end].rpartition("\n")[2].strip())
            assert last is None or last["average"] is not None or bool(last["trouble"]) >= in_a_line


def leaves(value: Any, path: str = "") -> dict[str, Any]:
    """Every single value by its path; lists of words and processes, which may lose members, are left out."""
    if isinstance(value, dict):
        parts = [leaves(item, f"{path}/{key}") for key, item in value.items() if key not in ("unread", "processes")]
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        parts = [leaves(item, f"{path}/{item.get('bus')}") for item in value]
    else:
        return {} if isinstance(value, list) else {path: value}
    return {name: leaf for part in parts for name, leaf in part.items()}


@pytest.mark.parametrize("case", ["H100-one-waits-for-a-reset", "H100-driver-580", "V100-old-driver"])
def test_a_line_that_is_lost_or_doubled_puts_no_value_in_another_one_s_place(case: str) -> None:
    lines = (CASES / "nvidia-smi.query" / f"{case}.txt").read_text(encoding="utf-8").splitlines(True)
    whole = leaves(parse("nvidia-smi.query", "".join(lines)))
    assert len(whole) > 40
    for at, line in enumerate(lines):
        for spoiled in ("", line + line):
            found = leaves(parse("nvidia-smi.query", "".join([*lines[:at], spoiled, *lines[at + 1 :]])))
            if "/error" not in found:
                wrong = {path: leaf for path, leaf in found.items() if leaf is not None and leaf != whole.get(path)}
                assert wrong == {}, line


@pytest.mark.parametrize("parser", OURS)
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32"])
def test_another_encoding_is_an_error_and_no_reading(parser: str, encoding: str) -> None:
    for text in texts(parser):
        if text.strip():
            value = parse(parser, text.encode(encoding).decode("utf-8", "replace"))
            assert any(errors(value)), text
            assert list(told(value)) == []


@pytest.mark.parametrize("parser", TABLES)
@pytest.mark.parametrize("text", ["", "\n", "命令未找到\n", "\x00\x01\xff" * 50, "|" * 999, "[" * 999])
def test_what_is_no_answer_at_all_is_an_error_that_quotes_it(parser: str, text: str) -> None:
    value = parse(parser, text)
    assert list(told(value)) == []
    assert quote(text) in value["error"]


MESSAGES = {
    "Failed to initialize NVML: Driver/library version mismatch": "under the loaded kernel module",
    "Failed to initialize NVML: Unknown Error": "the container lost its access to the GPUs",
    "Unable to determine the device handle for GPU 0000:BA:00.0: Unknown Error": "a GPU no longer answers",
    "Unable to determine the device handle for GPU 0000:BA:00.0: GPU is lost.  Reboot the system to recover": "a GPU",
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.": "the kernel module is not loaded",
    "Failed to initialize NVML: Driver Not Loaded": "the kernel module is not loaded",
    "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.": "are not installed here",
    "No devices were found": "no GPU answers",
    "Failed to initialize NVML: Insufficient Permissions": "no permission to open the device files",
    "NVML: Unable to retrieve NVLink information as all links are inactive": "Fabric manager",
    'Field "clocks_nothing" is not a valid field to query.': "--help-query-gpu",
    "-bash: nvidia-smi: command not found": "not on PATH",
}


@pytest.mark.parametrize("words", MESSAGES)
def test_a_message_of_nvidia_smi_is_told_with_what_it_means(words: str) -> None:
    error = trouble(f"\n{words}\n", "-q")
    assert quote(words) in error
    assert MESSAGES[words] in error


def test_every_captured_message_is_a_known_one(request: pytest.FixtureRequest) -> None:
    directory: Path | None = request.config.getoption("--captures")
    if directory is None:
        pytest.skip("not run: captures of real tools are not in this repository; give them with --captures DIR")
    lines = (directory / "gpu-nvidia-smi-fatal-messages.txt").read_text(encoding="utf-8").splitlines()
    assert lines
    assert [line for line in lines if trouble(line) == f"nvidia-smi printed {quote(line)}"] == []


# The immediate actions of NVIDIA's catalogue, as classes.
CLASSES = {
    "": "unknown", "CHECK_MECHANICALS": "check the hardware", "CHECK_UVM": "unknown",
    "CONTACT_SUPPORT": "ask the vendor", "IGNORE": "nothing", "RESET_GPU": "reset the GPU",
    "RESTART_APP": "restart the job", "RESTART_BM": "reboot the host", "RESTART_VM": "reboot the host",
    "UPDATE_SWFW": "update driver or firmware", "WORKFLOW_NVLINK5_ERR": "watch the NVLinks",
    "WORKFLOW_NVLINK_ERR": "reset the GPU", "WORKFLOW_XID_13": "restart the job", "WORKFLOW_XID_31": "restart the job",
    "WORKFLOW_XID_45": "nothing", "WORKFLOW_XID_48": "reset the GPU", "XID_154": "read its text",
}  # fmt: skip


def test_every_xid_has_the_action_of_the_catalogue(request: pytest.FixtureRequest) -> None:
    directory: Path | None = request.config.getoption("--captures")
    if directory is None:
        pytest.skip("not run: captures of real tools are not in this repository; give them with --captures DIR")
    with (directory / "gpu-xid-catalog.csv").open(encoding="utf-8", newline="") as file:
        rows = {int(row["xid"]): CLASSES[row["immediate_resolution"]] for row in csv.DictReader(file)}
    assert {code: action for code, (action, _) in XIDS.items()} == rows | {168: "reboot the host"}  # 168: AWS
