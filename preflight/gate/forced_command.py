"""Programs that the controller's key may start on a host: the probe, as this release runs it by this inventory. Pure.

remote/gate/ssh.py allows nothing else, and remote/agent/restricted.py allows only harmless tests.
"""

import json
from hashlib import sha256

from preflight.model.cluster import Cluster, Host
from preflight.model.errors import UsageError
from preflight.probe.agents import AGENT_PARTS
from preflight.probe.rehearsal import REHEARSAL_PARTS
from preflight.transport.bootstrap import command_line, source_bytes, without_run
from preflight.transport.programs import source
from preflight.transport.types import Program

PLACE = "/etc/preflight/gate-ssh.json"
SCHEMA = "preflight.gate-ssh/1"
COMMAND = "/usr/local/sbin/preflight-gate --ssh"
_PROGRAMS = (AGENT_PARTS, REHEARSAL_PARTS)  # what `preflight gate controller` sends to hosts


def allowed(cluster: Cluster, host: Host) -> str:
    """Return the text of this host's /etc/preflight/gate-ssh.json. Raises UsageError."""
    probe = cluster.probe
    if probe.init == "file":
        raise UsageError(
            '[probe] init = "file" is not allowed, since the gate\'s key writes no files on hosts. Set another init'
        )
    programs = [
        Program(
            source(*parts),
            python=probe.python,
            setup=probe.setup,
            wrapper=probe.wrapper,
            user=probe.user,
            isolated=False,
        )
        for parts in _PROGRAMS
    ]
    return json.dumps({"schema": SCHEMA, "programs": [_listed(program, host) for program in programs]}, indent=2) + "\n"


def _listed(program: Program, host: Host) -> dict[str, object]:
    data = source_bytes(program)
    command = without_run(command_line(program, sudo=host.ssh.sudo))
    return {"command": command, "length": len(data), "sha256": sha256(data).hexdigest()}


def authorized_key(public_key: str) -> str:
    """Return the line of authorized_keys for the controller's public key. Raises ValueError for other text."""
    words = public_key.strip().split(None, 2)
    if len(words) < 2 or not words[0].startswith(("ssh-", "ecdsa-", "sk-")) or "\n" in words[-1]:
        raise ValueError("this is not a public key such as ssh-ed25519 AAAA…")
    return f'restrict,command="{COMMAND}" {" ".join(words)}'
