"""`preflight inventory import` and `export`, as users call them. Cases: tests/cases/lists/*.toml."""

import io
import json
import os
import shlex
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from preflight.cli.main import main
from preflight.hostlists.formats import FORMATS
from preflight.inventory import load

ROOT = Path(__file__).parents[3]
CASES = ROOT / "tests/cases/lists"


def cases(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = tomllib.loads((CASES / f"{name}.toml").read_text(encoding="utf-8"))["case"]
    return found


def bytes_of(case: dict[str, Any]) -> bytes:
    if "bytes" in case:
        return str(case["bytes"]).encode("ascii").decode("unicode_escape").encode("latin-1")
    return str(case["text"]).encode()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("SLURM_")]:
        monkeypatch.delenv(name)
    return tmp_path


@pytest.mark.parametrize("case", cases("refused"), ids=lambda case: case["says"][:60])
def test_mistakes_have_a_place(case: dict[str, Any], place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "FILE").write_bytes(bytes_of(case))
    assert main(["inventory", "import", "FILE", *case.get("options", [])]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert case["says"] in err
    assert not case["says"].startswith(":") or err.startswith(f"preflight: FILE{case['says']}")
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("case", cases("import"), ids=lambda case: case["name"])
def test_lists_of_the_cases_become_inventories(
    case: dict[str, Any], place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in case.get("environment", {}).items():
        monkeypatch.setenv(name, value)
    if "base" in case:
        (place / "base.toml").write_text(case["base"])
    file = []
    if "text" in case or "bytes" in case:
        (place / "FILE").write_bytes(bytes_of(case))
        file = ["FILE"]
    assert main(["inventory", "import", *file, *case.get("options", [])]) == 0
    out, err = capsys.readouterr()
    head, _, tables = out.partition("\n\n")
    assert tables == case["inventory"]
    told = [line.removeprefix("# ") for line in head.splitlines()[1:]]
    assert told == case.get("says", [])
    assert [line.removeprefix("! ") for line in err.splitlines() if line.startswith("! ")] == told
    assert err.splitlines()[-1] == "next: save this as hosts.toml, then: preflight check --inventory hosts.toml"


def test_an_unknown_product_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["inventory", "import", "list", "--product", "tpu"])
    assert 'unknown product "tpu". The products are atlas-a1, atlas-a2, atlas-a3, nvidia, cpu' in (
        capsys.readouterr().err
    )


def test_the_same_address_behind_another_gateway_is_no_second_name(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    block = "Host {name}\n HostName 10.0.0.1\n ProxyCommand ssh {name}.gate nc %h %p\n"
    (place / "config").write_text(block.format(name="east") + block.format(name="west"))
    assert main(["inventory", "import", "config"]) == 2
    assert "address 10.0.0.1 is used twice" in capsys.readouterr().err


def test_stdin_is_read(place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"node01\n")))
    assert main(["inventory", "import", "-", "-o", "h.toml"]) == 0
    assert capsys.readouterr().err.splitlines()[-1] == "next: preflight check --inventory h.toml"
    assert [host.name for host in load(place / "h.toml").hosts] == ["node01"]


def test_a_file_is_not_overwritten(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "list").write_text("node01\n")
    (place / "h.toml").write_text("mine")
    assert main(["inventory", "import", "list", "-o", "h.toml"]) == 2
    assert "h.toml already exists" in capsys.readouterr().err
    assert (place / "h.toml").read_text() == "mine"
    assert main(["inventory", "import", "list", "-o", "h.toml", "--force"]) == 0
    assert load(place / "h.toml").hosts[0].name == "node01"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["import"], "inventory import needs a FILE with the host list, - for stdin"),
        (["import", "nowhere"], "nowhere: No such file or directory"),
        (["import", "."], ".: Is a directory"),
        (
            ["import", "--from", "slurm"],
            "SLURM_JOB_NODELIST is not set, so this is not a Slurm job. Run the command in a job",
        ),
        (["import", "huge"], "huge: larger than 64 MiB"),
        (["export", "--to", "names"], "hosts.toml: no such file"),
        (["export", "--to", "names", "-i", "one.toml", "--limit", ""], "--limit '' contains no host"),
    ],
)
def test_wrong_usage_is_one_sentence(
    arguments: list[str], says: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "one.toml").write_text('[cluster]\nname = "c"\nproduct = "cpu"\n[[hosts]]\nname = "a"\n')
    with (place / "huge").open("wb") as file:
        file.truncate(1 << 30)
    assert main(["inventory", *arguments]) == 2
    assert says in capsys.readouterr().err


INVENTORY = """\
[cluster]
name = "c"
product = "atlas-a2"
devices = 2

[ssh]
user = "ops"

[device_addresses]
plan = "one-subnet"
subnet = "11.8.0.0/24"

[[hosts]]
name = "node[01-02]"
address = "10.1.0.[1-2]"

[[hosts]]
name = "node04"
address = "10.1.0.4"
ssh = { port = 2222 }
"""
EXPORTED = {
    "openmpi": "ops@node01 slots=2\nops@node02 slots=2\nops@node04 slots=2\n",
    "deepspeed": "node01 slots=2\nnode02 slots=2\nnode04 slots=2\n",
    "hydra": "node01:2 user=ops\nnode02:2 user=ops\nnode04:2 user=ops\n",
    "horovod": "node01:2,node02:2,node04:2\n",
    "names": "node01\nnode02\nnode04\n",
    "slurm": "node[01-02,04]\n",
    "slurm-env": "export SLURM_JOB_NODELIST='node[01-02,04]'\nexport SLURM_JOB_NUM_NODES='3'\n"
    "export SLURM_TASKS_PER_NODE='2(x3)'\n",
    "clustershell": "all: node[01-02],node04\n",
    "clustershell-yaml": "cluster:\n    all: 'node[01-02],node04'\n",
}


@pytest.mark.parametrize(("name", "text"), EXPORTED.items())
def test_an_inventory_is_written_as_other_tools_have_it(
    name: str, text: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "hosts.toml").write_text(INVENTORY)
    assert main(["inventory", "export", "--to", name]) == 0
    out, err = capsys.readouterr()
    assert out == text
    assert err.splitlines()[0].startswith(f"! left out, because {name} cannot store it: the hosts' addresses, ")
    assert err.splitlines()[-1].startswith("next: ")


@pytest.mark.parametrize("name", FORMATS)
def test_an_exported_list_is_imported_onto_its_inventory(name: str, place: Path) -> None:
    (place / "hosts.toml").write_text(INVENTORY)
    assert main(["inventory", "export", "--to", name, "--limit", "node[01,04]", "-o", "list"]) == 0
    options = ["--base", "hosts.toml", "-o", "again.toml", "--device-prefix", "24"]
    assert main(["inventory", "import", "list", *options]) == 0
    old, new = load(place / "hosts.toml"), load(place / "again.toml")
    assert [host.name for host in new.hosts] == ["node01", "node04"]
    assert (new.name, new.product, new.hosts[0].ssh.user) == (old.name, old.product, "ops")
    assert {len(host.devices) for host in new.hosts} == {2}
    if "address" in FORMATS[name].holds:
        assert [host.address for host in new.hosts] == ["10.1.0.1", "10.1.0.4"]
    if "port" in FORMATS[name].holds:
        assert new.hosts[1].ssh.port == 2222
    if "device_ips" in FORMATS[name].holds:
        assert new.hosts[1].devices == old.hosts[2].devices


def test_addresses_replace_names_on_request(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "hosts.toml").write_text(INVENTORY)
    assert main(["inventory", "export", "--to", "horovod", "--addresses"]) == 0
    assert capsys.readouterr().out == "10.1.0.1:2,10.1.0.2:2,10.1.0.4:2\n"


@pytest.mark.parametrize("name", FORMATS)
def test_hosts_that_a_list_calls_by_address_keep_the_names_of_the_inventory(name: str, place: Path) -> None:
    (place / "hosts.toml").write_text(INVENTORY)
    assert main(["inventory", "export", "--to", name, "--addresses", "-o", "list"]) == 0
    options = ["--base", "hosts.toml", "-o", "again.toml", "--device-prefix", "24", "--from", name]
    assert main(["inventory", "import", "list", *options]) == 0
    assert load(place / "again.toml").hosts == load(place / "hosts.toml").hosts


def test_devices_with_other_planned_addresses_are_reported(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "hosts.toml").write_text(INVENTORY)
    for hosts, told in (
        ("node01\nnode02\n", ""),
        ("node01\nnode04\n", "node04 had 11.8.0.15 in --base, and now gets 11.8.0.13"),
    ):
        (place / "list").write_text(hosts)
        assert main(["inventory", "import", "list", "--base", "hosts.toml"]) == 0
        moved = [line for line in capsys.readouterr().err.splitlines() if "in --base, and now gets" in line]
        assert len(moved) == bool(told)
        assert all(told in line for line in moved)


def test_keys_of_hosts_are_found_from_another_folder(place: Path) -> None:
    (place / "hosts.toml").write_text(INVENTORY.replace("{ port = 2222 }", '{ key = "id" }'))
    (place / "list").write_text("node04\n")
    (place / "there").mkdir()
    assert main(["inventory", "import", "list", "--base", "hosts.toml", "-o", "there/hosts.toml"]) == 0
    assert load(place / "there/hosts.toml").hosts[0].ssh.key == str(place / "id")


def test_a_rank_table_calls_hosts_as_preflight_ranktable_does(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "hosts.toml").write_text(INVENTORY.replace('"10.1.0.4"', '"node04.example"'))
    assert main(["inventory", "export", "--to", "rank-table"]) == 0
    out, err = capsys.readouterr()
    assert [set(server) for server in json.loads(out)["server_list"]] == [{"server_id", "device", "host_nic_ip"}] * 3
    assert [server["server_id"] for server in json.loads(out)["server_list"]] == [
        "10.1.0.1", "10.1.0.2", "node04.example",
    ]  # fmt: skip
    assert "! left out: the host names. rank-table uses addresses instead.\n" in err


def test_a_rank_table_of_super_pods_is_not_exported(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    super_pods = INVENTORY.replace('"atlas-a2"', '"atlas-a3"\nsuperpod = true')
    (place / "hosts.toml").write_text(super_pods)
    assert main(["inventory", "export", "--to", "rank-table", "-o", "hccl.json"]) == 2
    err = capsys.readouterr().err
    assert "a rank table of super-pods needs super device ids, which only the devices know" in err
    assert "To collect them from the hosts: " in err
    assert "preflight ranktable --inventory hosts.toml -o FILE" in err
    assert not (place / "hccl.json").exists()
    assert main(["inventory", "export", "--to", "openmpi"]) == 0
    (place / "hosts.toml").write_text(super_pods.replace("superpod = true", ""))
    assert main(["inventory", "export", "--to", "rank-table"]) == 0


def test_ranks_out_of_lexical_order_are_reported(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "hosts.toml").write_text(INVENTORY.replace('"10.1.0.4"', '"10.1.0.10"'))
    assert main(["inventory", "export", "--to", "rank-table"]) == 0
    assert "! ranks are in the order of the inventory. For MindSpore, order them" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "words"), [("rank-table", "export RANK_TABLE_FILE="), ("slurm-env", ". ")])
def test_the_next_command_has_an_absolute_path_if_needed(
    name: str, words: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """HCCL wants one in RANK_TABLE_FILE; dash looks for a name without a slash on the PATH."""
    (place / "hosts.toml").write_text(INVENTORY)
    assert main(["inventory", "export", "--to", name, "-o", "a list"]) == 0
    assert capsys.readouterr().err.splitlines()[-1] == f"next: {words}{shlex.quote(str(place / 'a list'))}"


def test_a_format_without_its_required_values_is_refused(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "hosts.toml").write_text('[cluster]\nname = "c"\nproduct = "cpu"\n[[hosts]]\nname = "a"\n')
    assert main(["inventory", "export", "--to", "rank-table"]) == 2
    assert "a rank table needs the address of every device, but the inventory has none for a" in capsys.readouterr().err
    assert main(["inventory", "export", "--to", "deepspeed"]) == 2
    assert "DeepSpeed needs slots for every host, but a has none" in capsys.readouterr().err


def test_every_format_is_documented() -> None:
    page = (ROOT / "docs/import-export.md").read_text(encoding="utf-8")
    assert [name for name in FORMATS if f"| `{name}` |" not in page] == []
