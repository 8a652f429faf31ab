"""`preflight capture`: the output of the hosts' tools, in one file without secrets."""

import argparse
import secrets
import shlex
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from preflight import __version__
from preflight.app.files import refuse_place, write_whole
from preflight.app.session import Session, session, this_machine
from preflight.cli.options import host_options
from preflight.facts.collect import FactsRequest, all_sections, collect_answers
from preflight.facts.documents.capture import Capture, clean, documents, dump
from preflight.facts.documents.capture import load as load_capture
from preflight.facts.documents.capture import read as read_capture
from preflight.facts.redaction.identities import known
from preflight.facts.redaction.pseudonyms import Pseudonyms
from preflight.facts.round_trip import Seen
from preflight.facts.types import Missing, Unreachable
from preflight.facts.unknown_formats import UnknownFormat, unknown
from preflight.inventory import dump as dump_inventory
from preflight.inventory import explicit_document, fold, load, parse, tables
from preflight.model.cluster import Cluster
from preflight.model.errors import PreflightError, UsageError
from preflight.model.text import printable


def _place(out: Path, taken: datetime) -> Path:
    return out / f"preflight-capture-{taken:%Y%m%d-%H%M%S}.json" if out.is_dir() else out


def _inventory(args: argparse.Namespace, cluster: Cluster) -> dict[str, Any]:
    """Return a hosts.toml that the capture can be judged by."""
    if not (args.local or args.anonymous):
        return inventory_to_give(args.inventory)
    document = explicit_document(cluster)
    if args.anonymous:
        document["cluster"]["name"] = "anonymous"
    cleaned: dict[str, Any] = clean(document)
    return cleaned


def inventory_to_give(path: Path) -> dict[str, Any]:
    """Return an inventory without the way to the hosts, secrets and comments. Raise InventoryError if it is invalid."""
    load(path)  # validates the tables
    document = {key: table for key, table in tables(path).items() if key != "ssh"}
    document["hosts"] = [{key: value for key, value in host.items() if key != "ssh"} for host in document["hosts"]]
    cleaned: dict[str, Any] = clean(document)
    return cleaned


def _look(s: Session) -> dict[str, Seen | Unreachable]:
    return collect_answers(
        FactsRequest(s.cluster, s.hosts, sections=all_sections(s.cluster), deep=True),
        s.transport,
        progress=s.progress,
        limits=s.limits,
    )


def run(args: argparse.Namespace) -> int:
    started = datetime.now(UTC)
    place = _place(args.out, started)
    refuse_place(place, "--out")
    with this_machine() if args.local else session(host_options(args)) as s:
        inventory = _inventory(args, s.cluster)
        answers = _look(s)
    facts = {name: answer.facts for name, answer in answers.items() if isinstance(answer, Seen)}
    hosts = {name: answer.answered if isinstance(answer, Seen) else answer for name, answer in answers.items()}
    pseudonyms = None
    if args.anonymous:
        pseudonyms = Pseudonyms(secrets.token_bytes(32), known(s.cluster, facts, [inventory, *documents(hosts)]))
        inventory = pseudonyms.value(inventory)
    unknown_formats = unknown(facts)
    created = started.isoformat(timespec="seconds")
    capture = Capture(__version__, created, args.anonymous, dump_inventory(inventory), hosts, unknown_formats)
    text = dump(capture, secrets.token_hex(16), pseudonyms)
    if pseudonyms:
        _reads_as_before(text, unknown_formats)
    write_whole(place, text, "the capture", 0o600)
    summary = _summary(place, len(answers), unknown_formats, anonymous=args.anonymous)
    print("\n".join([*summary, *_missing(answers.values())]))
    return 3 if unknown_formats or not all(map(_has_sections, answers.values())) else 0


def _missing(answers: Iterable[Seen | Unreachable]) -> Iterator[str]:
    """Yield a sentence on each host that was not reached."""
    for answer in answers:
        if isinstance(answer, Unreachable):
            yield printable(f"not included: {answer.summary}. Fix: {answer.fix}")


def _has_sections(answer: Seen | Unreachable) -> bool:
    """Return whether the host was reached and sent its sections."""
    return isinstance(answer, Seen) and not isinstance(answer.raw, Missing)


def _reads_as_before(text: str, unknown_formats: tuple[UnknownFormat, ...]) -> None:
    """Raise PreflightError if the capture with pseudonyms is no longer understood.

    A pseudonym may have replaced a word that the parsers or the inventory need.
    """
    try:
        capture = load_capture(text, "the capture")
        cluster = parse(capture.inventory, Path("the capture"))
        answers = read_capture(capture, cluster, cluster.hosts)
    except UsageError as error:
        reason = str(error)
    else:
        now = unknown({name: item.facts for name, item in answers.items() if isinstance(item, Seen)})
        new = {item.command for item in now} - {item.command for item in unknown_formats}
        reason = f"preflight could not parse {', '.join(sorted(new))}" if new else ""
    if reason:
        raise PreflightError(
            f"nothing was written. With pseudonyms {reason}, since a host name is also a word in the tools' output. "
            "Run the command without --anonymous."
        )


def _summary(place: Path, hosts: int, unknown_formats: tuple[UnknownFormat, ...], *, anonymous: bool) -> Iterator[str]:
    yield f"saved the output of {hosts} {'host' if hosts == 1 else 'hosts'} in {place}, readable by you alone"
    if not unknown_formats:
        yield "all output was parsed"
    else:
        yield f"{len(unknown_formats)} unknown {'format' if len(unknown_formats) == 1 else 'formats'}:"
        for item in unknown_formats:
            answers = "1 output" if item.answers == 1 else f"{item.answers} outputs"
            yield printable(f"  {item.command}: {answers} on {fold(item.hosts)}: {item.error}")
        yield "Please report them with the file." + (
            "" if anonymous else " --anonymous replaces your host names and addresses."
        )
    yield f"next: preflight check --from {shlex.quote(str(place))}"
