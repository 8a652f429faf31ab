"""Parsers on their cases (`tests/cases/parsers/<parser>/<case>.txt` and `.json`), on captures, and on garbage."""

import json
import random
import time
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import msgspec
import pytest

from preflight.facts.parsers.ascend import hccn_tool, npu_smi
from preflight.facts.parsers.registry import PARSERS
from preflight.facts.sections.nic import NicDevice
from preflight.facts.types import Missing, NpuSmi

CASES = Path(__file__).parents[2] / "cases"
TEXTS = sorted((CASES / "parsers").glob("*/*.txt"))
CAPTURES = [
    (name, expected)
    for file in sorted((CASES / "captures").glob("*.json"))
    for name, expected in json.loads(file.read_text(encoding="utf-8")).items()
]
# Captures that are no output of the tool they are named after, and what they are.
NO_OUTPUT = {
    "hccn_tool-exit-codes-910b.tsv": "a table of codes and texts",
    "hccn_tool-help-910b.txt": "help, rebuilt from the source",
    "hccn_tool-output-formats-910b.txt": "formats of many commands",
    "gpu-ibstat-pssh-multihost.txt": "host names and GUIDs of a test, no answer of ibstat",
}
# Tools and files of which every capture is read by a parser.
READ_WHOLLY = (
    "hccn_tool-", "npu_info_before-", "npu-smi-", "ls-", "lspci-", "driver-version.info-", "firmware-version.info-",
    "cann-version.cfg-", "ascend_", "hccl_test-", "gpu-nvidia-smi-", "gpu-nvlink-", "gpu-topo-",
    "gpu-dmesg-", "gpu-fabricmanager-", "gpu-ib", "gpu-kmsg-", "gpu-rdma-", "gpu-show_gids-", "gpu-sysfs-",
    "gpu-syslog-", "gpu-nccl-tests-",
)  # fmt: skip


def parse(parser: str, text: str) -> Any:
    return json.loads(msgspec.json.encode(PARSERS[parser](text)))


@pytest.mark.parametrize("case", TEXTS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_parser_makes_of_its_case_what_the_case_says(case: Path) -> None:
    expected = json.loads(case.with_suffix(".json").read_text(encoding="utf-8"))
    assert parse(case.parent.name, case.read_bytes().decode("utf-8")) == expected


def test_every_parser_has_cases_and_every_case_a_parser() -> None:
    assert {case.parent.name for case in TEXTS} == set(PARSERS)
    assert {case.with_suffix(".json") for case in TEXTS} == set((CASES / "parsers").glob("*/*.json"))


@pytest.fixture
def captures(request: pytest.FixtureRequest) -> Path:
    directory: Path | None = request.config.getoption("--captures")
    if directory is None:
        pytest.skip("not run: captures of real tools are not in this repository; give them with --captures DIR")
    return directory


@pytest.mark.parametrize(("name", "expected"), CAPTURES, ids=[f"{e['parser']}-{name}" for name, e in CAPTURES])
def test_a_parser_makes_of_a_capture_what_was_read_from_it_by_eye(
    name: str, expected: dict[str, Any], captures: Path
) -> None:
    text = (captures / name).read_bytes().decode("utf-8", "replace")
    assert parse(expected["parser"], text) == expected["value"]


def test_every_capture_of_these_tools_is_read_by_a_parser(captures: Path) -> None:
    there = {file.name for file in captures.iterdir() if file.name.startswith(READ_WHOLLY)}
    assert there - {name for name, _ in CAPTURES} == set(NO_OUTPUT)


def _errors(value: Any) -> list[str]:
    if isinstance(value, dict):
        return ([value["error"]] if "error" in value else []) + [e for item in value.values() for e in _errors(item)]
    return [error for item in value for error in _errors(item)] if isinstance(value, list) else []


@pytest.mark.parametrize(
    "parser", sorted(name for name in PARSERS if name.startswith(("hccn_tool.", "npu-smi.", "nvidia-smi.")))
)
def test_binary_noise_is_never_a_reading_of_a_device(parser: str) -> None:
    chance = random.Random(21)
    for _ in range(100):
        noise = bytes(chance.randrange(256) for _ in range(chance.randrange(1, 200))).decode("utf-8", "replace")
        if noise.strip():
            assert any(_errors(parse(parser, noise))), noise


@pytest.mark.parametrize("parser", sorted(PARSERS))
def test_a_parser_needs_no_more_than_a_quarter_of_a_second_for_a_hostile_eighth_of_a_megabyte(parser: str) -> None:
    """Work that grows with the square of the text would need a second for a quarter of a megabyte."""
    texts = [case.read_bytes().decode("utf-8") for case in TEXTS if case.parent.name == parser]
    size = 1 << 17
    for stuffing in (" ", "\n", "\t \n", "0", "a", "|", "{", "-", "=", *filter(None, texts)):
        for text in (stuffing * (size // len(stuffing)), texts[0][:-1] + stuffing * (size // len(stuffing))):
            assert any(seconds < 0.25 for seconds in tries(parser, text)), (stuffing[:20], len(text))


def tries(parser: str, text: str) -> Iterator[float]:
    """Yield the processor's seconds of each of three tries: on a busy machine one may take twice as long."""
    for _ in range(3):
        started = time.process_time()
        PARSERS[parser](text)
        yield time.process_time() - started


def test_chips_are_mapped_to_physical_ids_by_the_mapping_and_not_by_their_npu_id() -> None:
    table = npu_smi.NpuSmiTable(
        "1", (npu_smi.ChipRow(10, 0, None, "910B4", "OK", 5),), (npu_smi.NpuProcessRow(10, 0, 4242, "x"),)
    )
    combined = npu_smi.combined(table, (npu_smi.ChipId(10, 0, 3, "Ascend 910B4"),))
    assert isinstance(combined, NpuSmi)
    assert [chip.device for chip in combined.chips] == [3]
    assert [process.device for process in combined.processes] == [3]


def test_memory_of_310p_is_ddr_in_the_facts_and_no_hbm() -> None:
    table = npu_smi.info((CASES / "parsers" / "npu-smi.info" / "310P.txt").read_text(encoding="utf-8"))
    combined = npu_smi.combined(table, ())
    assert isinstance(combined, NpuSmi)
    assert [(chip.hbm_used, chip.hbm_total) for chip in combined.chips] == [(None, None)]
    assert [(chip.ddr_used, chip.ddr_total) for chip in combined.chips] == [(19435, 21527)]


def test_without_a_mapping_sparse_npu_ids_are_not_guessed() -> None:
    rows = tuple(npu_smi.ChipRow(npu, 0, None, "910B4", "OK", 0) for npu in (10, 12))
    combined = npu_smi.combined(npu_smi.NpuSmiTable("1", rows, ()), Missing("no -m"))
    assert combined == Missing("which chip is which device is not known: no -m")


def test_without_a_mapping_dense_npu_ids_mean_themselves() -> None:
    rows = tuple(npu_smi.ChipRow(npu, 0, None, "910B4", "OK", 0) for npu in range(8))
    combined = npu_smi.combined(npu_smi.NpuSmiTable("1", rows, None), Missing("no -m"))
    assert isinstance(combined, NpuSmi)
    assert [chip.device for chip in combined.chips] == list(range(8))
    assert not combined.processes_listed


def test_a_table_whose_chip_the_mapping_lacks_is_not_trusted() -> None:
    table = npu_smi.NpuSmiTable("1", (npu_smi.ChipRow(0, 0, None, "910B4", "OK", 0),), ())
    assert npu_smi.combined(table, ()) == Missing("npu-smi info -m does not list NPU 0 chip 0")


def test_every_field_of_a_device_nic_is_filled_by_one_query() -> None:
    filled = sorted(reader.field for reader in hccn_tool.DEEP_READERS.values())
    assert filled == sorted({field.name for field in fields(NicDevice)} - {"index"})


def test_a_process_is_told_with_its_user_where_that_is_known() -> None:
    chips = tuple(npu_smi.ChipRow(npu, 0, npu, "910B4", "OK", 0) for npu in range(2))
    table = npu_smi.NpuSmiTable(
        "1", chips, (npu_smi.NpuProcessRow(0, 0, 11, "a"), npu_smi.NpuProcessRow(1, 0, 12, "b"))
    )
    found = npu_smi.combined(table, (), {11: "jo"})
    assert isinstance(found, NpuSmi)
    assert [(process.pid, process.user) for process in found.processes] == [(11, "jo"), (12, None)]
