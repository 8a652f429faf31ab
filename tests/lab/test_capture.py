"""`preflight capture` of lab hosts: what is read from it again is what a look shows, also under pseudonyms."""

import json
import re
import stat
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.lab.conftest import LabHandle, MakeLab, preflight
from tests.lab.tools import replaced

pytestmark = pytest.mark.lab

HCCN_TOOL = "/usr/local/Ascend/driver/tools/hccn_tool"


@pytest.fixture(scope="module")
def lab(make_lab: MakeLab) -> LabHandle:
    lab = make_lab(hosts=2, devices=2, product="atlas-a2")
    lab.lab("break", "optics-weak", "--host", "node02", "--device", "1")
    return lab


def findings(*arguments: str | Path) -> list[tuple[Any, ...]]:
    """Who is told what; without the words, which name hosts and addresses."""
    done = preflight("check", "-o", "json", "--all", *arguments, check=False)
    assert done.returncode in (0, 1, 3), done.stderr
    told = json.loads(done.stdout)["findings"]
    return sorted((it["check"], it["outcome"], re.sub("[^12]", "", it["host"] or ""), it["device"] or 0) for it in told)


def captured(lab: LabHandle, place: Path, *arguments: str, exit_code: int = 0) -> tuple[Any, str]:
    done = preflight("capture", "-i", lab.inventory, "--out", place, *arguments, check=False)
    assert done.returncode == exit_code, done.stdout + done.stderr
    return json.loads(place.read_text(encoding="utf-8")), done.stdout


def test_findings_of_a_capture_are_those_of_a_look(lab: LabHandle, tmp_path: Path) -> None:
    file = tmp_path / "capture.json"
    document, said = captured(lab, file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "all output was parsed" in said
    assert document["not_understood"] == []
    extras = document["hosts"]["node01"]["sections"]["extras"]["value"]
    assert "hccn_tool -i devid -ip" in extras["hccn_tool -h"]["out"]
    live = findings("-i", lab.inventory, "--no-ping", "--no-probe")
    assert [it for it in live if it[1] == "fail"]
    assert findings("--from", file) == live
    facts = json.loads(preflight("facts", "--from", file, "-o", "json").stdout)["hosts"]
    assert facts["node02"]["nic"]["value"]["devices"][1]["optics"]["value"]["serial"] == "[redacted]"


def test_pseudonyms_hide_names_and_addresses_and_change_no_finding(lab: LabHandle, tmp_path: Path) -> None:
    plain, hidden = tmp_path / "plain.json", tmp_path / "hidden.json"
    captured(lab, plain)
    captured(lab, hidden, "--anonymous")
    text = hidden.read_text(encoding="utf-8")
    assert not re.search(r"node0[12]", text)
    for address in lab.addresses.values():
        assert address not in text
    assert findings("--from", hidden) == findings("--from", plain)


def called(lab: LabHandle, folder: Path, *names: str) -> Path:
    """An inventory of the lab in which its hosts have these names."""
    head = lab.inventory.read_text(encoding="utf-8").partition("[[hosts]]")[0]
    for file in ("id_ed25519", "known_hosts"):
        head = head.replace(f'"{file}"', f'"{lab.inventory.parent / file}"')
    hosts = zip(names, lab.addresses.values(), strict=True)
    tables = [f'[[hosts]]\nname = "{name}"\naddress = "{address}"\n' for name, address in hosts]
    inventory = folder / "hosts.toml"
    inventory.write_text(head + "".join(tables), encoding="utf-8")
    return inventory


def test_hosts_that_are_called_like_a_key_of_the_document_or_of_the_tools_have_pseudonyms(
    lab: LabHandle, tmp_path: Path
) -> None:
    inventory = called(lab, tmp_path, "hosts", "worker")
    preflight("capture", "-i", inventory, "--out", tmp_path / "plain.json")
    preflight("capture", "-i", inventory, "--out", tmp_path / "hidden.json", "--anonymous")
    document = json.loads((tmp_path / "hidden.json").read_text(encoding="utf-8"))
    assert list(document["hosts"]) == ["host1", "host2"]
    assert set(document["hosts"]["host1"]["sections"]["names"]["value"]["cluster"]) == {"host1", "host2"}
    counts = [Counter(it[:2] for it in findings("--from", tmp_path / name)) for name in ("plain.json", "hidden.json")]
    assert counts[0] == counts[1]


def test_a_name_without_which_the_tools_would_not_be_understood_is_refused(lab: LabHandle, tmp_path: Path) -> None:
    file = tmp_path / "hidden.json"
    inventory = called(lab, tmp_path, "rs", "worker")  # "fec mode: rs FEC mode"
    done = preflight("capture", "-i", inventory, "--out", file, "--anonymous", check=False)
    assert done.returncode == 1
    assert "since a host name is also a word in the tools' output" in done.stderr
    assert "preflight could not parse hccn_tool -fec" in done.stderr
    assert not file.exists()


def test_facts_of_a_capture_are_judged_by_another_inventory_if_one_is_named(lab: LabHandle, tmp_path: Path) -> None:
    file = tmp_path / "capture.json"
    captured(lab, file, "--limit", "node01")
    done = preflight("check", "--from", file, "-i", lab.inventory, "-o", "json", check=False)
    document = json.loads(done.stdout)
    assert [it["host"] for it in document["left_out"]] == ["node02"]
    assert any(f"judged by {lab.inventory}" in note for note in document["notes"])


def test_a_format_that_nobody_knows_is_named_with_its_command_and_quoted(lab: LabHandle, tmp_path: Path) -> None:
    new = f'case $3 in -fec) echo "fec mode: quantum"; exit;; esac; exec {HCCN_TOOL}.real "$@"'
    with replaced(lab, "node02", HCCN_TOOL, new):
        document, said = captured(lab, tmp_path / "capture.json", exit_code=3)
    assert "1 unknown format:" in said
    assert "hccn_tool -fec: 2 outputs on node02: hccn_tool printed 'fec mode: quantum', which is not recognized" in said
    (strange,) = document["not_understood"]
    assert (strange["command"], strange["hosts"], strange["answers"]) == ("hccn_tool -fec", ["node02"], 2)


def test_a_folder_gets_a_file_named_by_the_day_and_a_place_that_is_none_is_a_sentence(
    lab: LabHandle, tmp_path: Path
) -> None:
    preflight("capture", "-i", lab.inventory, "--out", tmp_path, "--limit", "node01")
    (file,) = tmp_path.iterdir()
    assert re.fullmatch(r"preflight-capture-\d{8}-\d{6}\.json", file.name)
    done = preflight("capture", "-i", lab.inventory, "--out", "/no/such/place", "--limit", "node01", check=False)
    assert done.returncode == 2
    assert "/no/such/place: cannot write in /no/such: No such file or directory" in done.stderr
