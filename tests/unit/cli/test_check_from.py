"""`preflight check --from`: saved facts judged as they are typed, also broken, foreign and hostile ones."""

import json
import resource
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from preflight.cli.main import main
from preflight.facts.documents.facts_document import dump
from tests.unit.healthy import scene

INVENTORY = """
[cluster]
name = "case"
product = "atlas-a1"
cidrs = ["10.1.0.0/24"]
[network]
nic = "eth0"
[host_setup]
hosts_file = true
limits = true
profile = true
[[hosts]]
name = "node[01-02]"
address = "10.1.0.[1-2]"
"""

Check = Callable[..., tuple[int, str, str]]


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Check:
    """Run `check --from` with a document (a healthy cluster's, unless given) in a directory with hosts.toml."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hosts.toml").write_text(INVENTORY, encoding="utf-8")

    def run(*arguments: str, facts: Any = None) -> tuple[int, str, str]:
        Path("facts.json").write_text(json.dumps(healthy() if facts is None else facts), encoding="utf-8")
        code = main(["check", "--from", "facts.json", *arguments])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return run


def healthy() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(dump(scene({}).facts))
    return document


def test_healthy_facts_pass_and_a_live_check_is_next(check: Check) -> None:
    code, out, err = check()
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == "next: preflight check --inventory hosts.toml --idle"


def test_a_host_that_the_file_lacks_is_left_out_and_the_run_is_no_pass(check: Check) -> None:
    facts = healthy()
    del facts["hosts"]["node02"]
    code, out, _ = check("--skip", "HST105", facts=facts)
    assert code == 3
    assert "left out: node02: not in facts.json" in out
    assert out.splitlines()[-1] == "next: see why node02 was left out, then run: preflight check --inventory hosts.toml"


def test_no_note_repeats_an_option(check: Check) -> None:
    code, out, _ = check("--only", "ports,PNG101", "--ignore", "PRT103", "--limit", "node01", "-o", "json")
    assert code == 0
    notes = json.loads(out)["notes"]
    assert not [note for note in notes if "ports,PNG101" in note or "PRT103" in note or "node01" in note]


def test_a_check_that_needs_another_round_is_no_pass_by_itself(check: Check) -> None:
    code, out, _ = check("--only", "PNG101", "-o", "json")
    assert code == 3
    assert json.loads(out)["verdict"] == "unknown"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--only", "PRT999"], "there is no check 'PRT999'"),
        (["--only", ""], "there is no check ''"),
        (["--skip", "PRT101,,"], "there is no check ''"),
        (["--ignore", "all"], "there is no check 'all'"),
        (["--only", "NPU", "--skip", "NPU"], "no check is left"),
        (["--limit", "node09"], "node09"),
        (["--limit", "node01", "--buddies", "auto"], "because --from contacts no host"),
    ],
)
def test_nonsense_is_refused_before_anything_is_judged(check: Check, arguments: list[str], says: str) -> None:
    code, out, err = check(*arguments)
    assert (code, out) == (2, "")
    assert says in err


HOSTILE = "node01\x1b[2J"


@pytest.mark.parametrize(
    "facts",
    [
        {"schema": "preflight.facts/1", "hosts": {HOSTILE: {"os": 5}}},
        {"schema": HOSTILE, "hosts": {}},
        {"schema": "preflight.report/1", "hosts": []},
        {"schema": "preflight.facts/1", "hosts": {"node01": {"hccn": {"value": {"devices": [{"index": "x"}]}}}}},
        {"schema": "preflight.facts/1", "hosts": {"node01": {"hccn": {}}}},
        [],
        {},
    ],
)
def test_a_document_that_is_none_ends_in_a_sentence_that_harms_no_screen(check: Check, facts: Any) -> None:
    code, out, err = check(facts=facts)
    assert (code, out) == (2, "")
    assert err.startswith("preflight: facts.json")
    assert err.replace("\n", "").isprintable()


def test_what_hosts_call_themselves_reaches_no_screen_unescaped(check: Check) -> None:
    facts = healthy()
    gone = {"trouble": "timeout", "summary": "node01: \x1b[2J", "remedy": "\x9b31m \u202e"}
    facts["hosts"]["node01"] = {"unreachable": gone}
    node02 = facts["hosts"]["node02"]
    node02["npu_smi"]["value"]["processes"] = [{"device": 10**18, "pid": 1, "name": "\x1b]0;x\x07"}]
    node02["hccn"]["value"]["devices"][0]["index"] = 10**18
    node02["firewall"] = {"error": "\x1b[2J"}
    code, out, err = check("--all", facts=facts)
    assert code == 1
    assert (out + err).replace("\n", "").isprintable()
    assert "device 1000000000000000000: is used by \\x1b]0;x\\x07" in out


def test_a_report_that_cannot_be_saved_is_told_before_anything_is_done(check: Check) -> None:
    code, out, err = check("--save", "no/such/report.json")
    assert code == 2
    assert "PASS" not in out
    assert "no/such" in err


def test_a_check_of_what_was_left_out_with_basic_is_skipped_and_one_of_what_an_old_file_lacks_is_unknown(
    check: Check,
) -> None:
    facts = healthy()
    deep = ("nic", "chips", "device_nodes", "job", "load")
    for host in facts["hosts"].values():
        host.update({name: {"skipped": "--basic"} for name in deep})
    _, out, _ = check("--all", "-o", "json", facts=facts)
    left_out = [it for it in json.loads(out)["findings"] if it["summary"] == "not checked: --basic"]
    assert left_out
    assert {it["outcome"] for it in left_out} == {"skip"}
    for host in facts["hosts"].values():
        for name in deep:
            del host[name]
    _, out, _ = check("--all", "-o", "json", facts=facts)
    lacking = {it["check"]: it for it in json.loads(out)["findings"] if "not in facts.json" in it["summary"]}
    assert {it["outcome"] for it in lacking.values()} == {"unknown"}
    assert set(lacking) == {it["check"] for it in left_out}


def test_what_hosts_are_asked_and_a_file_do_not_go_together(check: Check) -> None:
    code, out, err = check("--basic")
    assert (code, out) == (2, "")
    assert "because --from contacts no host" in err


def packed(name: str, size: int, *, claims: int | None = None) -> Path:
    """A support bundle with facts of so many blanks; `claims`: how large its list of members says that it is."""
    path = Path(name)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bundle.json", '{"schema": "preflight.bundle/1"}')
        with archive.open("facts.json", "w") as member:
            for _ in range(size >> 20):
                member.write(b" " * (1 << 20))
    if claims is not None:
        content = bytearray(path.read_bytes())
        at = content.rfind(b"PK\x05\x06") + 12
        content[at : at + 4] = claims.to_bytes(4, "little")
        path.write_bytes(content)
    return path


def test_a_bundle_that_unpacks_to_far_more_than_it_has_is_refused(
    check: Check, capsys: pytest.CaptureFixture[str]
) -> None:
    check()
    path = packed("bomb.zip", 300 << 20)
    assert path.stat().st_size < 1 << 20
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert main(["check", "--from", str(path)]) == 2
    assert "facts.json is larger than 64 MiB" in capsys.readouterr().err
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - used < 200 << 10  # KiB


def test_a_bundle_with_a_huge_list_of_members_is_refused(check: Check, capsys: pytest.CaptureFixture[str]) -> None:
    check()
    assert main(["check", "--from", str(packed("list.zip", 0, claims=1 << 30))]) == 2
    assert "it lists too many files" in capsys.readouterr().err


COMMANDS = (["check", "--from"], ["plan", "--from"], ["apply"], ["check", "--inventory"], ["launch", "--check"],
            ["ranktable", "--check"], ["inventory", "import"])  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_what_is_no_ordinary_file_is_refused(
    command: list[str], check: Check, capsys: pytest.CaptureFixture[str]
) -> None:
    check()
    for path, words in (("/dev/zero", "this is not a regular file"), (".", "Is a directory")):
        assert main([*command, path]) == 2
        assert f"{path}: {words}" in capsys.readouterr().err


def test_a_capture_of_a_host_without_anything_is_judged_as_unknown(
    check: Check, capsys: pytest.CaptureFixture[str]
) -> None:
    check()
    empty = {"schema": "preflight.capture/1", "preflight": "1", "taken": "now", "anonymous": False,
             "inventory": INVENTORY, "hosts": {"node01": {}}}  # fmt: skip
    Path("capture.json").write_text(json.dumps(empty))
    assert main(["check", "--from", "capture.json"]) == 3
    assert "Traceback" not in capsys.readouterr().err


def test_a_name_that_is_too_long_for_a_file_is_told_in_one_sentence(
    check: Check, capsys: pytest.CaptureFixture[str]
) -> None:
    check()
    assert main(["check", "--from", "a" * 5000]) == 2
    error = capsys.readouterr().err
    assert "File name too long" in error
    assert len(error.splitlines()) == 2  # and that no host was contacted
