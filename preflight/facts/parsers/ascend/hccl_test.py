"""What HCCL Test prints (all_reduce_test and its siblings, under mpirun): its table, and what kept it from one.

`alg_bandwidth` is size / time, with 2^30 bytes for a GB although the heading says GB/s: the rows of the vendor's manual
agree only so. The root rank prints a row a size; a rank whose result was wrong prints a line of its own.
"""

import re
from dataclasses import dataclass
from itertools import dropwhile

from preflight.facts.quote import quote
from preflight.facts.types import Missing


@dataclass(frozen=True)
class Row:
    """`check`: success, failed or NULL (not checked)."""

    size: int  # bytes a device
    microseconds: float
    bandwidth: float  # as printed: GiB/s (2^30 bytes), of the algorithm
    check: str


@dataclass(frozen=True)
class HcclTest:
    """One test. `codes`: error codes of HCCL or the runtime that ended it. There may be rows from before.

    `trouble`: sentences about what kept it from starting, or its table from being read. `wrong_ranks`: ranks with wrong
    results.
    """

    rows: tuple[Row, ...]
    wrong_ranks: tuple[int, ...] = ()
    overflow: bool = False  # it reported that results overflow, and checks none
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
    rows, strange = _rows(lines)
    wrong = {int(match.group(1)) for line in lines if (match := _WRONG.search(line[:400]))}
    codes = tuple(sorted({int(match.group(1)) for match in _RETCODE.finditer(text)}))
    trouble = _trouble(text)
    if strange:
        trouble += (f"HCCL Test: the row {quote(strange)} is not understood, or cut",)
    if not (rows or codes or trouble or wrong):
        return Missing(f"HCCL Test said {quote(text)}")
    return HcclTest(tuple(rows), tuple(sorted(wrong)), bool(_OVERFLOW.search(text)), codes, trouble)


def _rows(lines: list[str]) -> tuple[list[Row], str]:
    """Return the rows below the heading, and the first line there that looks like one and is none."""
    rows: list[Row] = []
    strange = ""
    below_heading = dropwhile(lambda line: not _HEADING.fullmatch(line), lines)
    for line in below_heading:
        if _WRONG.search(line[:400]):
            continue
        if match := _ROW.fullmatch(line[:400]):
            rows.append(Row(int(match.group(1)), float(match.group(2)), float(match.group(3)), match.group(4)))
        elif line[:1].isdigit() and "|" in line:
            strange = strange or line
    return rows, strange


def _trouble(text: str) -> tuple[str, ...]:
    """Return one sentence a cause, however many ranks report it."""
    matches = ((pattern.search(text), cause) for pattern, cause in _KNOWN)
    return tuple(f"HCCL Test said {quote(match.group())}: {cause}" for match, cause in matches if match)


# Above this many devices the test cannot tell right from wrong, because the expected result is no exact number of the
# type, and prints NULL.
_MOST_SUM = {"int8": 63, "uint8": 63, "int16": 16_383, "fp16": 511, "bfp16": 63, "bf16": 63}
_MOST_PRODUCT = {"int8": 6, "int16": 14, "int32": 30, "int64": 62, "fp32": 127, "fp16": 15, "bfp16": 127, "bf16": 127}


def checks(dtype: str, op: str, devices: int) -> bool:
    """Return whether all_reduce and reduce of `devices` can be checked; where they cannot, NULL is expected.

    `dtype` and `op` as in the options -d and -o.
    """
    limit = {"sum": _MOST_SUM, "prod": _MOST_PRODUCT}.get(op, {}).get(dtype)
    return limit is None or devices <= limit
