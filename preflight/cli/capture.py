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
from preflight.cli.common import Session, add_inventory_arguments, refuse_place, session, this_machine, write_whole
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
    """A hosts.toml that the capture can be judged by."""
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
    """An inventory without the way to the hosts, without secrets and comments. Raises InventoryError."""
    from preflight.facts.documents.capture import clean
    from preflight.inventory import load, tables

    load(path)  # so that the tables are as they have to be
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

    taken = datetime.now(UTC)
    place = _place(args.out, taken)
    refuse_place(place, "--out")
    with this_machine() if args.local else session(args) as s:
        inventory = _inventory(args, s.cluster)
        seen = _look(args, s)
    facts = {name: it.facts for name, it in seen.items() if isinstance(it, Seen)}
    hosts = {name: it.answered if isinstance(it, Seen) else it for name, it in seen.items()}
    pseudonyms = None
    if args.anonymous:
        pseudonyms = Pseudonyms(secrets.token_bytes(32), known(s.cluster, facts, [inventory, *documents(hosts)]))
    strange = unknown(facts)
    capture = Capture(
        __version__,
        taken.isoformat(timespec="seconds"),
        args.anonymous,
        dump_inventory(pseudonyms.value(inventory) if pseudonyms else inventory),
        hosts,
        strange,
    )
    text = dump(capture, secrets.token_hex(16), pseudonyms)
    if pseudonyms:
        _reads_as_before(text, strange)
    write_whole(place, text, "the capture", 0o600)
    away = [it for it in seen.values() if not isinstance(it, Seen)]
    print("\n".join(_said(place, len(seen), strange, anonymous=args.anonymous)))
    for gone in away:
        print(printable(f"not in it: {gone.summary}; {gone.remedy}"))
    silent = any(isinstance(it, Seen) and isinstance(it.raw, Missing) for it in seen.values())
    return 3 if strange or away or silent else 0


def _reads_as_before(text: str, strange: tuple["Unknown", ...]) -> None:
    """Raises PreflightError where pseudonyms took a word from the answers or the inventory that it is read by."""
    from preflight.facts.documents.capture import load, read
    from preflight.facts.round_trip import Seen
    from preflight.facts.unknown_formats import unknown
    from preflight.inventory import parse
    from preflight.model.errors import PreflightError, UsageError

    try:
        capture = load(text, "the capture")
        cluster = parse(capture.inventory, Path("the capture"))
        found = read(capture, cluster, cluster.hosts)
    except UsageError as error:
        trouble = str(error)
    else:
        now = unknown({name: it.facts for name, it in found.items() if isinstance(it, Seen)})
        new = {it.command for it in now} - {it.command for it in strange}
        trouble = f"{', '.join(sorted(new))} would not be understood" if new else ""
    if trouble:
        raise PreflightError(
            f"nothing was written: a host's name is a word of the tools, too, so that with pseudonyms {trouble}; take "
            "a capture without --anonymous"
        )


def _said(place: Path, hosts: int, strange: tuple["Unknown", ...], *, anonymous: bool) -> Iterator[str]:
    from preflight.inventory import fold

    yield f"what {hosts} {'host' if hosts == 1 else 'hosts'} said is in {place}, which only you can read"
    if not strange:
        yield "every answer was understood"
    else:
        yield f"{len(strange)} {'format is' if len(strange) == 1 else 'formats are'} not understood:"
        for it in strange:
            answers = "1 answer" if it.answers == 1 else f"{it.answers} answers"
            yield printable(f"  {it.command}: {answers} of {fold(it.hosts)}: {it.error}")
        yield "report them with the file, so that a later version reads it" + (
            "" if anonymous else "; --anonymous makes one without your names and addresses"
        )
    yield f"preflight check --from {place} judges it, with what that version of preflight understands"
