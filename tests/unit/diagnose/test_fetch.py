"""Logs that hosts send: the program that reads them, run as it runs there, and answers of hosts that are not to be
trusted."""

import base64
import json
import os
import re
import signal
import subprocess
import sys
import time
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from preflight.cli.main import main
from preflight.diagnose.fetch import HostAccess, LogSelection, fetch
from preflight.diagnose.fetched import Fetched
from preflight.model.cluster import Host, ProbeSettings
from preflight.transport.programs import source
from preflight.transport.types import Answer, ErrorKind, Program, TransportError
from tests.unit.collector import LOADER, tool

HOSTS = (Host("node01", "10.1.0.1"), Host("node02", "10.1.0.2"))
PROGRAM = source("fetch_logs", "collect.tools")
WANTED = LogSelection(("/data/*.log",), ProbeSettings(), 86400, 1 << 20)


def told(bin_: Path, text: str = "", **words: Any) -> dict[str, Any]:
    """What the program answers. The kernel's log is `bin_`'s."""
    request = {
        "marker": "mark-1", "globs": [], "user": "", "age": 3600, "most": 1000, "each": 400, "passed": [".py"],
        "kernel": True, "inside": None, **words,
    }  # fmt: skip
    program = (text or PROGRAM).encode()
    done = subprocess.run(
        ["/usr/bin/env", "python3", "-I", "-c", LOADER.format(len(program))],
        input=program + json.dumps(request).encode(), capture_output=True, timeout=60, check=True,
        env={"PATH": f"{bin_}:{os.environ['PATH']}", "HOME": str(bin_)},
    )  # fmt: skip
    head, size, document = done.stdout.decode("ascii").lstrip("\n").split(maxsplit=2)
    assert (head, int(size)) == (request["marker"], len(document.rstrip("\n")))
    found: dict[str, Any] = json.loads(document)
    return found


def text(file: dict[str, Any]) -> bytes:
    return zlib.decompress(base64.b64decode(file["text"]))


def log(folder: Path, name: str, data: bytes, changed: float) -> None:
    """`changed`: seconds ago."""
    (folder / name).write_bytes(data)
    now = (folder / name).stat().st_mtime
    os.utime(folder / name, (now, now - changed))


@pytest.fixture
def dmesg(tmp_path: Path) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    tool(folder, "dmesg", "echo '2026-03-04T10:01:58,000000+08:00 NVRM: loading'; echo usb 1-1: new device")
    return folder


def test_the_newest_come_first_and_what_does_not_fit_is_named(tmp_path: Path, dmesg: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    for number, size in enumerate((300, 500, 300, 300)):
        log(logs, f"{number}.log", str(number).encode() * size, changed=10 * number)
    log(logs, "old.log", b"x", changed=7200)
    log(logs, "tool.py", b"x", changed=0)
    found = told(dmesg, globs=[str(logs)])
    came = [(Path(file["path"]).name, file["begin"], text(file)) for file in found["files"]]
    assert came == [("0.log", 0, b"0" * 300), ("1.log", 100, b"1" * 400), ("2.log", 0, b"2" * 300)]
    (left,) = found["left"]
    assert (Path(left["path"]).name, left["why"].partition(".")[0]) == ("3.log", "over the size limit for one host")
    assert found["older"] == 1


def test_links_pipes_and_names_of_any_bytes_do_no_harm(tmp_path: Path, dmesg: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "link.log").symlink_to("/etc/passwd")
    (logs / "away").symlink_to("/etc")
    os.mkfifo(logs / "pipe.log")
    Path(os.fsdecode(os.fsencode(logs) + b"/\xff\x1b[31m\n.log")).write_bytes(b"x")
    found = told(dmesg, globs=[str(logs), str(logs / "none*")])
    assert [text(file) for file in found["files"]] == [b"x"]
    why = {Path(left["path"]).name: left["why"] for left in found["left"]}
    assert why == {"link.log": "a link", "pipe.log": "not a regular file"}
    assert found["nothing"] == [str(logs / "none*")]


def test_a_thousand_files_that_were_not_taken_are_counted(tmp_path: Path, dmesg: Path) -> None:
    for number in range(1000):
        (tmp_path / f"{number}.log").symlink_to("x")
    found = told(dmesg, globs=[f"{tmp_path}/*.log"])
    assert (len(found["left"]), found["left_more"]) == (50, 950)


def test_files_without_end_are_told_as_such(tmp_path: Path, dmesg: Path) -> None:
    for number in range(4):
        (tmp_path / f"{number}.log").write_bytes(b"x")
    program = PROGRAM.replace("FOUND = 20000", "FOUND = 3")
    found = told(dmesg, program, globs=[f"{tmp_path}/*.log"])
    assert len(found["files"]) == 3
    assert found["left"] == [{"path": f"{tmp_path}/*.log", "why": "too many files, so not all were checked"}]


def test_of_the_kernel_devices_come_in_the_time_on_the_wall(dmesg: Path) -> None:
    assert text(told(dmesg, age=10**10)["kernel"]) == b"2026-03-04T10:01:58,000000 NVRM: loading"
    assert text(told(dmesg)["kernel"]) == b"", "older than was asked for"


def test_the_jobs_user_is_asked_for_by_name(tmp_path: Path, dmesg: Path) -> None:
    """A directory service lists nobody, and knows whom it is asked for; a stand-in for it."""
    plog = tmp_path / "home/ascend/log/debug/plog"
    plog.mkdir(parents=True)
    log(plog, "plog-1_1.log", b"x", 0)
    entry = f"pwd.struct_passwd(('train', '', 1, 1, '', {str(tmp_path / 'home')!r}, ''))"
    knows = f"import os, pwd\npwd.getpwall = list\npwd.getpwnam = {{'train': {entry}}}.__getitem__\nmain()\n"
    program = PROGRAM.removesuffix("main()\n") + knows
    assert [file["path"] for file in told(dmesg, program, user="train")["files"]] == [str(plog / "plog-1_1.log")]
    assert told(dmesg, program, user="nobody-here")["files"] == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_came_is_gone_also_where_the_process_is_ended(number: signal.Signals, tmp_path: Path) -> None:
    ended = """
import os, sys
from preflight.cli.jobs.fetched_logs import _folder
try:
    with _folder() as at:
        (at / "log").write_text("x")
        os.kill(os.getpid(), int(sys.argv[1]))
        input()
except KeyboardInterrupt:
    print("ended")
"""
    done = subprocess.run(
        [sys.executable, "-c", ended, str(int(number))], capture_output=True, text=True, timeout=60,
        env={**os.environ, "TMPDIR": str(tmp_path)}, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "ended\n"), done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_the_user_may_not_look_into_is_told(tmp_path: Path, dmesg: Path) -> None:
    """Root may look into any; that it may not is said to it here."""
    closed = tmp_path / "closed"
    (closed / "ours").mkdir(parents=True)
    shut = f"import os\nos.access = lambda path, _: not path.startswith({str(closed)!r})\nmain()\n"
    program = PROGRAM.removesuffix("main()\n") + shut
    for pattern, folder in ((closed / "*.log", closed), (closed / "ours/a.log", closed), (closed / "*/a.log", closed)):
        found = told(dmesg, program, globs=[str(pattern)])
        assert (found["left"], found["nothing"]) == (
            [{"path": str(folder), "why": "this user has no permission to read it"}],
            [],
        )
    assert told(dmesg, globs=[str(closed / "*.log")])["nothing"] == [str(closed / "*.log")]


def test_a_kernel_that_tells_nothing_says_why(tmp_path: Path) -> None:
    tool(tmp_path, "dmesg", "echo 'dmesg: read kernel buffer failed: Operation not permitted' >&2; exit 1")
    assert told(tmp_path)["kernel"] == {"text": "", "why": "dmesg: read kernel buffer failed: Operation not permitted"}


class Hosts:
    """A transport whose hosts answer what they are given: a document's parts, or an error."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers

    def run(self, host: Host, program: Program, *, timeout: float, limit: int = 0) -> Answer:  # noqa: ARG002
        given = self.answers[host.name]
        if isinstance(given, Exception):
            raise given
        marker = json.loads(program.payload)["marker"]
        empty = {
            "files": [], "left": [], "left_more": 0, "older": 0, "nothing": [], "zone": 0, "inside": None,
            "clock": [time.time()] * 2, "kernel": {"text": packed(b""), "why": ""},
        }  # fmt: skip
        if "container" in given:
            inner = framed({**empty, **given["container"], "kernel": None}, marker)
            given = {**given, "inside": {"text": packed(inner), "why": ""}}
        return Answer(framed({**empty, **given}, marker), b"", 0, 0.1)

    def start(self, host: Host, program: Program, *, timeout: float) -> Any: ...
    def close(self) -> None: ...


def framed(answer: dict[str, Any], marker: str) -> bytes:
    document = json.dumps({key: value for key, value in answer.items() if key != "container"})
    return f"\n{marker} {len(document)}\n{document}\n".encode()


def packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data)).decode()


def file(path: str, data: bytes = b"x", glob: int | None = 0, shared: str = "", inode: int = 1) -> dict[str, Any]:
    return {"path": path, "glob": glob, "shared": shared, "inode": inode, "changed": 1e9, "size": len(data), "begin": 0,
            "text": packed(data)}  # fmt: skip


def came(folder: Path, **answers: Any) -> Fetched:
    return fetch(HostAccess(HOSTS, Hosts(**answers), 2), WANTED, folder)


def test_a_file_that_all_hosts_share_is_one_and_nobodys(tmp_path: Path) -> None:
    both = {"files": [file("/data/rank3.log", shared="nfs4 store:/data")]}
    fetched = came(tmp_path, node01=both, node02=both)
    (log_, *_) = [source_ for source_ in fetched.sources if source_.about.rank is not None]
    assert (log_.about.rank, log_.about.host) == (3, "")
    assert len([copy for copy in fetched.copies if copy.file == "/data/rank3.log"]) == 1


def test_a_path_that_leads_to_another_file_on_each_host_is_read_on_each(tmp_path: Path) -> None:
    """As with a part of a volume that is mounted by the name of the pod."""
    one, other = (file("/logs/a.log", shared="nfs4 store:/logs", inode=inode) for inode in (7, 8))
    fetched = came(tmp_path, node01={"files": [one]}, node02={"files": [other]})
    assert {copy.host for copy in fetched.copies if copy.file == "/logs/a.log"} == {"node01", "node02"}
    assert {log_.about.host for log_ in fetched.sources if log_.name.endswith("/logs/a.log")} == {""}


@pytest.mark.parametrize(("on_both", "host"), [(True, "node01"), (False, "")], ids=["each-its-own", "of-a-launcher"])
def test_a_log_is_its_hosts_where_others_have_theirs(on_both: bool, host: str, tmp_path: Path) -> None:
    mine, other = {"files": [file("/data/a.log")]}, {"files": [file("/data/b.log")] if on_both else []}
    fetched = came(tmp_path, node01=mine, node02=other)
    assert {one.name: one.about.host for one in fetched.sources}["node01:/data/a.log"] == host


def test_what_the_container_has_comes_once_and_is_told_from_the_hosts(tmp_path: Path) -> None:
    bound, own = file("/mnt/a.log"), file("/data/b.log")
    fetched = came(tmp_path, node01={"files": [file("/srv/a.log")], "container": {"files": [bound, own]}}, node02={})
    assert [copy.file for copy in fetched.copies if copy.host == "node01"] == [
        "/mnt/a.log (in the container)", "/data/b.log (in the container)", "the kernel's log"
    ]  # fmt: skip


def test_plogs_in_a_home_that_hosts_share_are_nobodys(tmp_path: Path) -> None:
    plog = {"files": [file("/home/a/ascend/log/debug/plog/plog-1_1.log", glob=None, shared="nfs s:/home")]}
    fetched = came(tmp_path, node01=plog, node02=plog)
    assert [one.about.host for one in fetched.sources if "plog" in one.name] == [""]


def test_the_program_runs_in_a_container_as_it_runs_on_the_host(tmp_path: Path, dmesg: Path) -> None:
    """env stands in for what leads into a container."""
    log(tmp_path, "a.log", b"x", 0)
    wanted = LogSelection((f"{tmp_path}/*.log",), ProbeSettings(wrapper=("env", "A=1")), 3600, 1 << 20)

    class Here(Hosts):
        def run(self, host: Host, program: Program, **_: Any) -> Answer:  # noqa: ARG002
            text = json.dumps(told(dmesg, **json.loads(program.payload)))
            marker = json.loads(program.payload)["marker"]
            return Answer(f"\n{marker} {len(text)}\n{text}\n".encode(), b"", 0, 0.1)

    fetched = fetch(HostAccess(HOSTS[:1], Here(), 1), wanted, tmp_path)
    assert [copy.file for copy in fetched.copies] == [f"{tmp_path}/a.log (in the container)", "the kernel's log"]
    assert fetched.unread == []
    broken = replace(wanted, probe=ProbeSettings(wrapper=("sh", "-c", "echo no such container >&2; exit 1", "x")))
    (tmp_path / "2").mkdir()
    fetched = fetch(HostAccess(HOSTS[:1], Here(), 1), broken, tmp_path / "2")
    assert [(one.name, one.why) for one in fetched.unread] == [
        ("node01", "the container's logs could not be fetched: no such container")
    ]


def test_names_of_files_are_no_paths_here(tmp_path: Path) -> None:
    fetched = came(tmp_path, node01={"files": [file("../../../etc/x\x1b[31m")]}, node02={})
    assert [source_.path.parent.parent for source_ in fetched.sources] == [tmp_path] * 3


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"files": [file("/a", b"0" * (2 << 20))]}, "incomplete or too large"),
        ({"files": [{**file("/a"), "text": "AAAA"}]}, "cannot be unpacked"),
        ({"files": [{**file("/a"), "text": packed(b"x" * 99)[:12]}]}, "incomplete or too large"),
        ({"files": 3}, "files should be a list in [ ], but is a whole number"),
        ({"kernel": {"text": packed(b"0" * (9 << 20)), "why": ""}}, "incomplete or too large"),
        (TransportError(ErrorKind.REFUSED, "node02: refused the connection", "start sshd"), "refused the connection"),
    ],
    ids=["bomb", "not-packed", "cut", "not-ours", "kernel-bomb", "unreachable"],
)
def test_a_host_without_an_answer_of_use_is_named(answer: Any, why: str, tmp_path: Path) -> None:
    fetched = came(tmp_path, node01={}, node02=answer)
    (unread,) = (one for one in fetched.unread if one.name == "node02")
    assert unread.why.startswith("no logs were fetched: ")
    assert why in unread.why


def test_time_zones_that_differ_and_files_that_are_missing_are_told(tmp_path: Path) -> None:
    nothing = {"nothing": ["/data/*.log"], "older": 4, "left": [{"path": "/data/x", "why": "a link"}], "left_more": 7}
    fetched = came(tmp_path, node01={"zone": 28800, "files": [file("/data/a.log")]}, node02=nothing)
    assert [note.partition(":")[0] for note in fetched.notes] == [
        "no file matches /data/*.log on 1 of 2 hosts",
        "4 older logs on the hosts were not fetched (--since)",
        "the hosts use different time zones, so the order of errors on different hosts is unknown",
    ]
    assert [(one.name, one.why) for one in fetched.unread] == [
        ("node02:/data/x", "a link"), ("node02", "7 more files were not fetched")
    ]  # fmt: skip


def test_clocks_that_are_apart_are_told(tmp_path: Path) -> None:
    """The clocks are stand-ins: hosts say what they like."""
    (note,) = came(tmp_path, node01={"clock": [time.time() + 90] * 2}, node02={}).notes
    assert re.match(r"the clock of node01 is at least (8\d|90) s ahead of the clock of node02", note)


Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "diagnose needs log files or folders, or --fetch"),
        (["--fetch", "job.log"], "job.log: paths on the hosts must start with / or ~/"),
        (["--fetch", "--since", "0h"], "'0h' is not an age such as 90m, 24h or 7d"),
        (["--fetch", "--most", "0"], "'0' is not a number of MiB from 1 to 1024"),
        (["--limit", "node01", "x"], "need --fetch"),
        (["--since", "2h", "x"], "need --fetch"),
        (["--fetch", "-i", "/nowhere.toml"], "/nowhere.toml"),
    ],
)
def test_bad_words_end_in_a_sentence(words: list[str], said: str, capsys: Capture) -> None:
    try:
        code: Any = main(["diagnose", *words])
    except SystemExit as ended:  # what argparse refuses
        code = ended.code
    assert code == 2
    assert said in capsys.readouterr().err


def test_what_it_takes_on_a_host_is_not_several_times_what_is_sent(tmp_path: Path) -> None:
    """Of logs that do not pack: base64, and the answer as one text, were held besides; six times as much in all."""
    most = 32 << 20
    for number in range(5):
        (tmp_path / f"{number}.log").write_bytes(os.urandom(most // 4))
    request = {
        "marker": "m", "globs": [f"{tmp_path}/*.log"], "user": "", "age": 3600, "most": most, "each": most // 4,
        "passed": [], "kernel": False, "inside": None,
    }  # fmt: skip
    # Not ru_maxrss: that is at least what the process had from which it was started.
    peak = "import re; print(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1], file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"{PROGRAM}\n{peak}"],
        input=json.dumps(request).encode(), capture_output=True, timeout=60, check=True,
    )  # fmt: skip
    assert len(done.stdout) > most * 4 // 3
    assert int(done.stderr) * 1024 < 2.5 * most
