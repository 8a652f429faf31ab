"""Slurm's node lists: expanded as Slurm 22.05 does, refused where it misreads. Cases: tests/cases/lists/slurm.tsv."""

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preflight.hostlists.host_list import TextError
from preflight.hostlists.slurm_nodelist import expand, fold

CASES = Path(__file__).parents[2] / "cases/lists/slurm.tsv"
VECTORS = "gpu-slurm2205-hostlist-vectors.tsv"  # expression → names by commas, or an error of Slurm's
MISREAD = {"node[1-3", "node[1-]", "node[1 - 3]"}  # of the vectors: what Slurm silently takes for something else
SUFFIXED = {
    "rack[1-2]node[01-02]-ib": ["rack1node01-ib", "rack1node02-ib", "rack2node01-ib", "rack2node02-ib"],
    "node[1-2]-eth0": ["node1-eth0", "node2-eth0"],
    "n-1-[1-2].cluster.local": ["n-1-1.cluster.local", "n-1-2.cluster.local"],
}
SLURM_CONF = "ClusterName=c\nSlurmctldHost=localhost\nAuthType=auth/none\nNodeName=n1\nPartitionName=p Nodes=n1\n"

NUMBERS = st.integers(0, 120).flatmap(lambda n: st.integers(1, 4).map(lambda width: f"{n:0{width}d}"))
STEMS = st.from_regex(r"[a-z]([a-z0-9.-]{0,4}[a-z-])?", fullmatch=True)
NAMES = st.lists(st.tuples(STEMS, NUMBERS | st.just("")).map("".join), min_size=1, max_size=12)


def names(text: str) -> list[str]:
    return [name for name, _ in expand(text)]


def cases() -> list[list[str]]:
    lines = CASES.read_text(encoding="utf-8").splitlines()
    return [line.replace("\\t", "\x00").split("\t") for line in lines if not line.startswith("#")]


@pytest.mark.parametrize(("expression", "expected"), [case[:2] for case in cases()])
def test_node_lists_of_the_cases(expression: str, expected: str) -> None:
    text = expression.replace("\x00", "\t")
    if expected.partition(":")[0].isdigit():
        with pytest.raises(TextError) as refused:
            names(text)
        assert f"{refused.value.at + 1}: {refused.value}" == expected
    else:
        assert names(text) == expected.split()


def test_real_node_lists_are_expanded_as_by_slurm(request: pytest.FixtureRequest) -> None:
    directory: Path | None = request.config.getoption("--captures")
    if directory is None:
        pytest.skip("not run: captures of real tools are not in this repository; give them with --captures DIR")
    lines = (directory / VECTORS).read_text(encoding="utf-8").splitlines()
    vectors = [line.split("\t") for line in lines if not line.startswith(("#", "COMPRESS"))]
    assert len(vectors) > 15
    for expression, result in vectors:
        if expression in SUFFIXED:
            assert names(expression) == SUFFIXED[expression]
        elif expression in MISREAD or "Invalid" in result:
            with pytest.raises(TextError):
                names(expression)
        else:
            assert names(expression) == result.split(","), expression
    for line in lines:
        if line.startswith("COMPRESS "):
            given_, folded, _ = line.removeprefix("COMPRESS ").split("\t")
            assert fold(given_.split(",")) == folded


def test_slurm_itself_agrees(tmp_path: Path) -> None:
    """Where `scontrol` is installed, as `make test` does."""
    scontrol = shutil.which("scontrol")
    if scontrol is None:
        pytest.skip("not run: there is no scontrol here; install slurm-client")
    conf = tmp_path / "slurm.conf"
    conf.write_text(SLURM_CONF)

    def of_slurm(expression: str) -> str:
        done = subprocess.run([scontrol, "show", "hostnames", expression], text=True, capture_output=True,
                              env={"SLURM_CONF": str(conf)}, timeout=30)  # fmt: skip
        return "refused" if "Invalid hostlist" in done.stderr else " ".join(done.stdout.split())

    for expression, expected, slurm in cases():
        text = expression.replace("\x00", "\t")
        if slurm and not slurm.endswith("names"):
            assert of_slurm(text) == slurm, text
        elif not slurm:
            assert of_slurm(text) == expected, text
            assert of_slurm(fold(expected.split())) == expected, text


@given(NAMES)
def test_folded_names_are_read_back_in_order(wanted: list[str]) -> None:
    assert names(fold(wanted)) == wanted


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (["n1", "n2", "n3"], "n[1-3]"),
        (["n1"], "n1"),
        (["n1", "n01"], "n[1,01]"),
        (["n08", "n09", "n10"], "n[08-10]"),
        (["n2", "n1"], "n[2,1]"),
        (["n1", "n1"], "n[1,1]"),
        (["a", "b"], "a,b"),
        (["n1.x", "n2.x"], "n1.x,n2.x"),  # Slurm reads nothing behind a bracket
        (["r1n1", "r1n2", "r2n1"], "r1n[1-2],r2n1"),
    ],
)
def test_folding_is_slurms(wanted: list[str], text: str) -> None:
    assert fold(wanted) == text


def test_a_list_of_too_many_names_is_refused_before_expansion() -> None:
    with pytest.raises(TextError, match="more than 65536"):
        expand("n[1-999999999]x[1-999999999]")
    assert len(expand("n[1-65536]")) == 65536
