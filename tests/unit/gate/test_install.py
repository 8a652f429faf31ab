"""What `preflight gate install` would put on hosts, over a transport that answers as told."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from preflight.cli.main import main
from preflight.gate.install import (
    FRONT,
    POLICY,
    PROGRAM,
    front_text,
    installing,
    is_ours,
    program_text,
    removing,
    undoing_allowed,
)
from preflight.gate.policy import gate_json
from preflight.model.change import Kind, Plan
from preflight.model.cluster import Cluster, Host, Product
from preflight.model.errors import UsageError
from preflight.model.gate import GatePolicy
from preflight.provision.apply import Way
from preflight.transport.programs import source
from preflight.transport.types import Answer, Channel, ErrorKind, Program, TransportError

HOST = Host("node01", "192.0.2.1")
CLUSTER = Cluster("c", Product.CPU, (HOST,))
OURS = {PROGRAM: program_text("/usr/bin/python3"), FRONT: front_text(), POLICY: gate_json(CLUSTER, HOST)}


@dataclass
class There:
    """A host as a transport: `files` stand on it, others are of a kind that `odd` says."""

    files: Mapping[str, str] = field(default_factory=dict)
    odd: Mapping[str, str] = field(default_factory=dict)
    python: str = "/usr/bin/python3"
    at_work: str = ""
    named: tuple[str, ...] = ()  # lines of Slurm's configuration
    doubt: str = ""
    unread: str = ""
    trouble: TransportError | None = None

    def run(self, host: Host, program: Program, *, timeout: float, limit: int = 8 << 20) -> Answer:
        assert host.name
        assert timeout > 0 < limit
        if self.trouble:
            raise self.trouble
        asked = json.loads(program.payload)
        answer: dict[str, object]
        if "paths" in asked:
            kinds = {path: "file" if path in self.files else "missing" for path in asked["paths"]}
            named = self.named if FRONT in asked["programs"] else ()
            answer = {"python": self.python, "kinds": {**kinds, **self.odd}, "named": named}
            answer |= {"doubt": self.doubt, "unread": self.unread}
        else:
            assert asked["action"] == "compare"
            results = [self.met(change["target"], change["after"]) for change in asked["plain"]]
            answer = {"results": results, "open": "", "at_work": self.at_work}
        text = json.dumps(answer).encode()
        return Answer(b"\n%s %d\n%s\n" % (asked["marker"].encode(), len(text), text), b"", 0, 0.1)

    def met(self, path: str, after: str | None) -> dict[str, str | None]:
        found = self.files.get(path)
        state = "already" if found == after else "pending" if found is None else "moved"
        return {"state": state, "found": found if state == "moved" else None, "message": ""}

    def start(self, host: Host, program: Program, *, timeout: float) -> Channel:
        raise NotImplementedError

    def close(self) -> None:
        pass


def way(there: There) -> Way:
    return Way((HOST,), there)


def planned(there: There, *, force: bool = False) -> dict[str, tuple[str | None, str | None]]:
    """Path → before and after."""
    plan = installing(CLUSTER, way(there), force=force).plan
    return {change.target: (change.before, change.after) for change in plan.changes}


def kept_off(there: There) -> str:
    found = installing(CLUSTER, way(there), force=False)
    assert found.plan.changes == ()
    return found.kept_off["node01"]


def test_all_files_are_brought_to_a_host_that_has_none() -> None:
    plan = installing(CLUSTER, way(There()), force=False).plan
    assert [(change.kind, change.target) for change in plan.changes] == [
        (Kind.PROGRAM, "/usr/local/lib/preflight/gate"),
        (Kind.PROGRAM, "/usr/local/sbin/preflight-gate"),
        (Kind.FILE, "/etc/preflight/gate.json"),
    ]
    assert planned(There()) == {path: (None, text) for path, text in OURS.items()}


def test_a_host_that_has_all_is_left_alone() -> None:
    found = installing(CLUSTER, way(There(OURS)), force=False)
    assert (found.plan.changes, found.kept_off) == ((), {})


@pytest.mark.parametrize(
    "old",
    [
        "#!/usr/bin/python3 -IS\n# preflight-gate 0.0.9; preflight gate install puts it here\nprint(0)\n",
        "0644 0:0\n" + OURS[PROGRAM],  # it is ours, and somebody has changed its mode
    ],
)
def test_an_older_version_is_replaced_and_the_way_back_is_known(old: str) -> None:
    assert planned(There({**OURS, PROGRAM: old})) == {PROGRAM: (old, OURS[PROGRAM])}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (FRONT, "#!/bin/sh\nexit 0\n"),
        (PROGRAM, ""),
        (POLICY, "max_age: 3\n"),
        (POLICY, "[1]"),
        (POLICY, '{"schema": "preflight.report/1"}'),
        (POLICY, "[" * 100_000),
    ],
)
def test_what_is_not_ours_is_written_over_only_by_force(path: str, text: str) -> None:
    there = There({**OURS, path: text})
    assert kept_off(there) == f"{path} already exists and is not preflight's. Overwrite it with --force"
    assert planned(there, force=True) == {path: (text, OURS[path])}
    removal = removing(way(there), force=False)
    assert (removal.plan.changes, set(removal.kept_off)) == ((), {"node01"})


def test_what_is_removed_is_ours_and_the_way_back_is_known() -> None:
    plan = removing(way(There(OURS)), force=False).plan
    assert {change.target: (change.before, change.after) for change in plan.changes} == {
        path: (text, None) for path, text in OURS.items()
    }
    assert removing(way(There()), force=False).plan.changes == ()


NAMED = "/etc/slurm/slurm.conf:12: Prolog=/usr/local/sbin/preflight-gate"


def test_the_front_goes_last_and_stays_while_slurm_starts_it() -> None:
    plan = removing(way(There(OURS)), force=False).plan
    assert [change.target for change in plan.changes] == [POLICY, PROGRAM, FRONT]
    for force in (False, True):
        found = removing(way(There(OURS, named=(NAMED,))), force=force)
        assert found.plan.changes == ()
        assert f"First remove {NAMED}. Then run scontrol reconfigure" in found.kept_off["node01"]


def test_a_rollback_leaves_the_gate_where_slurm_starts_it() -> None:
    plan = removing(way(There(OURS)), force=False).plan
    assert undoing_allowed(plan, way(There(OURS))) == (plan, ())
    left, (why,) = undoing_allowed(plan, way(There(OURS, named=(NAMED,))))
    assert left.changes == ()
    assert why.startswith("node01: Slurm still calls the gate")
    assert NAMED in why
    older = replace(plan, changes=tuple(replace(change, after="#!/usr/bin/python3\n") for change in plan.changes))
    assert undoing_allowed(older, way(There(OURS, named=(NAMED,)))) == (older, ()), "one that takes none away"
    away = There(trouble=TransportError(ErrorKind.REFUSED, "node01: nobody listens", "start sshd"))
    assert undoing_allowed(plan, way(away)) == (Plan(), ("node01: nobody listens",))


@pytest.mark.parametrize(
    ("there", "says"),
    [
        (There(odd={PROGRAM: "link"}), f"{PROGRAM} is a link on the host. Remove it"),
        (There(odd={FRONT: "link"}), f"{FRONT} is a link on the host. Remove it"),
        (There(odd={POLICY: "folder"}), f"{POLICY} is a folder on the host. Remove it"),
        (There(python=""), "the gate needs Python 3.6 or newer, and none was found on the host"),
        (There(python="/opt/a b/python3"), "the gate needs Python 3.6 or newer, and none was found on the host"),
        (There(python="/opt/\n#!/bin/sh"), "the gate needs Python 3.6 or newer, and none was found on the host"),
        (There(at_work="jo@admin"), "another run is active on this host (jo@admin). Wait until it ends."),
        (There(trouble=TransportError(ErrorKind.REFUSED, "node01: nobody listens", "start sshd")),
         "nobody listens"),
    ],
)  # fmt: skip
def test_where_it_cannot_be_put_is_said(there: There, says: str) -> None:
    assert kept_off(there) == says


def test_a_policy_that_cannot_be_meant_is_refused_before_anybody_is_contacted() -> None:
    nobody = There(trouble=TransportError(ErrorKind.REFUSED, "contacted", ""))
    with pytest.raises(UsageError, match="there is no check 'XYZ'"):
        installing(replace(CLUSTER, gate=GatePolicy(off=("XYZ",))), way(nobody), force=False)


def test_where_slurm_may_still_start_the_gate_it_stays() -> None:
    """Its controller does not answer, or a daemon has called the gate since its configuration was changed."""
    found = removing(way(There(OURS, doubt="the Slurm controller does not answer scontrol show config")), force=True)
    assert not found.plan.changes
    assert "Slurm may still call the gate" in found.kept_off["node01"]


def test_the_front_stays_where_slurmd_may_have_an_old_configuration() -> None:
    unread = "slurmd was started before the last change of slurm.conf"
    removal = removing(way(There(OURS, unread=unread)), force=False)
    assert [change.target for change in removal.plan.changes] == [POLICY, PROGRAM]
    assert removal.kept_off == {}
    assert removal.kept_front["node01"].startswith(f"{FRONT} was kept and lets every job start. {unread}")
    undo, (reason,) = undoing_allowed(removing(way(There(OURS)), force=False).plan, way(There(OURS, unread=unread)))
    assert [change.target for change in undo.changes] == [POLICY, PROGRAM]
    assert reason.startswith(f"node01: {FRONT} was kept and lets every job start. {unread}")
    assert removing(way(There(unread=unread)), force=False).kept_front == {}, "there is no front"


def test_the_program_is_one_file_that_names_its_interpreter() -> None:
    text = program_text("/usr/libexec/platform-python")
    assert text.startswith("#!/usr/libexec/platform-python -IS\n# preflight-gate ")
    assert text.endswith(source("gate"))
    assert is_ours(PROGRAM, text)


def test_the_program_runs_as_it_stands_without_any_environment(tmp_path: Path) -> None:
    program = tmp_path / "preflight-gate"
    program.write_text(program_text(sys.executable))
    program.chmod(0o755)
    done = subprocess.run([program, "--local", "-o", "json"], capture_output=True, text=True, env={}, check=False)
    assert json.loads(done.stdout)["schema"] == "preflight.gate-answer/1", done.stderr
    assert done.returncode in (0, 1, 3)


def look(text: str = "", **request: object) -> dict[str, object]:
    """What the program says that is sent to look where the gate would go."""
    program = (text or source("gate_look")).encode()
    loader = f"import sys; exec(compile(sys.stdin.buffer.read({len(program)}), 'look', 'exec'))"
    done = subprocess.run(
        [sys.executable, "-I", "-c", loader], input=program + json.dumps({"marker": "m", **request}).encode(),
        capture_output=True, check=True,
    )  # fmt: skip
    document: dict[str, object] = json.loads(done.stdout.split(b"\n", 2)[2])
    return document


GATE = "/usr/local/sbin/preflight-gate"


@pytest.mark.parametrize(
    ("conf", "files", "named"),
    [
        (f"Prolog={GATE}", {}, f"CONF/slurm.conf:1: Prolog={GATE}"),
        (f"  prOlog = {GATE} # ours", {}, f"CONF/slurm.conf:1: prOlog = {GATE}"),
        (f"#Prolog={GATE}", {}, ""),
        (f"Prolog=\\\n{GATE}", {}, f"CONF/slurm.conf:2: Prolog={GATE}"),
        ("Prolog=/usr/local/lib/../sbin//preflight-gate", {}, "CONF/slurm.conf:1: Prolog=/usr/"),
        ("Prolog=/usr/local/lib/preflight/gate", {}, "CONF/slurm.conf:1: Prolog=/usr/local/lib/preflight/gate"),
        ("Prolog=CONF/link", {"link": None}, "CONF/slurm.conf:1: Prolog=CONF/link"),
        ("Prolog=CONF/p.d/*", {"p.d/10": None}, "CONF/slurm.conf:1: Prolog=CONF/p.d/*"),
        ("Include a.conf", {"a.conf": "include p.d/b", "p.d/b": f"Epilog={GATE}"}, f"CONF/p.d/b:1: Epilog={GATE}"),
        ("Prolog=CONF/site", {"site": "#!/bin/sh\npreflight-gate || exit 1"}, "CONF/site:2: preflight-gate || exit 1"),
        (
            "Prolog=CONF/site",
            {"site": '#!/bin/sh\nfor f in CONF/p.d/*; do "$f" || exit; done', "p.d/1": f"#!/bin/sh\nexec {GATE}"},
            f"CONF/p.d/1:2: exec {GATE}",
        ),
        ("Prolog=CONF/site", {"site": "#!/bin/sh\nCONF/site\n/opt/preflight-gate-2"}, ""),
    ],
)
def test_every_way_to_name_the_gate_is_found(
    conf: str, files: dict[str, str | None], named: str, tmp_path: Path
) -> None:
    for name, text in {"slurm.conf": conf, **files}.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        if text is None:
            path.symlink_to(GATE)
        else:
            path.write_text(text.replace("CONF", str(tmp_path)) + "\n")
            path.chmod(0o755)
    program = source("gate_look").replace("/etc/slurm/slurm.conf", str(tmp_path / "slurm.conf"))
    found = look(program, paths=[], programs=[GATE, PROGRAM])
    lines = [line.replace(str(tmp_path), "CONF") for line in found["named"]]  # type: ignore[attr-defined]
    assert [line.startswith(named) for line in lines] == ([True] if named else [])


def test_a_host_tells_what_stands_where_the_gate_goes_and_which_python_starts(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "other")
    names = {"file": "file", "link": "link", "other": "other", "none": "missing", "file/below": "missing"}
    wanted = {str(tmp_path / name): kind for name, kind in names.items()} | {str(tmp_path): "folder"}
    found = look(paths=list(wanted))
    assert found["kinds"] == wanted
    assert str(found["python"]).startswith("/")


@pytest.mark.parametrize(
    ("arguments", "leave_out"),
    [
        (["check", "--only", "NPU"], "--only"),
        (["check", "--skip", "NPU", "--basic"], "--skip, --basic"),
        (["check", "--from", "facts.json"], "--from"),
        (["check", "--no-ping"], "--no-ping"),
        (["check", "--ignore", "NPU113"], "--ignore"),
        (["probe", "--idle", "--scope", "host"], "--scope"),
        (["probe", "--idle", "--backend", "hccl"], "--backend"),
        (["probe", "--idle", "--via", "pods"], "--via pods"),
    ],
)
def test_a_part_of_a_look_is_not_published(
    arguments: list[str], leave_out: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inventory = tmp_path / "hosts.toml"
    inventory.write_text('[cluster]\nname = "x"\nproduct = "cpu"\n[[hosts]]\nname = "n1"\naddress = "192.0.2.1"\n')
    assert main([*arguments, "--publish", "-i", str(inventory)]) == 2
    said = capsys.readouterr().err
    assert f"Remove {leave_out}.\n" in said
    assert "no host was contacted" in said


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "gate needs --local or an action: install, manifest, controller"),
        (["instal"], "invalid choice: 'instal'"),
        (["--local", "--context", "prologue"], "invalid choice: 'prologue'"),
        (["install", "-i", "/nope/hosts.toml", "--dry-run"], "/nope/hosts.toml: no such file"),
    ],
)
def test_wrong_usage_is_one_sentence(arguments: list[str], says: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "preflight", "gate", *arguments], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr


def test_the_local_gate_is_the_one_of_the_hosts_and_its_exit_code_is_handed_on() -> None:
    command = [sys.executable, "-m", "preflight", "gate", "--local", "-o", "json"]
    answers = {}
    for context in ("job", "init"):
        done = subprocess.run([*command, "--context", context], capture_output=True, text=True, check=False)
        answers[context] = json.loads(done.stdout), done.returncode
    assert [found["context"] for found, _ in answers.values()] == ["job", "init"]
    codes = {True: (0, 0), False: (3, 43)}  # this machine has no policy, so nobody knows
    assert tuple(code for _, code in answers.values()) == codes[answers["job"][0]["open"]]


def test_the_local_gate_loads_none_of_what_it_does_without() -> None:
    heavy = ("paramiko", "fabric", "rich", "pydantic", "torch", "msgspec", "ClusterShell", "sqlite3")
    code = (
        "import sys\nfrom preflight.cli.main import main\n"
        "main(['gate', '--local', '--context', 'prolog'])\n"
        f"print('heavy:', [m for m in {heavy!r} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "heavy: []"
