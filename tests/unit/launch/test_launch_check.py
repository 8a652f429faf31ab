"""Start scripts that are read: a case is a file of tests/cases/launch.

[scripts]      name → text; line 1 is the first after the quotes
[files]        host files that stand beside them
[inventory]    there is one, of node01 and node02, 10.1.0.11 and .12, with eight NPUs; its shared_dir
[[expect]]     all that is wrong: at = "file:line:column", fragments of `what`, and whole `found` and `expected`;
               absent = true: that this is not said
"""

import random
import subprocess
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preflight.inventory import parse
from preflight.launch.lint.check import faults, host_files, read
from preflight.launch.lint.types import ScriptFault
from preflight.model.cluster import Cluster

CASES = sorted((Path(__file__).parents[2] / "cases" / "launch").glob("*.toml"))


def cluster(shared: str = "") -> Cluster:
    return parse(
        f"""
[cluster]
name = "test"
product = "atlas-a2"
cidrs = ["10.1.0.0/24"]
devices = 8
[probe]
{f'shared_dir = "{shared}"' if shared else ""}
[[hosts]]
name = "node[01-02]"
address = "10.1.0.[11-12]"
""",
        Path("hosts.toml"),
    )


def found(case: dict[str, Any]) -> list[ScriptFault]:
    texts = {Path(name): text for name, text in case["scripts"].items()}
    files = {Path(name): text for name, text in case.get("files", {}).items()}
    inventory = cluster(case["inventory"].get("shared_dir", "")) if "inventory" in case else None
    return faults(texts, files, inventory, inventory.hosts if inventory else ())


def is_said(expect: dict[str, Any], fault: ScriptFault) -> bool:
    at = f"{fault.path}:{fault.spot.line}:{fault.spot.column}"
    right = expect["at"] == at and expect.get("what", "") in fault.what
    return right and all(
        expect.get(name, getattr(fault, name)) == getattr(fault, name) for name in ("found", "expected")
    )


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_what_is_wrong_is_said_and_nothing_else(path: Path) -> None:
    case = tomllib.loads(path.read_text(encoding="utf-8"))
    said = found(case)
    for expect in case.get("expect", []):
        matching = [fault for fault in said if is_said(expect, fault)]
        if expect.get("absent"):
            assert not matching, expect
            continue
        assert len(matching) == 1, (expect, said)
        assert matching[0].do
        said.remove(matching[0])
    assert said == []


def test_every_rule_has_a_case_in_which_it_speaks_and_one_in_which_all_is_right() -> None:
    silent = [path.stem for path in CASES if "expect" not in tomllib.loads(path.read_text(encoding="utf-8"))]
    assert silent == [
        "hosts-agree", "inventory-agrees", "loopback-first-host", "loopback-of-one-host", "loops-that-are-right",
        "ranks-in-another-order", "redirections-that-are-right", "ssh-that-is-right",
    ]  # fmt: skip


def test_a_fault_that_is_mended_is_not_found_again() -> None:
    """What is expected, put where it was found, leaves nothing wrong there."""
    text = (
        "torchrun --nnodes=2 --node_rank=0 --master_adderss 10.1.0.11--master_port 29500 –nproc_per_node 8 train.py\n"
    )
    path = Path("start.sh")
    for _ in range(5):
        wrong = faults({path: text}, {}, None, ())
        if not wrong:
            break
        text = text.replace(wrong[0].found, wrong[0].expected)
    assert text == (
        "torchrun --nnodes=2 --node_rank=0 --master_addr 10.1.0.11 --master_port 29500 --nproc_per_node 8 train.py\n"
    )


@pytest.mark.parametrize(
    "lines",
    [
        "for i in {1..8}; do RANK_ID=$((i-1)) python a.py & done",
        "for i in {1..8}; do export RANK_ID=$(expr $i - 1); python a.py & done",
        "export RANK_ID=0\npython a.py &\nfor i in {1..7}; do export RANK_ID=$i; python a.py & done",
        "for i in {1..7}; do export RANK_ID=$i; python a.py & done\nexport RANK_ID=0; python a.py",
        "RANK_ID=0 python a.py &\nfor i in {1..7}; do RANK_ID=$i python a.py & done",
        "./first.sh &\nfor i in {1..7}; do RANK_ID=$i python a.py & done",
        'ssh node01 "RANK_ID=0 python a.py" &\nfor i in {1..7}; do RANK_ID=$i python a.py & done',
        "for i in {4..7}; do RANK_ID=$i python a.py & done",
        "RANK_ID=7 python a.py",
        "for i in {1..7}; do RANK_ID=$i RANK_SIZE=$SIZE python a.py & done",
    ],
)
def test_a_loop_that_need_not_start_rank_0_is_right(lines: str) -> None:
    assert faults({Path("a.sh"): f"export RANK_SIZE=8\n{lines}\n"}, {}, None, ()) == []


def test_with_the_scripts_of_all_hosts_rank_0_may_be_on_another_one() -> None:
    texts = {
        Path("one.sh"): "RANK_SIZE=8 RANK_ID=0 python a.py\n",
        Path("two.sh"): "export RANK_SIZE=8\nfor i in {1..7}; do RANK_ID=$i python a.py & done\n",
    }
    assert faults(texts, {}, None, ()) == []
    assert "RANK_ID 0 is never started" in faults(dict([texts.popitem()]), {}, None, ())[0].what


def test_variables_that_have_several_values_are_not_guessed() -> None:
    text = """
if [ "$1" = first ]; then RANK=0; ADDR=127.0.0.1; else RANK=5; ADDR=10.1.0.11; fi
torchrun --nnodes 2 --node_rank $RANK --nproc_per_node 8 --master_addr $ADDR train.py
"""
    assert faults({Path("a.sh"): text}, {}, None, ()) == []


def test_host_files_are_looked_for_beside_the_script() -> None:
    texts = {Path("jobs/a.sh"): "mpirun -np 2 --hostfile hosts ./x\nmpirun -np 2 -hostfile /etc/hosts.mpi ./x\n"}
    assert host_files(texts) == [Path("jobs/hosts"), Path("/etc/hosts.mpi")]


PIECES = (
    "torchrun", "mpirun", "--nnodes", "=", "2", " ", "\\", "\n", "'", '"', "$(", ")", "(", "$A", "A=", "${A}", "–", "#",
    "<<END", "END", ";", "|", "&", ">", "-x", "tcp://", "--master_addr", "127.0.0.1", "\t", "\r", "é", "--", "-",
    "\u00a0", "for i in ", "for ((i=0;i<3;i++)); ", "; do ", "\ndone\n", "bash -c ", "ssh h ", "{0..3}",
    "$((A + 1))", "`", "RANK=$i python t.py & ",
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=60).map("".join) | st.text(max_size=80))
def test_no_text_is_too_strange_to_be_read(text: str) -> None:
    all_ = cluster()
    for fault in faults({Path("a.sh"): text, Path("b.sh"): text[::-1]}, {}, all_, all_.hosts):
        assert fault.spot.line >= 1 and fault.spot.column >= 1


@pytest.mark.parametrize(
    "piece",
    ["-a\n", "\\ \n", "$(", "'", "A=$A$A\n", "torchrun --mastr_addr x\n", "\\" + " " * 50, "A=1 ", "x=(\n", "<<E\n",
     "python a.py tcp://127.0.0.1:1\n", "–", "a\u00a0", "a\\\n",
     "for i in {0..999}; do\n", "for i in 0 1; do\n", "while x; do A=$A1\n", "bash -c '", "ssh h bash -c ",
     'ssh h "a\n" ',
     "for i in 0 1; do RANK=$i python t.py & done\n", "A=$((A+1))\n", "for i in {0..999}; do A=$i; done\n", "$((1+1))",
     "for i in {0..99}; do ssh h$i 'a; b' & done\n", "bash -c 'a\nb\n'\n", "{0..1000}", "if x; then\n", "`seq 0 9`",
     "HCCL_AAAA=1\n", "torchrun --nnodes 99999999 --node_rank 1 x\n", "#"],
    ids=repr,
)  # fmt: skip
def test_the_longest_script_is_read_in_seconds(piece: str) -> None:
    began = time.process_time()
    all_ = cluster()
    faults({Path("a.sh"): piece * ((64 << 10) // len(piece)), Path("b.sh"): piece}, {}, all_, all_.hosts)
    assert time.process_time() - began < 20


def test_words_are_what_bash_makes_of_them() -> None:
    """The reader's own quoting, against shlex's: what it writes, this reads."""
    import shlex

    generator = random.Random(7)
    for _ in range(200):
        words = ["".join(generator.choices("ab'\"\\ $#;()\t-–", k=generator.randint(1, 8))) for _ in range(4)]
        script, _ = read(Path("a.sh"), f"true {shlex.join(words)}\n")
        (command,) = script.commands
        assert [word.text for word in command.words[1:]] == words


STAND_INS = """python() { printf '%s|%s|%s\\n' "$RANK" "$DEVICE_ID" "$*"; }
ssh() { while [ "${1#-}" != "$1" ]; do shift 2; done; shift; bash -c "$*"; }
export -f python ssh
"""


LAST = "for ((i = 0; i < 3; i++)); do export RANK=$i; python -u t.py; done; python t.py"
STRIPPED = 'for h in node01 node02; do ssh -p 22 $h "RANK=${h#x}1 python t.py"; done'
EARLY = "for h in 1 2; do ssh -o A=b h$h RANK=$h \"DEVICE_ID='$h'\" python t.py \\$RANK; done"
OUTER = "ssh -p 1 a 'for i in 5 6; do RANK=$i python t.py'\" $i\"'; done'"
UNKNOWN = {LAST: 1, STRIPPED: 2, EARLY: 2, OUTER: 2}  # how many values only a run tells, for our reading


@pytest.mark.parametrize(
    "text",
    [
        "for i in 0 1 2; do RANK=$i python t.py; done",
        "for i in {0..3} {08..10} {6..2..2} a{1,x}b; do RANK=$i python t.py; done",
        "for i in $(seq 1 2 6) 9; do RANK=$i python t.py; done; for i in `seq 2`; do RANK=$i python t.py; done",
        "n=4; for i in $(seq 0 $((n - 1))); do RANK=$((2 * n + i)) DEVICE_ID=${i} python t.py --rank $((i % 2)); done",
        LAST,
        "for((i=2; i<=6; i+=2)) do RANK=$i python t.py; done",
        "r=5\nfor i in 0 1 2\ndo\n RANK=$r\n export RANK\n python t.py\n r=$((r + 1))\ndone\nRANK=$r python t.py",
        "for a in 0 1; do for b in 0 1 2; do RANK=$((a*3+b)) python t.py; done; done",
        'all="3 4"; for i in $all "$all"; do RANK=$i python t.py; done',
        "all=(1 2); for i in ${all[@]} 3; do RANK=$i python t.py; done",
        "for i in; do RANK=1 python t.py; done; RANK=2 python t.py",
        "for i in 0 1; do RANK=$i bash -c 'python t.py --x \"a b\"'; done",
        "for i in 0 1; do bash -c \"RANK=$i; export RANK; DEVICE_ID=\\$RANK python t.py 'it is'\"; done",
        "RANK=7 bash -lc 'for i in 0 1; do DEVICE_ID=$i python t.py $((i + 1)); done'",
        "bash -c \"bash -c 'RANK=3 DEVICE_ID=4 python t.py'\"",
        STRIPPED,
        EARLY,
        OUTER,
    ],
)
def test_ranks_and_arguments_are_those_that_bash_gives(text: str) -> None:
    """Against bash itself, in which python prints what it got; words that are not known here have a $."""
    done = subprocess.run(["bash"], input=STAND_INS + text, capture_output=True, text=True, check=True)
    script, found = read(Path("a.sh"), text)
    assert found == []
    starts = [start for one in script.of_hosts for start in one.starts]
    read_ = [
        [*(start.own[name].text if name in start.own else "" for name in ("RANK", "DEVICE_ID")),
         *(word.text for word in start.program)]
        for start in starts
    ]  # fmt: skip
    got = [line.split("|", 2) for line in done.stdout.splitlines()]
    assert len(got) == len(read_)
    unknown = 0
    for values, (rank, device, *words) in zip(got, read_, strict=True):
        for value, told in zip(values, (rank, device, " ".join(words)), strict=True):
            assert told == value or not told or "$" in told
            unknown += told != value
    assert unknown == UNKNOWN.get(text, 0)
