"""Output of HCCL Test (all_reduce_test and its siblings, under mpirun): its table, and errors that prevented one.

`alg_bandwidth` is size / time, with 2^30 bytes for a GB although the heading says GB/s: only then do the rows of the
vendor's manual agree. The root rank prints a row per size. A rank with a wrong result prints a separate line.
"""

import re
from dataclasses import dataclass
from itertools import dropwhile

from preflight.facts.types import Missing
from preflight.model.text import quote


@dataclass(frozen=True)
class Row:
    """A row of the table. `check`: success, failed or NULL (not checked)."""

    size: int  # bytes a device
    microseconds: float
    bandwidth: float  # as printed: GiB/s (2^30 bytes), of the algorithm
    check: str


@dataclass(frozen=True)
class HcclTest:
    """One test. `codes`: error codes of HCCL or the runtime that ended it. There may be rows from before.

    `trouble`: sentences on why it did not start, or why its table is not read. `wrong_ranks`: ranks with wrong results.
    """

    rows: tuple[Row, ...]
    wrong_ranks: tuple[int, ...] = ()
    overflow: bool = False  # the test reported that results overflow, and checks none
    codes: tuple[int, ...] = ()
    trouble: tuple[str, ...] = ()


_KNOWN = (
    (
        re.compile(r"gethostbyname failed, (\S{1,80})"),
        "the host does not resolve its own name: write it into /etc/hosts with the address the other hosts know it by",
    ),
    (
        re.compile(r"libmpi\.so[.0-9]{0,8}: cannot open shared object file"),
        "MPI is not in LD_LIBRARY_PATH on every host: export LD_LIBRARY_PATH=$LD_LIBRARY_PATH:MPI_HOME/lib",
    ),
    (
        re.compile(r"orted: ?(?:command not found|No such file|未找到命令)"),
        "Open MPI is not found on another host: start with --prefix MPI_HOME, or end what an earlier run left there "
        "(pgrep -fa 'orted|_test')",
    ),
    (
        re.compile(r"libhccl\.so: cannot open shared object file"),
        "CANN is not loaded where the test starts: source its set_env.sh, and pass LD_LIBRARY_PATH on with mpirun -x",
    ),
)
_RETCODE = re.compile(r"(?:hccl|acl) interface return err[^\n]{0,200}?retcode: ([0-9]{1,6})")

_HEADING = re.compile(r"data_size\(Bytes\): *\| *ave?g_time\(us\): *\| *alg_bandwidth\(GB/s\): *\| *check_result:")
_ROW = re.compile(
    r"([0-9]{1,15}) *\| *([0-9]{1,12}\.[0-9]{1,6}) *\| *([0-9]{1,9}\.[0-9]{1,9}) *"
    r"\| *(success|failed|NULL)"
)
_WRONG = re.compile(r"(?i:rank[ _]id) ([0-9]{1,6}),? check result failed")
_OVERFLOW = re.compile(r"Warning: The (?:calculation result|initdata) overflows")
_LONGEST = 1_000_000  # characters; every rank may repeat its error


def hccl_test(text: str) -> HcclTest | Missing:
    """Parse the output of one test, standard output and error together."""
    text = text[:_LONGEST]
    lines = [line.strip() for line in text.split("\n")]
    rows, unknown_row = _rows(lines)
    wrong_ranks = {int(match.group(1)) for line in lines if (match := _WRONG.search(line[:400]))}
    codes = tuple(sorted({int(match.group(1)) for match in _RETCODE.finditer(text)}))
    trouble = _trouble(text)
    if unknown_row:
        trouble += (f"HCCL Test: the row {quote(unknown_row)} is not recognized, or cut",)
    if not (rows or codes or trouble or wrong_ranks):
        return Missing(f"HCCL Test printed {quote(text)}")
    return HcclTest(tuple(rows), tuple(sorted(wrong_ranks)), bool(_OVERFLOW.search(text)), codes, trouble)


def _rows(lines: list[str]) -> tuple[list[Row], str]:
    """Return the rows below the heading, and the first line there that resembles a row but is not recognized."""
    rows: list[Row] = []
    unknown_row = ""
    below_heading = dropwhile(lambda line: not _HEADING.fullmatch(line), lines)
    for line in below_heading:
        if _WRONG.search(line[:400]):
            continue
        if match := _ROW.fullmatch(line[:400]):
            rows.append(Row(int(match.group(1)), float(match.group(2)), float(match.group(3)), match.group(4)))
        elif line[:1].isdigit() and "|" in line:
            unknown_row = unknown_row or line
    return rows, unknown_row


def _trouble(text: str) -> tuple[str, ...]:
    """Return one sentence per cause, however many ranks report it."""
    matches = ((pattern.search(text), cause) for pattern, cause in _KNOWN)
    return tuple(f"HCCL Test printed {quote(match.group())}: {cause}" for match, cause in matches if match)


# Above this many devices the type cannot represent the expected result exactly. The test then cannot tell right from
# wrong, and prints NULL.
_MOST_SUM = {"int8": 63, "uint8": 63, "int16": 16_383, "fp16": 511, "bfp16": 63, "bf16": 63}
_MOST_PRODUCT = {"int8": 6, "int16": 14, "int32": 30, "int64": 62, "fp32": 127, "fp16": 15, "bfp16": 127, "bf16": 127}


def checks(dtype: str, op: str, devices: int) -> bool:
    """Return whether the test can check all_reduce and reduce of `devices`; if not, NULL is expected.

    `dtype` and `op` as in the options -d and -o.
    """
    limit = {"sum": _MOST_SUM, "prod": _MOST_PRODUCT}.get(op, {}).get(dtype)
    return limit is None or devices <= limit
