"""`preflight support-bundle`: what is in it, that no secret is, who may read it, and what is refused on opening it."""

import gzip
import json
import os
import shutil
import stat
import struct
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from preflight.app.saved import bundle_file
from preflight.cli.main import main
from preflight.facts.documents.facts_document import compact
from preflight.facts.redaction.redact import redact, redacted
from preflight.facts.sections.job import Job
from preflight.facts.types import ClusterFacts, HostFacts
from preflight.history import store
from preflight.history.documents import FACTS, REPORT, compress
from preflight.history.runs import remember
from preflight.model.change import Area, Change, Kind, Plan
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome
from preflight.model.report import SCHEMA
from preflight.provision.journal import RunJournal, require_directory
from tests.unit.cli.test_check_from import INVENTORY
from tests.unit.healthy import scene
from tests.unit.history.test_store import largest_file
from tests.unit.past_runs import look

Run = Callable[..., tuple[int, str, str]]
RUN = "20261121-121212-bbbb"
KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nc2VjcmV0aHVudGVyMg\n-----END OPENSSH PRIVATE KEY-----"
SECRETS = ("hunter2", "c2VjcmV0aHVudGVyMg", "V8BD6H25033", "/root/.ssh/way_to_hosts")
# Where a person, a site or a tool may have left one: each is put into a variable, a change, a finding and a log.
PLACES = (
    "DB_PASS=hunter2", "https://u:hunter2@proxy:3128", "Authorization: Bearer hunter2hunter2", "--token hunter2",
    KEY, "NCCL_SOCKET_PASSWORD=hunter2", "hf_hunter2hunter2hunter2", "vendor serial number : V8BD6H25033",
    "WANDB_KEY=hunter2", "GET https://s3.x/a?X-Amz-Signature=hunter2&y=1", "nvapi-hunter2hunter2hunter2",
    "<chassis_serial_number>V8BD6H25033</chassis_serial_number>",
    "NCCL INFO NET/Plugin: auth_token=hunter2", "http_proxy=http://hunter2@10.0.0.1:8080",
    "curl -sS -u me:hunter2 https://s3.x/a", "mysql -u me -phunter2 jobs", 'tokens = ["hunter2", "hunter2"]',
    "machine s3.x login me password hunter2",
)  # fmt: skip


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    ssh = '[ssh]\nkey = "/root/.ssh/way_to_hosts"\n'
    probe = '[probe]\nexec = ["docker", "exec", "--password", "hunter2", "job"]\n'
    profile = 'profile = { HCCL_AUTH = "hunter2" }'
    (tmp_path / "hosts.toml").write_text(INVENTORY.replace("profile = true", profile) + ssh + probe)
    return tmp_path


@pytest.fixture
def preflight(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: str) -> tuple[int, str, str]:
        code = main([*arguments])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return run


def seeded() -> ClusterFacts:
    """A healthy cluster on which somebody has left secrets."""
    facts = scene({}).facts
    variables = {f"HCCL_{n}": text for n, text in enumerate(PLACES)} | {"HCCL_AUTH": "hunter2"}
    hosts: dict[str, Any] = {}
    for name, it in facts.hosts.items():
        assert isinstance(it, HostFacts)
        assert isinstance(it.job, Job)
        hosts[name] = replace(it, job=replace(it.job, variables=variables))
    return ClusterFacts(hosts)


def ran(facts: ClusterFacts | None = None) -> None:
    words = " ; ".join(PLACES)
    finding = {
        "check": "PRB101",
        "outcome": "fail",
        "summary": f"node01: {words}",
        "host": "node01",
        "evidence": PLACES,
    }
    report = {
        "schema": SCHEMA, "run": RUN, "command": "check", "started": "2026-11-21T12:12:12Z",
        "finished": "2026-11-21T12:13:12Z", "verdict": "fail", "exit": 1, "hosts": [{"name": "node01"}],
        "checks": {"PRB101": []}, "findings": [finding], "tests": [], "notes": [words],
    }  # fmt: skip
    told = look(
        RUN, Finding("PRB101", Outcome.FAIL, f"node01: {words}", "node01"), command="check",
        inventory=str(Path("hosts.toml").absolute()),
    )  # fmt: skip
    remember(told, compress({FACTS: compact(facts or seeded()), REPORT: json.dumps(report).encode()}))
    require_directory()
    journal = RunJournal("20261120-101010-aaaa")
    change = Change("node01", Area.PORTS, Kind.FILE, "/etc/x", KEY, "\n".join(PLACES), "why")
    journal.start("configure", Path("hosts.toml"), Plan((change,)))
    Path("job.log").write_text("\n".join(PLACES) + "\n\udcff".encode("utf-8", "surrogateescape").decode("latin-1"))


@pytest.mark.usefixtures("place")
def test_facts_that_are_too_large_to_be_read_are_passed_over(preflight: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    ran()
    monkeypatch.setattr("preflight.history.documents.LARGEST", 5000)
    code, _, _ = preflight("support-bundle", "--out", "case.zip")
    with zipfile.ZipFile("case.zip") as archive:
        names, about = archive.namelist(), json.loads(archive.read("bundle.json"))
    assert code == 3
    assert "facts.json" not in names
    assert any("the facts of run" in line and "larger than" in line for line in about["lacking"])


def test_no_secret_is_in_it_and_all_else_is(preflight: Run, place: Path) -> None:
    ran()
    code, out, _ = preflight("support-bundle", "--log", "job.log", "--out", "case.zip")
    assert (code, out.splitlines()[-1]) == (0, "next: preflight check --from case.zip")
    assert stat.S_IMODE((place / "case.zip").stat().st_mode) == 0o600
    with zipfile.ZipFile("case.zip") as archive:
        members = {name: archive.read(name).decode() for name in archive.namelist()}
    assert set(members) == {
        "bundle.json", "facts.json", "report.json", "inventory.toml", "history.json",
        "journals/20261120-101010-aaaa.jsonl", "logs/job.log",
    }  # fmt: skip
    for name, text in members.items():
        assert [secret for secret in SECRETS if secret in text] == [], name
    assert "10.1.0.1" in members["facts.json"]
    assert "proxy:3128" in members["logs/job.log"]
    about = json.loads(members["bundle.json"])
    assert (about["schema"], about["run"], about["lacking"]) == ("preflight.bundle/1", RUN, [])
    assert about["files"].keys() == members.keys() - {"bundle.json"}


def test_the_seeds_would_be_seen(place: Path) -> None:
    """That the test above can fail: every secret is in what the bundle is made of."""
    ran()
    text = compact(seeded()).decode() + (place / "hosts.toml").read_text() + (place / "job.log").read_text()
    assert [secret for secret in SECRETS if secret not in text] == []


def test_it_is_judged_and_compared_like_what_it_was_made_of(preflight: Run) -> None:
    ran(scene({}).facts)
    assert preflight("support-bundle", "--out", "case.zip")[0] == 0
    Path("facts.json").write_bytes(compact(scene({}).facts))
    code, out, _ = preflight("check", "--from", "facts.json", "-o", "json")
    Path("hosts.toml").unlink()  # the bundle has its own
    again, same, _ = preflight("check", "--from", "case.zip", "-o", "json")
    told = [[(one["check"], one["outcome"], one["host"]) for one in json.loads(it)["findings"]] for it in (out, same)]
    assert (again, told[1]) == (code, told[0])
    (note,) = json.loads(same)["notes"]
    assert "judged by its own inventory. No host was contacted." in note
    assert f"run {RUN} ended with fail (PRB101)" in note
    code, out, _ = preflight("diff", "case.zip", RUN)
    assert (code, out.splitlines()[-2]) == (0, "SAME: no differences")
    assert preflight("facts", "--from", "case.zip")[0] in (0, 3)


def test_a_file_that_is_there_is_kept_but_with_force(preflight: Run, place: Path) -> None:
    ran()
    (place / "case.zip").write_text("mine")
    code, _, err = preflight("support-bundle", "--out", "case.zip")
    assert (code, "already exists" in err, (place / "case.zip").read_text()) == (2, True, "mine")
    assert preflight("support-bundle", "--out", "case.zip", "--force")[0] == 0
    assert sorted(it.name for it in place.glob("case.zip*")) == ["case.zip"]


def test_what_is_not_kept_any_more_is_named_and_ends_with_3(preflight: Run) -> None:
    remember(look(RUN, inventory="/nowhere/hosts.toml"))
    code, out, _ = preflight("support-bundle", RUN, "--out", "case.zip")
    assert code == 3
    assert "not included: the facts of run" in out
    assert out.splitlines()[-1] == f"next: preflight history {RUN}"
    assert "not included: the inventory: /nowhere/hosts.toml: no such file" in " ".join(out.split())
    assert "has no facts" in preflight("check", "--from", "case.zip")[2]


def test_the_end_of_a_large_log_is_in_it_and_no_half_of_a_key(preflight: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from preflight.cli.history import support_bundle

    monkeypatch.setattr(support_bundle, "_LOG", 200)
    ran()
    half = "c2VjcmV0aHVudGVyMgc2VjcmV0aHVudGVyMg\n" * 2 + "-----END RSA PRIVATE KEY-----\n"
    Path("job.log").write_text("-----BEGIN RSA PRIVATE KEY-----\n" + "A" * 300 + "\n" + half + "the end\n")
    code, out, _ = preflight("support-bundle", "--log", "job.log", "--out", "case.zip")
    assert (code, "the first" in out) == (3, True)
    with zipfile.ZipFile("case.zip") as archive:
        assert archive.read("logs/job.log").decode().splitlines() == ["[redacted]", "the end"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_a_log_in_another_encoding_is_redacted_too(
    preflight: Run, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    from preflight.cli.history import support_bundle

    monkeypatch.setattr(support_bundle, "_LOG", 1000)
    ran()
    Path("job.log").write_bytes(("an earlier line\n" * 99 + "\n".join(PLACES) + "\nthe end\n").encode(encoding))
    assert preflight("support-bundle", "--log", "job.log", "--out", "case.zip")[0] == 3
    with zipfile.ZipFile("case.zip") as archive:
        text = archive.read("logs/job.log").decode()
    assert ([secret for secret in SECRETS if secret in text], text.splitlines()[-1]) == ([], "the end")


def test_what_is_no_text_is_left_out_of_a_folder_of_logs(preflight: Run) -> None:
    ran()
    Path("logs").mkdir()
    Path("logs/old.log.1").write_bytes(gzip.compress(b"password=hunter2\n"))
    Path("logs/core").write_bytes(bytes(range(256)) * 40)
    Path("logs/job.log").write_text("the end\n")
    code, out, _ = preflight("support-bundle", "--log", "logs", "--out", "case.zip")
    assert (code, "logs/old.log.1: compressed with gzip" in out, "logs/core: not text" in out) == (3, True, True)
    with zipfile.ZipFile("case.zip") as archive:
        assert [name for name in archive.namelist() if name.startswith("logs/")] == ["logs/logs/job.log"]


def test_a_link_in_a_folder_leads_to_nothing_outside_of_it(preflight: Run, place: Path) -> None:
    ran()
    Path("logs").mkdir()
    Path("logs/rank0.log").write_text("the end\n")
    Path("logs/latest.log").symlink_to("rank0.log")
    Path("logs/other.log").symlink_to(place / "hosts.toml")
    code, out, _ = preflight("support-bundle", "--log", "logs", "--out", "case.zip")
    assert (code, "logs/other.log: a link to outside the folder" in out, "latest" in out) == (3, True, False)
    with zipfile.ZipFile("case.zip") as archive:
        assert [name for name in archive.namelist() if name.startswith("logs/")] == ["logs/logs/rank0.log"]
    assert preflight("support-bundle", "--log", "logs/other.log", "--out", "own.zip")[0] == 0


@pytest.mark.parametrize("place_", ["no/case.zip", "/proc/case.zip", "pipe.zip"])
def test_a_place_that_cannot_be_written_is_refused_first(preflight: Run, place_: str) -> None:
    os.mkfifo("pipe.zip")
    code, _, err = preflight("support-bundle", "--out", place_, "--force")
    assert (code, "--out" in err) == (2, True), "before it was looked for a run"


KEY_LINE = "c2VjcmV0aHVudGVyMgc2VjcmV0aHVudGVyMg"


def test_colours_in_a_log_hide_no_secret(preflight: Run) -> None:
    ran()
    Path("job.log").write_text("\x1b[31mpassword\x1b[0m: hunter2\n\x1b]0;open title\nthe end\n")
    assert preflight("support-bundle", "--log", "job.log", "--out", "case.zip")[0] == 0
    with zipfile.ZipFile("case.zip") as archive:
        assert archive.read("logs/job.log").decode().splitlines() == ["password: [redacted]", "", "the end"]


HALVES = [
    ([KEY_LINE, KEY_LINE, "c2Vj=="], "-----END RSA PRIVATE KEY-----"),
    ([f"[rank0]: {KEY_LINE}", "[rank0]: c2Vj=="], "[rank0]: -----END OPENSSH PRIVATE KEY-----"),
    ([f"2026-11-21 10:11:12.5 {KEY_LINE}", "2026-11-21 10:11:12.6 c2Vj=="], "12.7 -----END PRIVATE KEY-----"),
]


@pytest.mark.parametrize(("lines", "end"), HALVES)
def test_the_rest_of_a_key_is_taken_out_wherever_it_begins(lines: list[str], end: str) -> None:
    assert redact("\n".join(["a line", *lines, end, "the end"])) == "a line\n[redacted]\nthe end"
    assert redacted([*lines, end, "the end"]) == ["[redacted]", "the end"]


def test_a_key_of_a_line_an_item_is_taken_out() -> None:
    whole = ["a line", "-----BEGIN RSA PRIVATE KEY-----", KEY_LINE, "-----END RSA PRIVATE KEY-----", "the end"]
    assert redacted(whole) == ["a line", "[redacted]", "the end"]


def test_a_disk_that_is_full_ends_with_1(preflight: Run, place: Path) -> None:
    ran()
    with largest_file(1000):
        code, _, err = preflight("support-bundle", "--out", "case.zip")
    assert (code, "cannot write the support bundle to" in err, list(place.glob("case.zip*"))) == (1, True, [])


def test_a_history_that_cannot_be_read_ends_with_3(preflight: Run, place: Path) -> None:
    ran()
    store.path().write_bytes(b"no database" * 1000)
    assert preflight("support-bundle", "--out", "case.zip")[0] == 3
    assert not (place / "case.zip").exists()


# What somebody else sends.


def made(
    path: str, members: list[tuple[str, bytes]], mode: int = 0o100600, packing: int = zipfile.ZIP_DEFLATED
) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            entry = zipfile.ZipInfo(name)
            entry.external_attr = mode << 16
            entry.compress_type = packing
            archive.writestr(entry, content)


ABOUT = ("bundle.json", b'{"schema": "preflight.bundle/1"}')
HOSTILE: list[tuple[list[tuple[str, bytes]], int, str]] = [
    ([ABOUT, ("../../etc/cron.d/x", b"")], 0o100600, "has a path outside the bundle"),
    ([ABOUT, ("/etc/passwd", b"")], 0o100600, "has a path outside the bundle"),
    ([ABOUT, ("a\\..\\b", b"")], 0o100600, "has a path outside the bundle"),
    ([ABOUT, ("facts.json", b"/etc/shadow")], 0o120777, "is not a regular file"),
    ([ABOUT, ("inventory.toml", b"0" * (17 << 20))], 0o100600, "larger than 16 MiB"),
    ([("facts.json", b"{}")], 0o100600, "is not a support bundle"),
    ([("bundle.json", b"\xff\xfe")], 0o100600, "is not a support bundle"),
    ([("bundle.json", b'{"schema": "preflight.bundle/12"}')], 0o100600, "this preflight reads preflight.bundle/1"),
    ([("bundle.json", b'{"taken": "preflight.bundle/1"}')], 0o100600, "is not a support bundle"),
    ([ABOUT], 0o100600, "has no facts"),
    ([ABOUT, ("facts.json", b"[" * 100_000)], 0o100600, "not a facts document"),
    ([ABOUT, ("facts.json", b"{}"), ("inventory.toml", b"\x00 = [")], 0o100600, "inventory.toml"),
]


@pytest.mark.parametrize(("members", "mode", "says"), HOSTILE)
@pytest.mark.parametrize("command", [["check", "--from"], ["facts", "--from"]])
def test_a_hostile_bundle_ends_in_a_sentence(
    preflight: Run, members: list[tuple[str, bytes]], mode: int, says: str, command: list[str]
) -> None:
    made("bad.zip", members, mode)
    code, out, err = preflight(*command, "bad.zip")
    assert (code, out, "Traceback" in err) == (2, "", False)
    assert says in err, err


def test_a_bundle_that_somebody_packed_anew_is_read(preflight: Run, place: Path) -> None:
    ran()
    assert preflight("support-bundle", "--log", "job.log", "--out", "case.zip")[0] == 0
    with zipfile.ZipFile("case.zip") as archive:
        archive.extractall(place / "case")
    shutil.make_archive("again", "zip", place / "case")
    with zipfile.ZipFile("case.zip") as archive, zipfile.ZipFile("plain.zip", "w") as plain:
        for name in archive.namelist():
            plain.writestr(name, archive.read(name))
    for path in ("again.zip", "plain.zip"):
        with zipfile.ZipFile(path) as archive:
            assert {entry.filename for entry in archive.infolist() if entry.is_dir()} or path == "plain.zip"
        assert preflight("facts", "--from", path)[:2] == preflight("facts", "--from", "case.zip")[:2]


@pytest.mark.parametrize("packing", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_a_packing_that_we_do_not_use_is_refused(preflight: Run, packing: int) -> None:
    made("odd.zip", [ABOUT], packing=packing)
    code, _, err = preflight("facts", "--from", "odd.zip")
    assert (code, "has an unexpected compression" in err) == (2, True)


def test_a_name_that_stands_twice_is_refused(preflight: Run) -> None:
    with pytest.warns(UserWarning):
        made("bad.zip", [ABOUT, ("facts.json", b"1"), ("facts.json", b"2")])
    assert "twice" in preflight("diff", "bad.zip", "bad.zip")[2]


def test_a_bundle_of_too_many_files_is_refused(preflight: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle_file, "_MOST_MEMBERS", 2)
    made("bad.zip", [ABOUT, ("a", b""), ("b", b"")])
    assert "it has 3 files" in preflight("diff", "bad.zip", "bad.zip")[2]


def test_a_bundle_that_is_cut_or_broken_anywhere_ends_in_a_sentence(preflight: Run, place: Path) -> None:
    ran(scene({}).facts)
    preflight("support-bundle", "--out", "case.zip")
    whole = (place / "case.zip").read_bytes()
    for end in (4, 100, len(whole) // 2, len(whole) - 1):
        (place / "cut.zip").write_bytes(whole[:end])
        code, _, err = preflight("check", "--from", "cut.zip")
        assert (code, "as a support bundle: " in err) == (2, True), end
    for at in range(30, len(whole), len(whole) // 40):
        (place / "odd.zip").write_bytes(whole[:at] + struct.pack("B", whole[at] ^ 0xFF) + whole[at + 1 :])
        code, _, err = preflight("check", "--from", "odd.zip")
        assert code in (0, 1, 2, 3) and "Traceback" not in err, at
