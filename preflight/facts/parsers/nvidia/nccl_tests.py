"""What nccl-tests print (all_reduce_perf and its siblings, alone or under mpirun): the ranks, the table, the verdict.

Columns differ by release and by test: `error` or `#wrong` at the end, redop and root before the figures or not, a Group
of each rank or none. Times are microseconds, bandwidths GB/s of 10^9 bytes. What follows `# Avg bus bandwidth` is the
mean over all sizes, and nothing to hold a single size against.
"""

import re
from dataclasses import dataclass, replace

from preflight.facts.quote import quote
from preflight.facts.types import Missing


@dataclass(frozen=True)
class Figures:
    """None where the test printed N/A. `wrong`: values that were not right; None: not checked (-c 0)."""

    microseconds: float | None
    algbw: float | None
    busbw: float | None
    wrong: int | None


@dataclass(frozen=True)
class Row:
    """`reduction` and `root`: "" and None where the test has no such column, or says none and -1."""

    size: int  # bytes
    count: int  # elements
    dtype: str
    reduction: str
    root: int | None
    out_of_place: Figures
    in_place: Figures


@dataclass(frozen=True)
class Rank:
    rank: int
    host: str
    device: int
    bus: str
    model: str


@dataclass(frozen=True)
class NcclTest:
    """One run. `average`: None before its end; `out_of_bounds`: rows with wrong values, None before its end; `failed`:
    lines in which a rank says what it ended with; `trouble`: sentences about what of the text is not understood."""

    ranks: tuple[Rank, ...]
    rows: tuple[Row, ...]
    nccl: str  # release as NCCL prints it; "" if it does not
    out_of_bounds: int | None = None
    average: float | None = None  # GB/s
    failed: tuple[str, ...] = ()
    trouble: tuple[str, ...] = ()


@dataclass(frozen=True)
class NcclTests:
    """The runs of a text, in its order."""

    runs: tuple[NcclTest, ...]


_LONGEST = 4_000_000  # characters
_MOST = 20  # lines of one kind that are kept
_PREFIX = re.compile(r"^\[\d{1,6},\d{1,6}\]<std(?:out|err)>: ?")  # Open MPI's --tag-output
_BEGIN = re.compile(r"# (?:nThread \d|nccl-tests version|Collective test starting)")
_RANK = re.compile(
    r"#\s+Rank\s+(\d{1,6})(?:\s+Group\s+\d{1,6})?\s+Pid\s+\d{1,9} on\s+(\S{1,255}) device\s+(\d{1,4}) "
    r"\[([0-9a-fA-FxX:.]{1,20})\] (\S.{0,99})"
)
_NCCL = re.compile(r"NCCL version (\S{1,60})")
_TABLE = re.compile(r"#\s+size\s+count\s+type\b")
_HEADING = re.compile(
    r"#\s+size\s+count\s+type(?:\s+redop)?(?:\s+root)?(?:\s+time\s+algbw\s+busbw\s+(?:error|#wrong)){2}"
)
_TIME = r"(N/A|\d{1,12}(?:\.\d{1,6})?(?:e\+\d{2})?)"
_RATE = r"(N/A|\d{1,9}\.\d{1,6})"
_FIGURES = rf"\s+{_TIME}\s+{_RATE}\s+{_RATE}\s+(N/A|\d{{1,15}}(?:e[+-]\d{{2}})?)"
_ROW = re.compile(
    rf"(\d{{1,15}})\s+(\d{{1,15}})\s+([a-z][a-z0-9_]{{1,20}})(?:\s+([a-z]{{3,10}}))?(?:\s+(-?\d{{1,6}}))?{_FIGURES}{_FIGURES}"
)
_BOUNDS = re.compile(r"# Out of bounds values : (\d{1,15}) (?:OK|FAILED)")
_AVERAGE = re.compile(r"# Avg bus bandwidth\s*: (\d{1,9}(?:\.\d{1,6})?(?:e[+-]\d{2})?)(?:\s+(?:OK|FAILED))?")
_FAILED = re.compile(r"Test (?:NCCL|CUDA) failure |: Test failure ")


def nccl_tests(text: str) -> NcclTests | Missing:
    """Standard output of one run or several, standard error may be among it."""
    whole = text[:_LONGEST]
    *lines, cut = whole.split("\n")  # of a line without an end nobody knows what is missing
    parts: list[list[str]] = [[]]
    full = False  # the last one has a rank or a row, so that what begins then is another run
    for line in (_PREFIX.sub("", line).strip()[:1000] for line in lines):
        if full and _BEGIN.match(line):
            parts.append([])
            full = False
        full = full or bool(_RANK.fullmatch(line) or _ROW.fullmatch(line))
        parts[-1].append(line)
    runs = [_run(part) for part in parts]
    if cut.strip() and runs[-1].average is None:
        sentence = f"nccl-tests: the text ends in the middle of a line: {quote(cut)}"
        runs[-1] = replace(runs[-1], trouble=(*runs[-1].trouble, sentence))
    said = tuple(run for run in runs if run.ranks or run.rows or run.failed)
    return NcclTests(said) if said else Missing(f"nccl-tests said {quote(whole)}")


def _run(lines: list[str]) -> NcclTest:
    ranks: list[Rank] = []
    rows: list[Row] = []
    failed: list[str] = []
    strange: list[str] = []
    nccl, headings, bounds, average = "", 0, None, None
    columns = ""  # a heading that is not known, below which a value may be taken for another
    for text in lines:
        if match := _RANK.fullmatch(text):
            rank, host, device, bus, model = match.groups()
            ranks.append(Rank(int(rank), host, int(device), bus, model))
        elif _TABLE.match(text):
            headings += 1
            columns = "" if _HEADING.fullmatch(text) else columns or text
        elif (match := _ROW.fullmatch(text)) and not columns:
            rows.append(_row(match))
        elif match := _BOUNDS.fullmatch(text):
            bounds = int(match[1])
        elif match := _AVERAGE.fullmatch(text):
            average = float(match[1])
        elif _FAILED.search(text):
            failed.append(text[:400])
        elif match := _NCCL.search(text):
            nccl = nccl or match[1]
        elif headings and re.match(r"\d{1,15}\s+\d{1,15}\s", text):
            strange.append(text)
    trouble = [f"nccl-tests: the row {quote(strange[0])} is not understood"] if strange else []
    if columns:
        trouble = [f"nccl-tests: the heading {quote(columns)} is not understood, so no row below it is read"]
    if headings > 1:
        trouble.append(
            f"nccl-tests: {headings} tables in one run: mpirun of another MPI than the one it was built with starts "
            "every rank as a job of its own"
        )
    return NcclTest(tuple(ranks), tuple(rows), nccl, bounds, average, tuple(failed[:_MOST]), tuple(trouble))


def _row(match: re.Match[str]) -> Row:
    size, count, dtype, reduction, root, *figures = match.groups()
    return Row(
        int(size),
        int(count),
        dtype,
        "" if reduction in (None, "none") else reduction,
        None if root in (None, "-1") else int(root),
        _figures(figures[:4]),
        _figures(figures[4:]),
    )


def _figures(words: list[str]) -> Figures:
    time, algbw, busbw = (None if word == "N/A" else float(word) for word in words[:3])
    return Figures(time, algbw, busbw, None if words[3] == "N/A" else int(float(words[3])))
