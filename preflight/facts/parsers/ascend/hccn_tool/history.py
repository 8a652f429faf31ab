"""`-link_stat`: times at which a device NIC's link went up and down."""

import re
from datetime import UTC, datetime

from preflight.facts.parsers.ascend.hccn_tool import tables
from preflight.facts.parsers.ascend.hccn_tool.tool_output import NotUnderstoodError, blocks, fields
from preflight.facts.reading import Found
from preflight.facts.sections.nic import LinkChange, LinkHistory
from preflight.model.text import quote

_DEVICE = re.compile(r"\[devid (\d{1,3})\]")
_FIELD = re.compile(r"\[devid \d{1,3}\](current time|link (?:up|down) count|link change records) *: *(\S.{0,99})?")
_CHANGE = re.compile(r"\[devid \d{1,3}\] +(\S.{0,59}) LINK (UP|DOWN)")
_COUNT = re.compile(r"link (up|down) count *: *(\S{1,20})")  # of Ascend 950
_STATES = {"LINK_UP": True, "LINK_DOWN": False}
_START = re.compile(r"\[devid \d{1,3}\]current time *:.{0,99}|link up count *:.{0,99}")
_CLOCK = re.compile(r"\w{3} (\w{3}) +(\d{1,2}) (\d{1,2}):(\d{2}):(\d{2}) (\d{4})")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def _seconds(text: str) -> float | None:
    """Return the seconds of `Tue Aug  2 03:09:26 2022` as if in UTC, in any locale. None: no date."""
    match = _CLOCK.fullmatch(text.strip())
    if match is None or match.group(1) not in _MONTHS:
        return None
    day, hour, minute, second, year = map(int, match.groups()[1:])
    try:
        return datetime(year, _MONTHS.index(match.group(1)) + 1, day, hour, minute, second, tzinfo=UTC).timestamp()
    except ValueError:
        return None


def _count(text: str | None) -> int:
    if text is None or not re.fullmatch(r"[0-9]{1,20}", text):
        raise NotUnderstoodError(f"hccn_tool counts {quote(text or '')} link changes, which is not recognized")
    return int(text)


def _history(block: list[str]) -> LinkHistory:
    if len({match.group(1) for match in filter(None, map(_DEVICE.match, block))}) > 1:
        raise NotUnderstoodError("hccn_tool reports the link changes of several devices at once")
    values = fields(block, _FIELD)
    changes = [match.groups() for match in filter(None, map(_CHANGE.fullmatch, block))]
    if "link change records" not in values or (not changes and values["link change records"] != "NA"):
        raise NotUnderstoodError(f"hccn_tool printed {quote(block[-1])} and then no more, which is not recognized")
    return LinkHistory(
        now=_seconds(values.get("current time") or ""),
        ups=_count(values.get("link up count")),
        downs=_count(values["link down count"]) if "link down count" in values else None,
        changes=tuple(LinkChange(state == "UP", _seconds(time)) for time, state in changes),
    )


def _port_history(block: list[str]) -> LinkHistory:
    """Parse the answer of Ascend 950 for a port: two counts, then a table of up to ten changes, the newest first."""
    counts = fields(block, _COUNT)
    start = next((index for index, line in enumerate(block) if tables.rule(line)), None)
    rows = [] if start is None else tables.rows_of(block[start:])
    ups, downs = _count(counts.get("up")), _count(counts.get("down"))
    changes = tuple(map(_change, rows))
    if len(tables.places(rows)) > 1:
        raise NotUnderstoodError("hccn_tool reports the link changes of several ports at once")
    listed_ups = sum(change.up for change in changes)
    if listed_ups > ups or len(changes) - listed_ups > downs or (start is None and ups + downs):
        raise NotUnderstoodError(
            f"hccn_tool counts {ups} link ups and {downs} link downs, and lists {len(rows)} changes"
        )
    return LinkHistory(now=None, ups=ups, downs=downs, changes=changes)


def _change(row: tables.TableRow) -> LinkChange:
    state = row.get("Link_Status", "")
    if state not in _STATES or "Time_Stamp" not in row:
        raise NotUnderstoodError(f"hccn_tool lists a link change {quote(state)}, which is not recognized")
    return LinkChange(_STATES[state], _seconds(row["Time_Stamp"]))


def link_stat(text: str) -> tuple[Found[LinkHistory], ...]:
    """Parse `-link_stat -g`: counts and times of link changes; no count of downs from older 910A drivers."""
    return blocks(
        text,
        _START.fullmatch,
        lambda block: (_history if _DEVICE.match(block[0]) else _port_history)(block),
        lambda line: _CHANGE.fullmatch(line) or tables.rule(line),
    )
