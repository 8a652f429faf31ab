"""`-roce_test`: perftest between two device NICs, as either end shows it."""

import re
from dataclasses import dataclass

from preflight.facts.parsers.ascend.hccn_tool.tool_output import NotUnderstoodError, blocks
from preflight.facts.reading import Found
from preflight.model.text import quote


@dataclass(frozen=True)
class RoceRow:
    """A row of results. `figures`: by the heading of their column and its unit, as `BW average[MB/sec]`, `t_avg[usec]`.

    The receiver of a bandwidth test measures no peak, and prints 0.00.
    """

    bytes: int
    iterations: int
    figures: dict[str, float]


@dataclass(frozen=True)
class RoceTest:
    """The results of one test. `name`: such as "Send BW Test"."""

    name: str
    receiver: bool
    rows: tuple[RoceRow, ...]


_NAME = re.compile(r"[A-Z][A-Za-z_]{1,30} (?:Bidirectional )?(?:BW|Latency) Test(?: .{0,60})?")
_HEADING = re.compile(r"#bytes\s+#iterations\s+(\S.{0,300})")
_WAITING = "Waiting for client to connect"
_NUMBER = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{1,15})?")


def _row(line: str, columns: list[str]) -> RoceRow:
    cells = line.split(None, len(columns) + 2)
    if len(cells) != len(columns) + 2 or not all(map(_NUMBER.fullmatch, cells)) or "." in cells[0] + cells[1]:
        raise NotUnderstoodError(f"hccn_tool has the row {quote(line)} in its result, which is not recognized")
    return RoceRow(int(cells[0]), int(cells[1]), dict(zip(columns, map(float, cells[2:]), strict=True)))


def _roce_test(block: list[str]) -> RoceTest:
    names = [line for line in block if _NAME.fullmatch(line)]
    headings = [index for index, line in enumerate(block) if _HEADING.fullmatch(line)]
    if len(names) != 1 or len(headings) != 1:
        last = next((line for line in reversed(block) if line.strip("-* ")), block[0])
        raise NotUnderstoodError(f"hccn_tool's report of the test has no result; it ends with {quote(last)}")
    rows = _rows(block[headings[0]], block[headings[0] + 1 :])
    return RoceTest(names[0], any(_WAITING in line for line in block), rows)


def _rows(heading: str, lines: list[str]) -> tuple[RoceRow, ...]:
    title = heading.split(None, 2)[2]
    columns = re.split(r"\s{2,}", title)
    rows = tuple(_row(line, columns) for line in lines if re.match(r"[0-9]", line))
    if not rows or len(set(columns)) != len(columns):
        raise NotUnderstoodError(f"hccn_tool's report of the test has no result below {quote(title)}")
    return rows


def roce_test(text: str) -> tuple[Found[RoceTest], ...]:
    """Parse `-roce_test`: results of perftest (`ib_send_bw` … `ib_read_lat`), at the sender or at the receiver."""
    return blocks(text, re.compile(r"roce_report ?:").fullmatch, _roce_test, re.compile(r"-{20,}").fullmatch)
