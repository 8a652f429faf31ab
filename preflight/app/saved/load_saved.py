"""`--from`: saved facts, a support bundle, or a capture, which is parsed again; with the cluster to judge them by."""

from pathlib import Path

from preflight.app.options import DEFAULT_INVENTORY, DefaultPath
from preflight.app.saved import bundle_file
from preflight.app.saved.saved_facts import Saved
from preflight.app.saved.saved_report import of_report
from preflight.facts.documents import capture
from preflight.facts.documents import facts_document as document
from preflight.facts.round_trip import Seen
from preflight.facts.types import ClusterFacts
from preflight.inventory import limit, load, parse
from preflight.model.cluster import Cluster, Host
from preflight.model.errors import UsageError
from preflight.model.outcome import Outcome

_NAMED = 4  # failed checks that are named
_OWN = "its own inventory"


def load_saved(source: Path, inventory: Path = DEFAULT_INVENTORY, limited_to: str | None = None) -> Saved:
    """Return the facts of a file. Raise UsageError or InventoryError.

    A capture or a support bundle is judged by the inventory in it, unless --inventory names another.
    """
    if bundle_file.is_bundle(source):
        return _of_bundle(source, inventory, limited_to)
    text = document.text_of(source)
    if not capture.is_capture(text):
        cluster = load(inventory)
        hosts = _limited(cluster, limited_to)
        facts = document.load(text, str(source))
        return Saved(cluster, hosts, facts, f"facts are from {source}. No host was contacted.")
    site_capture = capture.load(text, str(source))
    own = isinstance(inventory, DefaultPath)
    cluster = parse(site_capture.inventory, Path(f"{source}: inventory")) if own else load(inventory)
    hosts = _limited(cluster, limited_to)
    answers = capture.read(site_capture, cluster, hosts)
    facts = ClusterFacts(
        {name: answer.facts if isinstance(answer, Seen) else answer for name, answer in answers.items()}
    )
    by = _OWN if own else str(inventory)
    note = f"facts are from {source}, captured {site_capture.taken}, judged by {by}. No host was contacted."
    return Saved(cluster, hosts, facts, note)


def _of_bundle(source: Path, inventory: Path, limited_to: str | None) -> Saved:
    members = bundle_file.read(source)
    if bundle_file.FACTS not in members:
        raise UsageError(f"{source} has no facts. Its bundle.json has the reason.")
    text = members.get(bundle_file.INVENTORY)
    own = isinstance(inventory, DefaultPath) and text is not None
    if own and text is not None:
        cluster = parse(text.decode("utf-8", "replace"), Path(f"{source}: {bundle_file.INVENTORY}"))
    else:
        cluster = load(inventory)
    hosts = _limited(cluster, limited_to)
    facts = document.load(members[bundle_file.FACTS], str(source))
    by = _OWN if own else str(inventory)
    note = f"facts are from {source}, judged by {by}. No host was contacted."
    if bundle_file.REPORT in members:
        note += f" {_verdict(members[bundle_file.REPORT], str(source))}"
    return Saved(cluster, hosts, facts, note)


def _limited(cluster: Cluster, limited_to: str | None) -> tuple[Host, ...]:
    return cluster.hosts if limited_to is None else limit(cluster, limited_to)


def _verdict(report: bytes, source: str) -> str:
    """Return how the run itself ended, since that also depends on pings and collectives, which facts lack."""
    run = of_report(report, source)
    failed = sorted({finding.check for finding in run.findings or () if finding.outcome is Outcome.FAIL})
    names = f" ({', '.join(failed[:_NAMED])}{' …' if len(failed) > _NAMED else ''})" if failed else ""
    return f"With its pings and tests, run {run.run} ended with {run.verdict}{names}. See its report.json."
