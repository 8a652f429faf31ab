"""Keep what the vendors' tools print on a real site, as one file that any later version of preflight reads again.

  preflight capture --inventory hosts.toml
  preflight capture --inventory hosts.toml --anonymous --out /tmp/site.json
  preflight check --from preflight-capture-….json

Nothing is changed or written on the hosts. The file is its owner's alone. What looks like a password, key or token and
all serial numbers are taken out of it. With --anonymous machines, switches, accounts, domains and addresses have other
names, the same for the same. Public domains, such as nvidia.com and github.com, stay. Where a known name would be left,
nothing is written. Read the file before you give it away: it holds what tools and files say, also names of folders.
"""

import argparse
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from preflight import __version__
from preflight.app.session import Session, add_inventory_arguments, refuse_place, session, this_machine, write_whole
from preflight.model.cluster import Cluster
from preflight.report.text import printable

if TYPE_CHECKING:
    from preflight.facts.round_trip import Seen
    from preflight.facts.types import Unreachable
    from preflight.facts.unknown_formats import Unknown


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_inventory_arguments(parser)
    parser.add_argument("--local", action="store_true", help="look at this machine; no inventory is read")
    parser.add_argument(
        "--out", type=Path, default=Path(), metavar="PLACE", help="a folder, or the file to write (default: here)"
    )
    parser.add_argument("--anonymous", action="store_true", help="with pseudonyms for host names and addresses")


def _place(out: Path, taken: datetime) -> Path:
    return out / f"preflight-capture-{taken:%Y%m%d-%H%M%S}.json" if out.is_dir() else out


def _inventory(args: argparse.Namespace, cluster: Cluster) -> dict[str, Any]:
    """Return a hosts.toml that the capture can be judged by."""
    from preflight.facts.documents.capture import clean
    from preflight.inventory import explicit_document

    if not (args.local or args.anonymous):
        return inventory_to_give(args.inventory)
    document = explicit_document(cluster)
    if args.anonymous:
        document["cluster"]["name"] = "anonymous"
    cleaned: dict[str, Any] = clean(document)
    return cleaned


def inventory_to_give(path: Path) -> dict[str, Any]:
    """Return an inventory without the way to the hosts, secrets and comments. Raise InventoryError if it is invalid."""
    from preflight.facts.documents.capture import clean
    from preflight.inventory import load, tables

    load(path)  # validates the tables
    document = {key: table for key, table in tables(path).items() if key != "ssh"}
    document["hosts"] = [{key: value for key, value in host.items() if key != "ssh"} for host in document["hosts"]]
    cleaned: dict[str, Any] = clean(document)
    return cleaned


def _look(args: argparse.Namespace, s: Session) -> dict[str, "Seen | Unreachable"]:
    from preflight.facts.collect import all_sections, look

    return look(
        s.cluster,
        s.hosts,
        s.transport,
        progress=s.progress,
        ports=s.cluster.ports,
        pool=args.pool,
        sections=all_sections(s.cluster),
        deep=True,
    )


def run(args: argparse.Namespace) -> int:
    from preflight.facts.documents.capture import Capture, documents, dump
    from preflight.facts.redaction.identities import known
    from preflight.facts.redaction.pseudonyms import Pseudonyms
    from preflight.facts.round_trip import Seen
    from preflight.facts.types import Missing
    from preflight.facts.unknown_formats import unknown
    from preflight.inventory import dump as dump_inventory

    started = datetime.now(UTC)
    place = _place(args.out, started)
    refuse_place(place, "--out")
    with this_machine() if args.local else session(args) as s:
        inventory = _inventory(args, s.cluster)
        answers = _look(args, s)
    facts = {name: answer.facts for name, answer in answers.items() if isinstance(answer, Seen)}
    hosts = {name: answer.answered if isinstance(answer, Seen) else answer for name, answer in answers.items()}
    pseudonyms = None
    if args.anonymous:
        pseudonyms = Pseudonyms(secrets.token_bytes(32), known(s.cluster, facts, [inventory, *documents(hosts)]))
    unknown_formats = unknown(facts)
    capture = Capture(
        __version__,
        started.isoformat(timespec="seconds"),
        args.anonymous,
        dump_inventory(pseudonyms.value(inventory) if pseudonyms else inventory),
        hosts,
        unknown_formats,
    )
    text = dump(capture, secrets.token_hex(16), pseudonyms)
    if pseudonyms:
        _reads_as_before(text, unknown_formats)
    write_whole(place, text, "the capture", 0o600)
    hosts_away = [answer for answer in answers.values() if not isinstance(answer, Seen)]
    print("\n".join(_said(place, len(answers), unknown_formats, anonymous=args.anonymous)))
    for unreachable in hosts_away:
        print(printable(f"not in it: {unreachable.summary}; {unreachable.remedy}"))
    silent = any(isinstance(answer, Seen) and isinstance(answer.raw, Missing) for answer in answers.values())
    return 3 if unknown_formats or hosts_away or silent else 0


def _reads_as_before(text: str, strange: tuple["Unknown", ...]) -> None:
    """Raise PreflightError if the capture with pseudonyms is no longer understood.

    A pseudonym may have replaced a word that the parsers or the inventory need.
    """
    from preflight.facts.documents.capture import load, read
    from preflight.facts.round_trip import Seen
    from preflight.facts.unknown_formats import unknown
    from preflight.inventory import parse
    from preflight.model.errors import PreflightError, UsageError

    try:
        capture = load(text, "the capture")
        cluster = parse(capture.inventory, Path("the capture"))
        answers = read(capture, cluster, cluster.hosts)
    except UsageError as error:
        reason = str(error)
    else:
        now = unknown({name: item.facts for name, item in answers.items() if isinstance(item, Seen)})
        new = {item.command for item in now} - {item.command for item in strange}
        reason = f"{', '.join(sorted(new))} would not be understood" if new else ""
    if reason:
        raise PreflightError(
            f"nothing was written: a host's name is a word of the tools, too, so that with pseudonyms {reason}; take "
            "a capture without --anonymous"
        )


def _said(place: Path, hosts: int, strange: tuple["Unknown", ...], *, anonymous: bool) -> Iterator[str]:
    from preflight.inventory import fold

    yield f"what {hosts} {'host' if hosts == 1 else 'hosts'} said is in {place}, which only you can read"
    if not strange:
        yield "every answer was understood"
    else:
        yield f"{len(strange)} {'format is' if len(strange) == 1 else 'formats are'} not understood:"
        for item in strange:
            answers = "1 answer" if item.answers == 1 else f"{item.answers} answers"
            yield printable(f"  {item.command}: {answers} of {fold(item.hosts)}: {item.error}")
        yield "report them with the file, so that a later version reads it" + (
            "" if anonymous else "; --anonymous makes one without your names and addresses"
        )
    yield f"preflight check --from {place} judges it, with what that version of preflight understands"
