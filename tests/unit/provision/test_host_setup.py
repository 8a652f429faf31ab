"""[host_setup]: our block in a file of others, and what the collector sends of these files."""

import subprocess
from pathlib import Path

import pytest

from preflight.facts.sections import environment
from preflight.model.cluster import Cluster, HostSetup, Product
from preflight.rules.setup_files import BEGIN, END, BlockDamagedError, ours, profile_file, with_block
from tests.unit.collector import section

ROOT = Path(__file__).parents[3]
TEXTS = [
    "",
    "127.0.0.1 localhost\n",
    "127.0.0.1 localhost",
    "# a\r\n\r\n::1 x\r\n",
    "\N{EM DASH}\x0c\x85\n# \U0010ffe9\n",
]


@pytest.mark.parametrize("text", TEXTS)
def test_our_block_comes_once_changes_in_its_place_and_goes_without_a_trace(text: str) -> None:
    first = with_block(text, ["10.0.0.1 a"])
    assert first.startswith(text)
    assert first.endswith(f"{BEGIN}\n10.0.0.1 a\n{END}\n")
    assert with_block(first, ["10.0.0.1 a"]) == first
    below = first + "10.9.9.9 somebody\n"
    assert with_block(below, ["10.0.0.2 a", "10.0.0.3 b"]) == below.replace("10.0.0.1 a", "10.0.0.2 a\n10.0.0.3 b")
    assert with_block(first, []) == text + ("\n" if text and not text.endswith("\n") else "")
    assert with_block(text, []) == text


@pytest.mark.parametrize("text", [f"{BEGIN}\n", f"{END}\n", f"{END}\n{BEGIN}\n", f"{BEGIN}\n{BEGIN}\n{END}\n"])
def test_a_block_that_somebody_cut_is_left_alone(text: str) -> None:
    for lines in ([], ["10.0.0.1 a"]):
        with pytest.raises(BlockDamagedError, match="exactly once"):
            with_block(text, lines)


def test_what_is_ours_is_told_by_its_first_line() -> None:
    assert ours("# Written by preflight: x\n")
    assert ours(f"a\n{BEGIN}\nb\n")
    assert not ours("# not written by preflight\n")
    assert not ours(None)


def test_a_shell_reads_the_profile_and_nothing_in_it_is_run(tmp_path: Path) -> None:
    values = {"HCCL_A": "$(touch x) `touch x`", "HCCL_B": "it's; touch x", "HCCL_C": '"\\', "HCCL_SOCKET_IFNAME": "=b0"}
    cluster = Cluster("c", Product.ATLAS_A2, (), setup=HostSetup(profile=values))
    (tmp_path / "profile").write_text(profile_file(cluster, "eth0") or "")
    done = subprocess.run(["sh", "-c", ". ./profile; env"], cwd=tmp_path, capture_output=True, text=True, check=True)
    found = dict(line.split("=", 1) for line in done.stdout.splitlines() if line.startswith("HCCL_"))
    assert found == values
    assert not (tmp_path / "x").exists()


# The collector's look, on a tree of its own.


def look(root: Path, **request: bool) -> environment.RawEnvironment:
    look_environment = section("system", "environment", lambda text: text.replace('"/etc/', f'"{root}/etc/'))
    found = environment.RawEnvironment(**look_environment({"hosts_file": False, "limits": False, **request}, 0))
    found.limits = {path.removeprefix(str(root)): text for path, text in found.limits.items()}
    return found


def test_a_file_that_nobody_asks_for_is_sent_only_if_we_have_been_there(tmp_path: Path) -> None:
    assert look(tmp_path, hosts_file=True, limits=True).hosts is None
    folder = tmp_path / "etc/security/limits.d"
    folder.mkdir(parents=True)
    (tmp_path / "etc/hosts").write_text("127.0.0.1 localhost\n")
    for name in ("20-site.conf", "README"):
        (folder / name).write_text("* soft nofile 1\n")
    (folder.parent / "limits.conf").write_text("# none\n")
    assert (look(tmp_path).hosts, look(tmp_path).limits, look(tmp_path).profile) == (None, {}, None)
    asked = look(tmp_path, hosts_file=True, limits=True)
    assert asked.hosts == "127.0.0.1 localhost\n"
    assert set(asked.limits) == {"/etc/security/limits.d/20-site.conf", "/etc/security/limits.conf"}
    (tmp_path / "etc/hosts").write_text(with_block("", ["10.0.0.1 a"]))
    (folder / "90-preflight.conf").write_text("# Written by preflight\n")
    (tmp_path / "etc/profile.d").mkdir()
    (tmp_path / "etc/profile.d/preflight-hccl.sh").write_text("# Written by preflight\n")
    left = look(tmp_path)
    assert (left.hosts or "").startswith(BEGIN)
    assert (set(left.limits), left.profile) == (
        {"/etc/security/limits.d/90-preflight.conf"},
        "# Written by preflight\n",
    )


@pytest.mark.parametrize(
    ("text", "number"), [("1048576\n", 1048576), (None, None), ("", None), ("x", None), ("9" * 30, None)]
)
def test_what_the_kernel_says_of_open_files_may_be_odd(text: str | None, number: int | None) -> None:
    assert environment.environment(environment.RawEnvironment(None, {}, None, text)).nr_open == number
