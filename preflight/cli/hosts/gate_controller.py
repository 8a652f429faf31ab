"""`preflight gate controller`: the nodes of a Slurm job, proved before it starts."""

import argparse
import json
import os
from dataclasses import replace
from pathlib import Path

from preflight.app.files import write_whole
from preflight.bounded_file import read_bounded
from preflight.gate import controller, forced_command
from preflight.inventory import load
from preflight.model.errors import UsageError
from preflight.model.outcome import Outcome
from preflight.transport import Options, open_transport

_LARGEST_KEY = 1 << 16  # bytes


def run(args: argparse.Namespace) -> int:
    if args.authorize:
        return _authorize(args)
    environment = {"SLURM_JOB_NODELIST": args.nodes} if args.nodes else os.environ
    cluster = load(args.inventory)
    if args.key and not Path(args.key).is_file():
        raise UsageError(f"--key {args.key}: no such file")
    hosts_of_nodes, strange = controller.hosts_of(cluster, controller.nodes_of_job(environment))
    hosts = list(hosts_of_nodes.values())
    if args.key:
        hosts = [replace(host, ssh=replace(host.ssh, key=str(Path(args.key).absolute()))) for host in hosts]
    if hosts:
        with open_transport(cluster, Options(notice=lambda _: None)) as transport:
            findings, observations = controller.prove(cluster, hosts, transport, args.seconds)
        proof = controller.judge(findings, observations, hosts_of_nodes, strange)
    else:
        proof = controller.judge((), (), hosts_of_nodes, strange)
    print(json.dumps(controller.document(proof, cluster)))
    return 1 if proof.bad else 3 if proof.outcome is Outcome.UNKNOWN else 0


def _authorize(args: argparse.Namespace) -> int:
    """Write the line of authorized_keys, and for each host the list of programs that the key may start."""
    cluster = load(args.inventory)
    if not args.key:
        raise UsageError("--authorize needs --key FILE. The public key must be in FILE.pub.")
    public = Path(f"{args.key}.pub")
    try:
        line = forced_command.authorized_key(read_bounded(public, _LARGEST_KEY).decode("utf-8", "replace"))
        for host in cluster.hosts:
            (args.authorize / host.name).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--authorize: {error.filename}: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"{public}: {error}") from None
    for host in cluster.hosts:
        path = args.authorize / host.name / Path(forced_command.PLACE).name
        write_whole(path, forced_command.allowed(cluster, host), "the list of programs")
    write_whole(args.authorize / "authorized_keys", line + "\n", "the key's line")
    print(f"{args.authorize}/authorized_keys: append it to authorized_keys of the login user on each host")
    print(f"{path.parent.parent}/HOST/{path.name}: copy it to {forced_command.PLACE} on that host, owned by root")
    return 0
