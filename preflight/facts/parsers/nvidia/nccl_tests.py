"""Output of nccl-tests (all_reduce_perf and its siblings, alone or under mpirun): ranks, table, verdict.

Columns differ by release and by test: `error` or `#wrong` at the end, redop and root before the figures or not, a Group
of each rank or none. Times are microseconds, bandwidths GB/s of 10^9 bytes. `# Avg bus bandwidth` is the mean over all
sizes, so no single size is compared with it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from preflight.facts.types import Missing
from preflight.model.text import quote


@dataclass(frozen=True)
class Figures:
    """One measurement. None: the test printed N/A. `wrong`: count of wrong values. None: not checked (-c 0)."""

    microseconds: float | None
    algbw: float | None
    busbw: float | None
    wrong: int | None


@dataclass(frozen=True)
class NcclTestsRow:
    """A row of the table. `reduction` "" and `root` None: no such column, or none and -1 in it."""

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
    """One run. `out_of_bounds`: rows with wrong values. It and `average` are None before the run's end.

    `failed`: lines in which a rank reports its error. `trouble`: sentences about text that is not recognized.
    """

    ranks: tuple[Rank, ...]
    rows: tuple[NcclTestsRow, ...]
    nccl: str  # release as NCCL prints it; "" if it does not
    out_of_bounds: int | None = None
    average: float | None = None  # GB/s
    failed: tuple[str, ...] = ()
    trouble: tuple[str, ...] = ()


@dataclass(frozen=True)
class NcclTests:
    """The runs, in the order of the text."""

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
    """Parse the standard output of one run or several; standard error may be among it."""
    start = text[:_LONGEST]
    *lines, cut = start.split("\n")  # a line without an end may lack anything
    runs = [_run(part) for part in _parts(lines)]
    if cut.strip() and runs[-1].average is None:
        sentence = f"nccl-tests: the output ends in the middle of a line: {quote(cut)}"
        runs[-1] = replace(runs[-1], trouble=(*runs[-1].trouble, sentence))
    runs = [run for run in runs if run.ranks or run.rows or run.failed]
    return NcclTests(tuple(runs)) if runs else Missing(f"nccl-tests printed {quote(start)}")


def _parts(lines: list[str]) -> list[list[str]]:
    """Return the lines of each run. A line that begins a run counts only if the run before has a rank or a row."""
    parts: list[list[str]] = [[]]
    has_results = False
    for line in (_PREFIX.sub("", line).strip()[:1000] for line in lines):
        if has_results and _BEGIN.match(line):
            parts.append([])
            has_results = False
        has_results = has_results or bool(_RANK.fullmatch(line) or _ROW.fullmatch(line))
        parts[-1].append(line)
    return parts


@dataclass
class _RunReader:
    """The lines of one run so far."""

    ranks: list[Rank] = field(default_factory=list)
    rows: list[NcclTestsRow] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    strange_row: str = ""
    strange_heading: str = ""  # below an unknown heading, values may be confused
    headings: int = 0
    nccl: str = ""
    bounds: int | None = None
    average: float | None = None

    def read(self, line: str) -> None:
        if match := _RANK.fullmatch(line):
            rank, host, device, bus, model = match.groups()
            self.ranks.append(Rank(int(rank), host, int(device), bus, model))
        elif _TABLE.match(line):
            self.headings += 1
            self.strange_heading = "" if _HEADING.fullmatch(line) else self.strange_heading or line
        elif (match := _ROW.fullmatch(line)) and not self.strange_heading:
            self.rows.append(_row(match))
        else:
            self._read_other(line)

    def _read_other(self, line: str) -> None:
        if match := _BOUNDS.fullmatch(line):
            self.bounds = int(match[1])
        elif match := _AVERAGE.fullmatch(line):
            self.average = float(match[1])
        elif _FAILED.search(line):
            self.failed.append(line[:400])
        elif match := _NCCL.search(line):
            self.nccl = self.nccl or match[1]
        elif self.headings and re.match(r"\d{1,15}\s+\d{1,15}\s", line):
            self.strange_row = self.strange_row or line

    def trouble(self) -> Iterator[str]:
        if self.strange_heading:
            heading = quote(self.strange_heading)
            yield f"nccl-tests: the heading {heading} is not recognized, so no row below it is read"
        elif self.strange_row:
            yield f"nccl-tests: the row {quote(self.strange_row)} is not recognized"
        if self.headings > 1:
            yield (
                f"nccl-tests: {self.headings} tables in one run. An mpirun of another MPI than that of the build "
                "starts every rank as a separate job"
            )


def _run(lines: list[str]) -> NcclTest:
    reader = _RunReader()
    for line in lines:
        reader.read(line)
    return NcclTest(
        tuple(reader.ranks),
        tuple(reader.rows),
        reader.nccl,
        out_of_bounds=reader.bounds,
        average=reader.average,
        failed=tuple(reader.failed[:_MOST]),
        trouble=tuple(reader.trouble()),
    )


def _row(match: re.Match[str]) -> NcclTestsRow:
    size, count, dtype, reduction, root, *figures = match.groups()
    return NcclTestsRow(
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
