"""Sides of `preflight diff`: a run of the history, by id or word, or a file that a run wrote."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from preflight.app.saved import bundle_file
from preflight.app.saved.named_run import LAST, PASSED, checking_run
from preflight.app.saved.saved_report import of_report
from preflight.facts.documents import capture, refused_document
from preflight.facts.documents import facts_document as document
from preflight.facts.documents.refused_document import KINDS, refusal, schema_of
from preflight.facts.redaction.redact import REDACTED
from preflight.facts.types import ClusterFacts, HostFacts, Os, Unreachable
from preflight.history.documents import FACTS, REPORT, kept
from preflight.history.runs import CheckRun
from preflight.model.errors import UsageError
from preflight.model.report import SCHEMA
from preflight.provision.journal import PastRun, past_runs
from preflight.report.diff import Side


def sides(words: list[str], inventory: Path) -> tuple[Side, Side]:
    """Return the two sides to compare. Raise UsageError or HistoryError.

    The default sides are the last run that passed and the newest run; one word replaces the first of them.
    """
    before, after = (words or [PASSED])[0], (words[1:] or [LAST])[0]
    return side(before, inventory), side(after, inventory)


def side(word: str, inventory: Path) -> Side:
    is_file = word not in (LAST, PASSED) and os.path.isfile(word)  # noqa: PTH113 - that one raises at a long name
    if is_file:
        return of_file(Path(word))
    return of_run(checking_run(word, inventory, also=", and no such file"))


def of_run(look: CheckRun) -> Side:
    text, report = kept(look.run, FACTS), kept(look.run, REPORT)
    checks = dict.fromkeys(look.checks, frozenset[str]())
    if report:  # only the report has the hosts that each check skipped
        checks |= of_report(report, f"the report of run {look.run}").checks
    return Side(
        f"run {look.run}",
        look.run,
        look.command,
        look.started,
        look.verdict,
        look.hosts,
        facts=document.load(text, f"the facts of run {look.run}") if text else None,
        findings=look.findings,
        checks=checks,
        figures=look.figures,
        next_step=look.next_step,
    )


def of_file(path: Path) -> Side:
    """Read a report, saved facts, a capture, or a support bundle. Raise UsageError for any other file."""
    if bundle_file.is_bundle(path):
        return _of_bundle(path)
    text = document.text_of(path)
    head = text[:200]
    if SCHEMA in head:
        return of_report(text, str(path))
    if capture.is_capture(text):
        from preflight.app.saved.load_saved import load_saved  # other files are read without all parsers

        saved = load_saved(path)
        return Side(str(path), hosts=tuple(saved.facts.hosts), facts=_without_ids(saved.facts))
    if document.SCHEMA in head:
        facts = document.load(text, str(path))
        return Side(str(path), hosts=tuple(facts.hosts), facts=facts)
    family = schema_of(text).partition("/")[0]
    if family in (version.partition("/")[0] for version in (SCHEMA, capture.SCHEMA, document.SCHEMA)):
        raise UsageError(refusal(str(path), family, f"{family}/1", text))
    kind = KINDS.get(family)
    description = kind.name if kind else "not a document of preflight"
    raise UsageError(
        f"{path}: this is {description}. diff compares reports, facts, captures and support bundles. "
        f"To write a report: {KINDS[refused_document.REPORT].command}"
    )


def _of_bundle(path: Path) -> Side:
    members = bundle_file.read(path)
    bundle_side = Side(str(path))
    if bundle_file.REPORT in members:
        bundle_side = of_report(members[bundle_file.REPORT], str(path))
    if bundle_file.FACTS in members:
        facts = document.load(members[bundle_file.FACTS], str(path))
        bundle_side = replace(bundle_side, facts=facts, hosts=bundle_side.hosts or tuple(facts.hosts))
    return bundle_side


def _without_ids(facts: ClusterFacts) -> ClusterFacts:
    """Replace machine ids by a constant, since each capture has different pseudonyms for them."""
    hosts: dict[str, HostFacts | Unreachable] = {}
    for name, host_facts in facts.hosts.items():
        hosts[name] = host_facts
        if isinstance(host_facts, HostFacts) and isinstance(host_facts.os, Os):
            hosts[name] = replace(host_facts, os=replace(host_facts.os, machine_id=REDACTED))
    return ClusterFacts(hosts)


def changed_between(before: Side, after: Side) -> Iterator[PastRun]:
    """Yield this machine's runs between the two sides that may have changed a common host, newest first."""
    hosts = set(before.hosts) & set(after.hosts)
    low, high = sorted((before.run, after.run))
    if low:
        yield from (past for past in past_runs() if low < past.run < high and past.touched and hosts & set(past.hosts))
