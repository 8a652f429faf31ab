"""Bad days of the parsers of npu-smi, lspci, device nodes, version files and HCCL Test: whatever is done to their
input, no exception, and nothing told that was not in the text."""

import json
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from preflight.facts.parsers.ascend import hccl_test, npu_smi
from preflight.facts.parsers.ascend.hccn_tool.session import echoed
from preflight.facts.parsers.ascend.npu_smi.table import ChipRow, NpuProcessRow, NpuSmiTable
from preflight.facts.parsers.registry import PARSERS
from preflight.facts.reading import Found
from preflight.facts.sections.chips import Topology
from preflight.facts.types import Missing, NpuSmi
from preflight.model.text import quote

CASES = Path(__file__).parents[2] / "cases"
OTHERS = ("ascend_install.info", "device-nodes", "hccl_test", "lspci", "version.package")
OURS = sorted(name for name in PARSERS if name.startswith("npu-smi.") or name in OTHERS)
# Told in other words than the text has: permission bits of rw-rw----, MB of bytes.
IN_OTHER_WORDS = {"device-nodes": {"mode"}, "npu-smi.info": {"memory"}}


def texts(parser: str) -> list[str]:
    return [path.read_bytes().decode() for path in sorted((CASES / "parsers" / parser).glob("*.txt"))]


def parse(parser: str, text: str) -> Any:
    return json.loads(msgspec.json.encode(PARSERS[parser](text)))


def told(value: Any, leave_out: set[str]) -> Iterator[str | float]:
    """Every number and word of a parser's answer; what it says in an error is its own."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key not in {"error", "trouble", "untold", *leave_out}:
                yield from told(item, leave_out)
    elif isinstance(value, list):
        for item in value:
            yield from told(item, leave_out)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield value


def invented(parser: str, text: str) -> list[str | float]:
    numbers = {float(number) for number in re.findall(r"[0-9]+(?:\.[0-9]+)?", text)}
    numbers |= {float(number) for number in re.findall(r"[0-9]+", text)}
    words = text.lower()
    found = told(parse(parser, text), IN_OTHER_WORDS.get(parser, set()))
    return [
        item
        for item in found
        if (item not in numbers if not isinstance(item, str) else item.lower().removeprefix("/dev/") not in words)
        and not (isinstance(item, str) and item.removeprefix("0000:") in words)
        and item not in ("Phy-ID", "NA")
    ]


@pytest.mark.parametrize("parser", OURS)
def test_of_a_text_that_was_cut_nothing_is_told_that_was_not_in_it(parser: str) -> None:
    for text in texts(parser):
        for end in range(0, len(text), max(1, len(text) // 200)):
            assert invented(parser, text[:end]) == [], text[:end]
            assert invented(parser, text[end:]) == [], text[end:]


@pytest.mark.parametrize("parser", OURS)
def test_of_two_answers_mixed_line_by_line_or_in_a_line_nothing_is_told_that_was_not_there(parser: str) -> None:
    chance = random.Random(4)
    for text in texts(parser):
        other = chance.choice(texts(parser))
        lines = [line for pair in zip(text.splitlines(True), other.splitlines(True), strict=False) for line in pair]
        at, end = sorted(chance.randrange(len(text) + 1) for _ in range(2))
        for mixed in ("".join(lines), text[:at] + other + text[at:], text[:at] + text[end:], text + other):
            assert invented(parser, mixed) == [], mixed


@pytest.mark.parametrize("parser", OURS)
def test_lines_that_end_as_on_windows_are_read_the_same(parser: str) -> None:
    for text in texts(parser):
        unix = text.replace("\r\n", "\n")
        assert parse(parser, unix.replace("\n", "\r\n")) == parse(parser, unix), text


@pytest.mark.parametrize("parser", OURS)
@pytest.mark.parametrize(
    "text", ["", "\n", "命令未找到\n", "\x00\x01\xff" * 50, "bash: npu-smi: command not found", "|" * 999]
)
def test_what_is_no_answer_at_all_is_an_error_that_quotes_it(parser: str, text: str) -> None:
    value = parse(parser, text)
    assert list(told(value, set())) == []
    error = value["error"]
    assert error.isprintable()
    assert quote(text) in error


@pytest.mark.parametrize("parser", OURS)
def test_a_hundred_megabytes_behind_an_answer_change_nothing_in_it(parser: str) -> None:
    text = texts(parser)[0].rstrip() + "\n"
    value = parse(parser, text + "x" * 100_000_000)
    assert value == parse(parser, text) or 0 < len(value["error"]) < 400


ERRORS = {
    "dcmi module initialize failed. ret is -8005": "driver cannot be reached",
    "DrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)": "driver cannot be reached",
    "dcmi model initialized failed, because the device is used. ret is -8020": "another container",
    "npu get board type failed. ret is -9005": "-8020",
    "There is no NPU card on this server.": "lspci",
    "Invalid card id.": "npu-smi info -l",
    'Failed to query "topo" info.': "does not report the topology",
    "This device does not support querying topo.": "does not report the topology",
    "NPU can not query topo": "does not report the topology",
    "Error parameter of -t": "npu-smi info -h",
    "[WARNING]The driver package may not be completely installed": "/etc/ascend_install.info",
}


@pytest.mark.parametrize("parser", [name for name in OURS if name.startswith("npu-smi.")])
@pytest.mark.parametrize("words", ERRORS)
def test_an_error_of_npu_smi_says_what_it_means(parser: str, words: str) -> None:
    error = parse(parser, words + "\n")["error"]
    assert words in error
    assert ERRORS[words] in error


def test_the_cause_is_named_and_not_what_follows_from_it() -> None:
    text = "npu get board type failed. ret is -9005\nbecause the device is used. ret is -8020\n"
    assert "ret is -8020'" in npu_smi.trouble(text)


def test_every_captured_error_is_a_known_one(request: pytest.FixtureRequest) -> None:
    directory: Path | None = request.config.getoption("--captures")
    if directory is None:
        pytest.skip("not run: captures of real tools are not in this repository; give them with --captures DIR")
    lines = (directory / "npu-smi-errors.txt").read_text(encoding="utf-8").splitlines()
    assert lines
    assert [line for line in lines if npu_smi.trouble(line) == f"npu-smi printed {quote(line)}"] == []


# What support's collectors ask in one file, and the capture that holds the same answer by itself.
IN_ONE_FILE = {
    "npu_info_before-910a.txt": {
        "npu-smi info -m": "npu-smi-info-m-910a.txt",
        "npu-smi info -i 0 -c 0 -t board": "npu-smi-info-t-board-i0-c0-910a.txt",
        "npu-smi info -i 0 -t board": "npu-smi-info-t-board-i0-910a.txt",
        "npu-smi info -i 0 -t usages": "npu-smi-info-t-usages-910a.txt",
        "npu-smi info -i 0 -c 0 -t health": "npu-smi-info-t-health-i0-c0.txt",
        "lspci | grep acce": "lspci-910a.txt",
    },
    "npu_info_before-versions-8ip.txt": {
        "driver/version.info": "driver-version.info-23.0.7",
        "firmware/version.info": "firmware-version.info-7.1.0.11.220",
        "aarch64-linux/ascend_toolkit_install.info": "ascend_toolkit_install.info-7.0.T10",
        "latest/ascend_nnae_install.info": "ascend_nnae_install.info-8.0.RC3",
    },
}


@pytest.mark.parametrize("file", IN_ONE_FILE)
def test_the_answers_in_a_collector_s_file_are_read_as_those_that_stand_alone(
    file: str, request: pytest.FixtureRequest
) -> None:
    directory: Path | None = request.config.getoption("--captures")
    if directory is None:
        pytest.skip("not run: captures of real tools are not in this repository; give them with --captures DIR")
    answers = list(echoed((directory / file).read_text(encoding="utf-8")))
    expected: dict[str, Any] = {}
    for captures in sorted((CASES / "captures").glob("*.json")):
        expected |= json.loads(captures.read_text(encoding="utf-8"))
    for command, alone in IN_ONE_FILE[file].items():
        output = next(answer.output for answer in answers if answer.command.endswith(command))
        assert parse(expected[alone]["parser"], output) == expected[alone]["value"], command


@pytest.mark.parametrize("heading", ["NPU ", "NPU ID  ", "x  ", "NPU Util(%) ", "Process id in "])
def test_a_heading_without_end_takes_no_time(heading: str) -> None:
    text = (CASES / "parsers" / "npu-smi.info" / "950.txt").read_text(encoding="utf-8")
    for known in ("Health        ", "NPU Util(%) ", "Process id    "):
        started = time.process_time()
        found = npu_smi.info(text.replace(known, known + heading * 50_000, 1))
        assert time.process_time() - started < 1.0
        assert isinstance(found, Missing)


def test_npus_without_a_word_on_their_processes_leave_open_who_is_busy() -> None:
    chips = tuple(ChipRow(npu, 0, npu, "910B4", "OK", 0) for npu in range(2))
    table = NpuSmiTable("1", chips, (NpuProcessRow(0, 0, 11, "a"),), untold=(1,))
    found = npu_smi.combined(table, ())
    assert isinstance(found, NpuSmi)
    assert not found.processes_listed
    assert [process.pid for process in found.processes] == [11]


def test_a_topology_by_npu_ids_is_turned_into_physical_ones() -> None:
    topology = Topology((10, 12), (("X", "HCCS"), ("HCCS", "X")), numbers="NPU")
    assert npu_smi.by_device(topology, {(10, 0): 0, (12, 0): 1}) == Found(
        Topology((0, 1), (("X", "HCCS"), ("HCCS", "X")), numbers="Phy-ID")
    )
    assert npu_smi.by_device(topology, {(10, 0): 0}).error == (
        "npu-smi info -t topo lists NPU 12, which npu-smi info does not list"
    )


@pytest.mark.parametrize(
    ("dtype", "op", "most"), [("fp16", "sum", 511), ("int8", "sum", 63), ("bfp16", "sum", 63), ("fp32", "prod", 127)]
)
def test_hccl_test_checks_no_result_that_is_no_exact_number(dtype: str, op: str, most: int) -> None:
    assert hccl_test.checks(dtype, op, most)
    assert not hccl_test.checks(dtype, op, most + 1)
    assert hccl_test.checks("fp32", "sum", 100_000)


def test_an_error_that_every_rank_repeats_is_told_once() -> None:
    line = "hccl interface return err ./common/src/hccl_test_common.cc:538, retcode: 4 \n"
    found = hccl_test.hccl_test(line * 512)
    assert not isinstance(found, Missing)
    assert len(found.codes) == 1
