"""`preflight facts`: facts of hosts, printed or saved."""

import argparse
import json
import sys
from collections.abc import Iterator
from typing import Any

from preflight.app.files import refuse_place, write_whole
from preflight.app.session import session, this_machine
from preflight.cli.options import host_options
from preflight.cli.outline import outline
from preflight.facts.collect import FactsRequest, collect_answers
from preflight.facts.documents.facts_document import dump
from preflight.facts.round_trip import Seen
from preflight.facts.types import SECTIONS, ClusterFacts, HostFacts, Missing, Unreachable
from preflight.model.errors import UsageError
from preflight.model.text import printable


def _complete(facts: HostFacts | Unreachable) -> bool:
    """Return whether the host was reached, and no section is missing."""
    if isinstance(facts, Unreachable):
        return False
    return not any(isinstance(facts.section(name), Missing) for name in SECTIONS)


def _lines(hosts: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yield the document as text: each section's value, or the reason why it was not collected."""
    for name, sections in hosts.items():
        yield f"{name}:"
        for section, content in sections.items():
            if "error" in content:
                yield f"  {section}: error: {printable(content['error'])}"
            elif "skipped" in content:
                yield f"  {section}: skipped: {content['skipped']}"
            else:
                yield from outline({section: content.get("value", content)}, "  ")
            if "raw" in content:
                yield from outline({"raw": content["raw"]}, "    ")


def _look(args: argparse.Namespace) -> tuple[ClusterFacts, dict[str, dict[str, bytes]]]:
    """Return the hosts' facts, and the JSON that they were parsed from: host → collector section → JSON."""
    with this_machine() if args.local else session(host_options(args)) as s:
        answers = collect_answers(
            FactsRequest(s.cluster, s.hosts, deep=not args.basic), s.transport, progress=s.progress, limits=s.limits
        )
    facts = ClusterFacts(
        {name: answer.facts if isinstance(answer, Seen) else answer for name, answer in answers.items()}
    )
    raw = {
        name: {section: bytes(part) for section, part in answer.raw.items()}
        for name, answer in answers.items()
        if isinstance(answer, Seen) and not isinstance(answer.raw, Missing)
    }
    return facts, raw


def run(args: argparse.Namespace) -> int:
    _refuse_wrong_usage(args)
    facts, raw = _saved(args) if args.source else _look(args)
    _give(args, facts, dump(facts, raw if args.raw else None))
    for host_facts in facts.hosts.values():
        if isinstance(host_facts, Unreachable):
            print(printable(f"preflight: {host_facts.summary}. Fix: {host_facts.fix}"), file=sys.stderr)
    return 0 if all(map(_complete, facts.hosts.values())) else 3


def _refuse_wrong_usage(args: argparse.Namespace) -> None:
    """Raise UsageError, before any host is contacted."""
    if args.source and (args.local or args.basic or args.raw):
        raise UsageError("--from shows a file as it is. Remove --local, --basic and --raw.")
    if args.out:
        refuse_place(args.out, "--out")


def _saved(args: argparse.Namespace) -> tuple[ClusterFacts, dict[str, dict[str, bytes]]]:
    """Return saved facts, which are without the JSON that they were parsed from."""
    from preflight.app.saved.load_saved import load_saved  # few runs read a file, and it takes a while to load

    return load_saved(args.source, args.inventory, args.limit).facts, {}


def _give(args: argparse.Namespace, facts: ClusterFacts, text: str) -> None:
    """Print the facts, or write them to a file. `text` is their document."""
    if args.out:
        write_whole(args.out, text, "the facts")
        reached = sum(isinstance(host_facts, HostFacts) for host_facts in facts.hosts.values())
        count = f"{reached} hosts" if reached == len(facts.hosts) else f"{reached} of {len(facts.hosts)} hosts"
        print(f"facts of {count} written to {args.out}", file=sys.stderr)
    elif args.output == "json":
        print(text, end="")
    else:
        print("\n".join(_lines(json.loads(text)["hosts"])))
