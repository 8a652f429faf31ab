"""Outputs of hccn_tool that are cut, mixed, translated, spoiled or endless, for every parser of them: none raises, and
none gives a value that the tool did not print.

The texts are the parsers' own cases. Nothing at all is how old drivers say "not set": that a text was there and is lost
cannot be seen from what is left.
"""

import json
import random
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from preflight.facts.parsers.ascend.hccn_tool.tool_output import LONGEST_OUTPUT
from preflight.facts.parsers.registry import PARSERS

CASES = Path(__file__).parents[2] / "cases" / "parsers"
HCCN = sorted(name for name in PARSERS if name.startswith("hccn_tool."))
TEXTS = {name: [file.read_bytes().decode() for file in sorted((CASES / name).glob("*.txt"))] for name in HCCN}
every_parser = pytest.mark.parametrize("parser", HCCN)

FAILURES = (
    "hccn_tool is busy, please try again.",
    "permission denied: pls check this cmd run permission.",
    "The command is not supported on this product.",
    "The device is not exist!",
    "Control link unreachable.",
    "Command execute failed!",
    "The cmd line execute timeout!",
)
TRANSLATED = ("设备不存在，请检查设备号。", "命令执行失败！", "权限不足，请切换到 root 用户。", "链路状态：断开")


def parse(parser: str, text: str) -> list[Any]:
    entries: list[Any] = json.loads(msgspec.json.encode(PARSERS[parser](text)))
    return entries


def error_of(value: Any) -> str:
    """The first error in an entry, wherever it stands."""
    if isinstance(value, dict) and value.get("error"):
        return str(value["error"])
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return next(filter(None, map(error_of, parts)), "")


def within(part: Any, whole: Any) -> bool:
    """Whether `part` tells the same as `whole`, or less: a cut answer may know less, never something else."""
    if isinstance(part, dict) and isinstance(whole, dict):
        if "sent" in part:  # a loss that was seen before the end is a loss
            return part["sent"] <= whole["sent"] and (part == whole or part["sent"] > part["received"])
        return all(key in whole and within(value, whole[key]) for key, value in part.items())
    if isinstance(part, list) and isinstance(whole, list):
        return len(part) <= len(whole) and all(map(within, part, whole))
    return part in (None, "") or part == whole


def told(entry: Any) -> bool:
    """Whether an entry without error has a value: "not set" is a statement, too, and not one that a cut may make."""
    return not ("value" in entry and entry["value"] is None)


def assert_tells_no_more(cut: str, found: list[Any], whole: list[Any]) -> None:
    for at, entry in enumerate(found):
        if error_of(entry):
            continue
        assert at < len(whole), (cut, entry)
        assert within(entry, whole[at]), (cut, entry, whole[at])
        assert told(entry) or not told(whole[at]) or not cut.strip(), (cut, entry)


@every_parser
def test_an_answer_cut_after_any_line_tells_the_same_or_less(parser: str) -> None:
    for text in TEXTS[parser]:
        whole = parse(parser, text)
        if any(map(error_of, whole)):
            continue
        lines = text.splitlines(keepends=True)
        for count in range(len(lines)):
            cut = "".join(lines[:count])
            assert_tells_no_more(cut, parse(parser, cut), whole)


@every_parser
def test_an_answer_cut_at_any_byte_tells_the_same_or_less(parser: str) -> None:
    chance = random.Random(22)
    for text in TEXTS[parser]:
        data, whole = text.encode(), parse(parser, text)
        if any(map(error_of, whole)):
            continue
        for at in chance.sample(range(len(data)), min(len(data), 80)):
            cut = data[:at].decode("utf-8", "replace")
            assert_tells_no_more(cut, parse(parser, cut), whole)


@every_parser
def test_line_ends_of_another_system_change_nothing(parser: str) -> None:
    for text in TEXTS[parser]:
        assert parse(parser, text.replace("\r\n", "\n").replace("\n", "\r\n")) == parse(parser, text)


# Texts of any kind, also of two glued together; and the first of a row's columns, which may have lost its head.
FREE = ("system", "port", "vendor", "part", "serial", "name", "interface", "destination")
DERIVED = ("error", "query")


def values(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every single value in `value` with the field it stands in."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key not in DERIVED and not (key == "milliseconds" and value.get("error")):
                yield from values(item, key)
    elif isinstance(value, list):
        for item in value:
            yield from values(item, name)
    elif value not in (None, "") and not isinstance(value, bool):
        yield name, value


def printed(name: str, value: Any, text: str) -> bool:
    """Whether `text` has `value`."""
    if name in ("at", "now"):
        when = datetime.fromtimestamp(value, UTC)
        return re.search(rf" {when.day} {when:%H:%M:%S %Y}", text) is not None
    if name == "milliseconds":
        times = [float(t) / (1000 if unit == "us" else 1) for t, unit in re.findall(r"time ?= ?([\d.]+)(ms|us)", text)]
        return bool(min(times) <= value <= max(times))
    if name in ("sent", "received", "plane_faults"):
        return int(value) <= text.count("recv") or re.search(rf"\b{value} packets|\b{value} received", text) is not None
    if value == "no" and "Bypass" in text:  # no FEC, as Ascend 950 prints it
        return True
    if isinstance(value, int) and value % 1000 == 0 and re.search(rf"\b{value // 1000} G\b", text):
        return True  # Mb/s, which Ascend 950 prints as Gb/s
    if isinstance(value, str):
        return re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text, re.IGNORECASE) is not None
    if isinstance(value, float):
        return value in map(float, re.findall(r"-?\d+(?:\.\d+)?", text))
    return value in {*map(int, re.findall(r"\d+", text)), *(int(mask, 16) for mask in re.findall(r"0x[0-9a-f]+", text))}


def assert_printed(found: list[Any], text: str, but: tuple[str, ...] = ()) -> None:
    for name, value in values(found):
        assert name in but or printed(name, value, text), (name, value, text)


@every_parser
def test_what_a_parser_says_was_printed(parser: str) -> None:
    """Of whole answers: without it the tests of spoiled ones would prove little."""
    for text in TEXTS[parser]:
        assert_printed(parse(parser, text), text)


@every_parser
def test_two_answers_line_by_line_into_each_other_give_no_value_that_neither_has(parser: str) -> None:
    chance = random.Random(23)
    for _ in range(150):
        both = [chance.choice(TEXTS[parser]).splitlines(keepends=True) for _ in range(2)]
        mixed = []
        while any(both):
            mixed.append(chance.choice([lines for lines in both if lines]).pop(0))
        assert_printed(parse(parser, "".join(mixed)), "".join(mixed))


@every_parser
def test_an_answer_inside_another_gives_no_value_that_neither_has(parser: str) -> None:
    chance = random.Random(24)
    whole_lines = [text for texts in TEXTS.values() for text in texts if text.strip() and text.endswith("\n")]
    for _ in range(300):
        outer, inner = chance.choice(TEXTS[parser]), chance.choice(whole_lines)
        at = chance.randrange(len(outer) + 1)
        assert_printed(parse(parser, outer[:at] + inner + outer[at:]), f"{outer}\n{inner}", but=FREE)


@every_parser
def test_noise_inside_an_answer_gives_no_value_that_it_has_not(parser: str) -> None:
    chance = random.Random(25)
    for _ in range(300):
        text = chance.choice(TEXTS[parser])
        at = chance.randrange(len(text) + 1)
        other = (*range(10), *range(11, 32), *range(127, 256))  # a line end in a number makes two numbers
        noise = bytes(chance.choice(other) for _ in range(chance.randrange(1, 30)))
        parts = (text[:at], noise.decode("utf-8", "replace"), text[at:])
        assert_printed(parse(parser, "".join(parts)), text, but=FREE)


@every_parser
@pytest.mark.parametrize("said", FAILURES)
def test_a_failure_is_told_in_the_tools_words_whatever_its_exit_code(parser: str, said: str) -> None:
    (entry,) = parse(parser, said + "\n")
    assert said in error_of(entry)


@every_parser
@pytest.mark.parametrize("said", TRANSLATED)
def test_words_of_another_language_are_not_understood_and_quoted(parser: str, said: str) -> None:
    (entry,) = parse(parser, said + "\n")
    assert said in error_of(entry)
    assert "not recognized" in error_of(entry)


@every_parser
def test_a_failure_behind_an_answer_is_no_second_answer(parser: str) -> None:
    """The failure is told, or is the consequence of packets that a ping lost, or another command's."""
    for text in TEXTS[parser]:
        if text.endswith("\n"):
            before, found = parse(parser, text), parse(parser, text + "Command execute failed!\n")
            assert all(error_of(entry) or entry in before for entry in found), text
            assert found != before or parser.endswith(("ping", "session")), text


def test_a_hundred_megabytes_are_refused_by_all_parsers_together_in_the_time_of_a_breath() -> None:
    size = 100_000_000
    texts = [(text := max(TEXTS[parser], key=len)) * (size // len(text)) for parser in HCCN[:1]]
    texts += ["\n" * size, "x" * size]
    for text in texts:
        started = time.process_time()
        for parser in HCCN:
            assert "never prints" in error_of(parse(parser, text)[0]), parser
        assert time.process_time() - started < 3.0


@every_parser
def test_the_longest_text_that_is_read_is_read_in_reasonable_time(parser: str) -> None:
    for text in sorted(TEXTS[parser], key=len)[-3:]:
        long = text * (LONGEST_OUTPUT // max(1, len(text)))
        started = time.process_time()
        assert "never prints" not in str(PARSERS[parser](long))
        assert time.process_time() - started < 10.0
