"""`preflight launch` as a user meets it: what it refuses, writes and says."""

import json
from pathlib import Path

import pytest

from preflight.cli.main import main
from preflight.facts.documents.facts_document import dump
from preflight.inventory import load
from preflight.ranktable.read import read
from tests.unit.healthy import healthy_facts

INVENTORY = """
[cluster]
name = "test"
product = "atlas-a2"
devices = 2
[network]
nic = "eth0"
[[hosts]]
name = "node[01-02]"
address = "10.1.0.[11-12]"
"""

THIRD = 'port = 2222\n[[hosts]]\nname = "node03"\naddress = "10.1.0.13"\n[hosts.ssh]\n{}'


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hosts.toml").write_text(INVENTORY)
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    try:
        code = main(["launch", *arguments])
    except SystemExit as end:
        code = int(str(end.code))
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "no program to start"),
        (["--launcher", "torchrunn", "--", "t.py"], "invalid choice: 'torchrunn'"),
        (["-o", "scripts", "--", "t.py"], "-o scripts and --dir DIR must be used together"),
        (["--dir", "x", "--", "t.py"], "-o scripts and --dir DIR must be used together"),
        (["--master-port", "80", "--", "t.py"], "is out of range: 1024 to 65535"),
        (["--devices", "0-2", "--", "t.py"], "node01 has devices 0 to 1 in the inventory, but not 2"),
        (["--devices", "x", "--", "t.py"], "'x' is not a list of devices"),
        (["--rank-table", "hccl.json", "--", "t.py"], "HCCL needs an absolute path"),
        (["--rank-table-copy", "hccl.json", "--", "t.py"], "the path of the table on the hosts"),
        (["--rank-table", "/t", "--rank-table-copy", "nowhere", "--", "t.py"], "nowhere: No such file or directory"),
        (["--rank-table", "/t", "--rank-table-copy", "hosts.toml", "--", "t.py"], "hosts.toml: not valid JSON"),
        (["--rank-table", "", "--", "t.py"], "HCCL needs an absolute path"),
        (["--env", "HCCL_RDMA_SL=9", "--", "t.py"], "the value must be a number from 0 to 7"),
        (
            ["--env", "HCCL_IF_IP=10.1.0.11", "--", "t.py"],
            "all 2 hosts would get this value, but each host needs its own",
        ),
        (["--master-port", "60005", "--", "t.py"], "--master-port 60005 is reserved for HCCL in the inventory"),
        (["--limit", "", "--", "t.py"], "--limit is empty"),
        (["--limit", "", "--check", "hosts.toml"], "--limit is empty"),
        (["--devices", "", "--", "t.py"], "'' is not a list of devices"),
        (["--forward", "PATH", "--", "t.py"], "--forward and --mpi-home are for mpirun"),
        (["--mpi-home", "/opt/mpi", "--launcher", "srun", "--", "t.py"], "--forward and --mpi-home are for mpirun"),
        (["--mpi-home", "mpi", "--launcher", "mpirun", "--", "t.py"], "is not an absolute path"),
        (["--launcher", "mpirun", "--forward", "A-B", "--", "t.py"], "is not a variable name"),
        (["--limit", "node07", "--", "t.py"], "the inventory has no host node07"),
        (["--from", "nowhere.json", "--", "t.py"], "nowhere.json"),
        (["--from", "x", "--offline", "--", "t.py"], "--from and --offline cannot be combined"),
        (["--launcher", "perseusrun", "--", "t.py"], "supports only NVIDIA GPUs"),
        (["--check", "nowhere.sh"], "nowhere.sh: No such file or directory"),
        (["--check", "."], ".: Is a directory"),
        (["--check", "hosts.toml", "--dir", "x"], "--check cannot be combined with --dir or -o scripts"),
        (["--check"], "--check needs scripts"),
        (["--check", "-i", "hosts.toml"], "--check needs scripts"),
        (["-i", "hosts.toml", "--check", "--", "nowhere.sh"], "nowhere.sh: No such file or directory"),
    ],
    ids=str,
)
def test_wrong_usage_is_one_sentence(
    arguments: list[str], says: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = said(capsys, *arguments)
    assert (code, out) == (2, "")
    assert says in err
    assert sorted(path.name for path in here.iterdir()) == ["hosts.toml"]


def test_offline_says_that_nobody_looked_for_the_address_of_a_named_nic(
    here: Path,  # noqa: ARG001
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, err = said(capsys, "--offline", "--", "train.py", "--", "-x")
    assert (code, err) == (0, "")
    assert "export HCCL_SOCKET_IFNAME==eth0\n" in out.replace("'", "")
    assert "HCCL_IF_IP=" not in out, "whether the address is on eth0 was not looked at"
    assert "# --offline: HCCL_IF_IP is not set, since" in out
    assert out.endswith("    train.py -- -x\n")


def test_named_nics_are_looked_at_for_their_addresses(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """HCCL_IF_IP is wanted on every host; hosts that nobody reaches are no reason to leave it out in silence."""
    (here / "facts.json").write_text(dump(healthy_facts(load(here / "hosts.toml"))))
    code, out, _ = said(capsys, "--from", "facts.json", "--", "t.py")
    assert code == 0
    assert "export HCCL_IF_IP=10.1.0.11\n" in out and "export HCCL_IF_IP=10.1.0.12\n" in out
    (here / "hosts.toml").write_text(INVENTORY.replace("10.1.0.[11-12]", "127.0.0.[11-12]") + "[hosts.ssh]\nport = 1\n")
    code, out, err = said(capsys, "--", "t.py")
    assert (code, out) == (3, "")
    assert "the host NIC is unknown" in err and "Use --offline" in err
    code, _, err = said(capsys, "--launcher", "mpirun", "--", "t.py")
    assert (code, err) == (0, ""), "no HCCL_IF_IP, nobody to be asked"


@pytest.mark.parametrize(
    ("change", "arguments", "says"),
    [
        (('"atlas-a2"\ndevices = 2', '"atlas-a1"\ndevices = 8'), ["--devices", "3,4,5"], "supports 1, 2, 4 or 8 per"),
        (('"atlas-a2"\ndevices = 2', '"atlas-a1"\ndevices = 8'), ["--devices", "3-4"], "all in 0-3 or all in 4-7"),
        (("[network]", '[probe]\npython = "~/venv/bin/python"\n[network]'), [], "~ is not expanded"),
        (
            ("10.1.0.[11-12]", "fd00::[1-2]"),
            ["--launcher", "mpirun"],
            "mpirun does not support IPv6 addresses such as fd00::1 of node01",
        ),
        (
            ("10.1.0.[11-12]", "fd00::[1-2]"),
            ["--launcher", "deepspeed"],
            "deepspeed does not support IPv6 addresses such as fd00::1",
        ),
    ],
    ids=str,
)
def test_a_job_that_would_fail_everywhere_is_refused(
    change: tuple[str, str], arguments: list[str], says: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "hosts.toml").write_text(INVENTORY.replace(*change))
    code, out, err = said(capsys, "--offline", *arguments, "--", "t.py")
    assert (code, out) == (2, "")
    assert says in err


def test_hosts_may_have_addresses_of_ipv6_alone(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "hosts.toml").write_text(THREE.replace("10.1.0.[9-11]", "fd00::[1-3]"))
    facts = dump(healthy_facts(load(here / "hosts.toml")))
    (here / "facts.json").write_text(facts)
    code, out, err = said(capsys, "--from", "facts.json", "--", "t.py")
    assert (code, err) == (0, "")
    assert "export HCCL_IF_IP=fd00::3\n" in out
    assert "--master_addr fd00::1 " in out


@pytest.mark.parametrize(
    ("ssh", "launcher", "told"),
    [
        ("", "mpirun", False),
        ("port = 2222", "mpirun", False),
        ("port = 2222", "deepspeed", False),
        ("port = 2222", "torchrun", False),
        ("port = 2222", "perseusrun", True),
        (THIRD.format("port = 2223"), "mpirun", True),
        (THIRD.format("port = 2223"), "deepspeed", True),
        (THIRD.format('user = "other"'), "mpirun", True),
    ],
)
def test_ways_of_ssh_that_a_launcher_does_not_take_are_told(
    ssh: str, launcher: str, told: bool, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = INVENTORY + f"[hosts.ssh]\n{ssh}\n"
    (here / "hosts.toml").write_text(text.replace("atlas-a2", "nvidia") if launcher == "perseusrun" else text)
    _, out, _ = said(capsys, "--offline", "--launcher", launcher, "-o", "json", "--", "t.py")
    assert any("~/.ssh/config on node01" in note for note in json.loads(out)["notes"]) is told


def command(capsys: pytest.CaptureFixture[str], launcher: str) -> list[str]:
    _, out, _ = said(capsys, "--offline", "--launcher", launcher, "-o", "json", "--", "t.py")
    argv: list[str] = json.loads(out)["start"][0]["processes"][0]["argv"]
    return argv


def test_one_port_of_all_hosts_is_told_to_the_launcher(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for port, told in (("2222", True), ("22", False)):
        (here / "hosts.toml").write_text(INVENTORY + f"[hosts.ssh]\nport = {port}\n")
        assert ("--mca plm_rsh_args -p 2222" in " ".join(command(capsys, "mpirun"))) is told
        assert ("--ssh_port 2222" in " ".join(command(capsys, "deepspeed"))) is told


def test_scripts_of_another_job_are_not_left_beside_new_ones(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write = ("--offline", "-o", "scripts", "--dir", "start", "--force")
    assert said(capsys, *write, "--", "t.py")[0] == 0
    (here / "start" / "mine.sh").write_text("#!/bin/bash\n")
    before = (here / "start" / "node01.sh").read_text()
    code, _, err = said(capsys, *write, "--limit", "node01", "--", "other.py")
    assert code == 2
    assert "start/node02.sh belongs to another job" in err
    assert (here / "start" / "node01.sh").read_text() == before
    (here / "start" / "node02.sh").unlink()
    assert said(capsys, *write, "--limit", "node01", "--", "other.py")[0] == 0


def test_scripts_are_written_whole_and_never_over_others(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write = ("--offline", "-o", "scripts", "--dir", "start", "--launcher", "shell")
    code, out, err = said(capsys, *write, "--", "train.py")
    assert (code, out) == (0, "")
    assert "wrote 2 scripts to start" in err
    assert [(path.name, path.stat().st_mode & 0o700) for path in sorted((here / "start").iterdir())] == [
        ("node01.sh", 0o700), ("node02.sh", 0o700),
    ]  # fmt: skip
    (here / "start" / "node01.sh").unlink()
    (here / "start" / "node02.sh").write_text("mine")
    code, _, err = said(capsys, *write, "--", "train.py")
    assert code == 2
    assert "node02.sh already exists" in err
    assert [path.read_text() for path in (here / "start").iterdir()] == ["mine"]
    code, _, _ = said(capsys, *write, "--force", "--", "train.py")
    assert code == 0
    assert "mine" not in (here / "start" / "node02.sh").read_text()
    code, _, err = said(capsys, "--offline", "-o", "scripts", "--dir", "hosts.toml", "--", "train.py")
    assert code in (1, 2)
    assert "hosts.toml" in err


def test_a_launcher_of_one_host_has_one_script(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, _, err = said(capsys, "-o", "scripts", "--dir", "start", "--launcher", "mpirun", "--", "train.py")
    assert "wrote 1 script to start, for the ranks of all 2 hosts" in err
    assert [path.name for path in (here / "start").iterdir()] == ["node01.sh"]


def test_a_port_that_nobody_has_reserved_is_told(here: Path, capsys: pytest.CaptureFixture[str]) -> None:  # noqa: ARG001
    _, out, _ = said(capsys, "--offline", "--master-port", "7777", "-o", "json", "--", "t.py")
    assert any("port 7777 is not in the inventory" in note for note in json.loads(out)["notes"])


def test_msrun_meets_at_a_port_of_the_inventory(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is printed is held against the same inventory, and found right."""
    write = ("--offline", "--launcher", "msrun", "-o", "scripts", "--dir", "start", "--force")
    for ports, port in (("", 29500), ("[ports]\nmindspore = 8118\n", 8118)):
        (here / "hosts.toml").write_text(INVENTORY.replace("[network]", f"{ports}[network]"))
        assert said(capsys, *write, "--", "net.py")[0] == 0
        assert f"--master_port {port} " in (here / "start" / "node02.sh").read_text()
        code, out, _ = said(capsys, "--check", "start/node01.sh", "start/node02.sh")
        assert (code, "no inventory" not in out) == (0, True), out


def test_offline_takes_the_address_that_the_network_proves(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "hosts.toml").write_text(INVENTORY.replace('"eth0"', '"10.1.0.0/24"'))
    _, out, _ = said(capsys, "--offline", "--", "t.py")
    assert "export HCCL_IF_IP=10.1.0.11\n" in out and "export HCCL_IF_IP=10.1.0.12\n" in out
    assert "IFNAME" not in out
    (here / "hosts.toml").write_text(INVENTORY.replace('"eth0"', '"10.9.0.0/24"'))
    _, out, _ = said(capsys, "--offline", "--", "t.py")
    assert "HCCL_IF_IP" not in out
    _, out, _ = said(capsys, "--offline", "--launcher", "mpirun", "--", "t.py")
    assert "--mca btl_tcp_if_include 10.9.0.0/24" in out


THREE = """
[cluster]
name = "test"
product = "atlas-a1"
[[hosts]]
name = "node[01-03]"
address = "10.1.0.[9-11]"
"""
TABLE = ("--rank-table", "/data/hccl.json")
COPY = (*TABLE, "--rank-table-copy", "table.json")


@pytest.fixture
def three(here: Path) -> Path:
    """Three hosts of which the first is the last in the lexical order of addresses, and their facts."""
    (here / "hosts.toml").write_text(THREE)
    (here / "facts.json").write_text(dump(healthy_facts(load(here / "hosts.toml"))))
    return here


def ranks_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, list[int]]:
    """Address of a host → its ranks. The order of the hosts and the master have to agree with them."""
    code, out, err = said(capsys, "--launcher", "shell", "-o", "json", "--from", "facts.json", *arguments, "--", "t.py")
    assert (code, err) == (0, "")
    made = json.loads(out)
    assert "host NICs: facts are from facts.json. No host was contacted." in made["notes"]
    assert made["hosts"] == [it["host"] for it in made["start"]]
    assert made["start"][0]["processes"][0]["environment"]["RANK_ID"] == "0"
    assert made["start"][0]["environment"]["HCCL_IF_IP"] == made["master"]["address"]
    assert len({it["environment"]["RANK_TABLE_FILE"] for it in made["start"]}) == 1
    return {
        it["environment"]["HCCL_IF_IP"]: [int(process["environment"]["RANK_ID"]) for process in it["processes"]]
        for it in made["start"]
    }


@pytest.mark.parametrize(
    ("order", "arguments"),
    [([], TABLE), ([], COPY), (["--order", "inventory"], COPY)],
    ids=["as preflight writes it", "read", "read, in another order"],
)
@pytest.mark.parametrize("part", [[], ["--devices", "0-3"], ["--limit", "node[01-02]"]], ids=str)
def test_ranks_are_those_of_the_rank_table(
    order: list[str], arguments: tuple[str, ...], part: list[str], three: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ranktable", "--from", "facts.json", "-o", "table.json", *order, *part]) == 0
    capsys.readouterr()
    table = read((three / "table.json").read_text()).table
    assert table is not None
    wanted = {server.id: [device.rank for device in server.devices] for server in table.servers}
    assert ranks_of(capsys, *arguments, *part) == wanted
    assert next(iter(wanted)) == ("10.1.0.9" if order else "10.1.0.10")


@pytest.mark.parametrize(
    ("made", "asked", "says"),
    [
        (["--limit", "node01"], [], "node02 (10.1.0.10) is not in the rank table"),
        ([], ["--limit", "node01"], "server 10.1.0.10 of the rank table is not a host of the job"),
        (
            ["--devices", "4-7"],
            ["--devices", "0-3"],
            "the rank table assigns ranks to devices 4, 5, 6, 7, but the job uses devices 0, 1",
        ),
    ],
    ids=str,
)
def test_a_rank_table_of_another_job_is_refused(
    made: list[str], asked: list[str], says: str, three: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ranktable", "--from", "facts.json", "-o", "table.json", *made]) == 0
    capsys.readouterr()
    code, out, err = said(capsys, *COPY, "--from", "facts.json", *asked, "--", "t.py")
    assert (code, out) == (2, "")
    assert says in err
    (three / "table.json").write_text((three / "table.json").read_text().replace('"rank_id": "0"', '"rank_id": "1"'))
    code, out, err = said(capsys, *COPY, "--from", "facts.json", *asked, "--", "t.py")
    assert (code, out) == (2, "")
    assert "rank_id 1 is also used by rank 1" in err


def test_of_super_pods_the_table_itself_is_wanted(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "hosts.toml").write_text(INVENTORY.replace("atlas-a2", 'atlas-a3"\nsuperpod = true\n#'))
    code, _, err = said(capsys, *TABLE, "--", "t.py")
    assert code == 2
    assert "--rank-table needs --rank-table-copy FILE on super-pods" in err
    assert said(capsys, "--offline", *TABLE, "--limit", "node01", "--", "t.py")[0] == 0


def test_check_tells_by_its_exit_code(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "good.sh").write_text("torchrun --nproc_per_node 2 train.py\n")
    (here / "bad.sh").write_text("torchrun –nproc_per_node \x1b[31m train.py\n")
    code, out, _ = said(capsys, "--check", "good.sh")
    assert (code, out) == (0, "1 script: no errors\n")
    code, out, _ = said(capsys, "--check", "bad.sh")
    assert code == 1
    assert out.startswith("bad.sh:1:10: –nproc_per_node begins with a typographic dash")
    code, out, _ = said(capsys, "--check", "bad.sh", "-o", "json")
    assert code == 1
    assert json.loads(out)["faults"][0] == {
        "file": "bad.sh", "line": 1, "column": 10,
        "what": "–nproc_per_node begins with a typographic dash instead of -",
        "found": "–nproc_per_node", "expected": "--nproc_per_node",
        "do": "retype the dash. Editors and web pages turn -- into one long dash",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"a" * (65 << 10), "larger than 64 KiB"),
        (b"echo\0", "a.sh:1:5: the start script is not UTF-8 text"),
        (b"echo 1\n\xc8\xf1", "a.sh:2:1: the start script is not UTF-8 text. To convert it from GB18030: iconv"),
    ],
)
def test_what_is_no_script_is_not_read(
    content: bytes, says: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "a.sh").write_bytes(content)
    code, out, err = said(capsys, "--check", "a.sh")
    assert (code, out) == (2, "")
    assert says in err


def test_nothing_of_a_script_reaches_the_terminal_raw(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "a.sh").write_text("torchrun –\x1b]0;x\x07 –a\x1b[2J t.py\nmpirun -np 4 -H a\x1b[1m,b ./x\n")
    _, out, _ = said(capsys, "--check", "a.sh")
    assert "\x1b" not in out and "\x07" not in out


def wide(text: str) -> list[str]:
    return [line for line in text.splitlines() if len(line) > 80]


@pytest.mark.parametrize(
    "arguments", [("--check", "-i", "hosts.toml", "a.sh"), ("-i", "hosts.toml", "--check", "a.sh"), ("a.sh", "--check"),
                  ("--check", "a.sh", "-i", "hosts.toml"), ("--check", "a.sh", "-i", "hosts.toml", "a.sh")],
    ids=" ".join,
)  # fmt: skip
def test_scripts_may_stand_before_and_behind_the_options(
    arguments: tuple[str, ...], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "a.sh").write_text("torchrun --nnodes 2 --node_rank 5 --master_addr 10.1.0.11 --master_port 29500 t.py\n")
    code, out, _ = said(capsys, *arguments)
    assert (code, out.splitlines()[-1]) == (1, "1 script: 1 error")
    assert "no inventory" not in out


def test_what_is_said_of_a_script_fits_on_a_terminal(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "a.sh").write_text(
        "torchrun --nnodes 2 --node_rank 5 --master_addr 10.1.0.11--master_port 29500 t.py\n"
        f"mpirun -np 16 -H {','.join(f'a{number}' for number in range(16))} -x LD_LIBRARY ./t\n"
    )
    _, out, _ = said(capsys, "--check", "a.sh")
    assert [line for line in wide(out) if "a1,a2" not in line] == []


@pytest.mark.parametrize("launcher", ["mpirun", "deepspeed", "shell", "torchrun", "srun", "msrun"])
def test_what_is_printed_fits_on_a_terminal(launcher: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "hosts.toml").write_text(INVENTORY + "[hosts.ssh]\nport = 2222\n")
    job = ("--offline", "--launcher", launcher, *TABLE, "--", "t.py", "--learning-rate", "0.1", "--epochs", "10")
    _, out, _ = said(capsys, *job)
    assert wide(out) == []
    _, _, err = said(capsys, "-o", "scripts", "--dir", "start", *job)
    assert wide(err) == []
    assert "--rank-table-copy FILE" in " ".join(err.split())


@pytest.mark.parametrize(("product", "version"), [("atlas-a1", "1.0"), ('atlas-a3"\nsuperpod = true\n#', "1.2")])
def test_devices_are_those_of_the_rank_table_by_their_number_among_the_visible(
    product: str, version: str, three: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """DEVICE_ID counts what a process sees, the table's device_id is the physical one: both lead to one device."""
    (three / "hosts.toml").write_text(THREE.replace("atlas-a1", product))
    (three / "facts.json").write_text(dump(healthy_facts(load(three / "hosts.toml"))))
    part = ("--devices", "2,3")
    assert main(["ranktable", "--from", "facts.json", "-o", "table.json", *part]) == 0
    capsys.readouterr()
    table = read((three / "table.json").read_text()).table
    assert table is not None
    assert table.version == version
    physical = {device.rank: device.device_id for _, device in table.ranked_devices}
    _, out, _ = said(capsys, "--launcher", "shell", "-o", "json", "--from", "facts.json", *part, *COPY, "--", "t.py")
    found = {}
    for start in json.loads(out)["start"]:
        visible = start["environment"]["ASCEND_RT_VISIBLE_DEVICES"].split(",")
        for own in (process["environment"] for process in start["processes"]):
            found[int(own["RANK_ID"])] = int(visible[int(own["DEVICE_ID"])])
    assert found == physical
    assert set(physical.values()) == {2, 3}


ALONE = """
[cluster]
name = "one"
product = "{}"
devices = 4
[ssh]
transport = "local"
[[hosts]]
name = "{}"
"""


@pytest.mark.parametrize("product", ["atlas-a1", "atlas-a3", "nvidia"])
@pytest.mark.parametrize("launcher", ["torchrun", "spawn", "shell", "mpirun", "srun", "deepspeed"])
@pytest.mark.parametrize("name", ["localhost", "127.0.0.1"])
def test_one_host_that_is_known_by_its_loopback_needs_no_nic(
    product: str, launcher: str, name: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "hosts.toml").write_text(ALONE.format(product, name))
    code, out, err = said(capsys, "--launcher", launcher, "-o", "json", "--devices", "0-1", "--", "t.py")
    assert (code, err) == (0, "")
    made = json.loads(out)
    assert made["master"]["address"] == "127.0.0.1"
    assert "one host: its ranks use 127.0.0.1 and no host NIC" in made["notes"]
    environment = made["start"][0]["environment"]
    assert environment["GLOO_SOCKET_IFNAME"] == "lo"
    assert not {"HCCL_IF_IP", "HCCL_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"} & set(environment)


def test_a_nic_that_the_inventory_names_is_taken_and_several_hosts_do_not_meet_on_a_loopback(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for more in ('[network]\nnic = "eth7"\n', '[[hosts]]\nname = "node02"\n'):
        text = ALONE.format("atlas-a2", "localhost").replace('transport = "local"', "")
        (here / "hosts.toml").write_text(text + more)
        _, out, _ = said(capsys, "--offline", "-o", "json", "--", "t.py")
        assert json.loads(out)["master"]["address"] == "localhost"
        assert not any("one host" in note for note in json.loads(out)["notes"])


def test_the_example_of_one_server_starts_a_job(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "hosts.toml").write_text((Path(__file__).parents[3] / "examples" / "single-server.toml").read_text())
    write = ("-o", "scripts", "--dir", "start")
    assert said(capsys, *write, "--", "t.py")[0] == 0
    assert said(capsys, "--check", "start/localhost.sh")[0] == 0
