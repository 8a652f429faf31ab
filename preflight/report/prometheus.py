"""The Report in Prometheus' text format, for node_exporter's textfile collector: no time stamps, base units.

https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from preflight import __version__
from preflight.model.finding import Finding
from preflight.model.measure import TestResult
from preflight.model.outcome import Outcome, worst_by
from preflight.model.report import Report
from preflight.model.text import printable
from preflight.report.slowest import slowest_groups

STATUS = {Outcome.PASS: 0, Outcome.WARN: 1, Outcome.FAIL: 2, Outcome.UNKNOWN: 3}  # the codes of Nagios

Sample = tuple[Mapping[str, str], float]


def prometheus(report: Report) -> str:
    """Return the metrics. Skipped checks have no sample. The worst of several findings about one device counts."""
    finished = datetime.fromisoformat(report.finished).timestamp()
    verdicts = Counter(line.verdict for line in report.hosts)
    metrics: tuple[tuple[str, str, Iterable[Sample]], ...] = (
        ("info", "Version and command of the last run.", [({"version": __version__, "command": report.command}, 1)]),
        ("last_run_timestamp_seconds", "Time at which the run ended.", [({}, finished)]),
        ("run_duration_seconds", "Duration of the run.", [({}, report.seconds)]),
        ("verdict", "Verdict of the run: 0 pass, 1 warn, 2 fail, 3 unknown.", [({}, STATUS[report.verdict])]),
        ("hosts", "Number of hosts by verdict.", [({"verdict": outcome}, verdicts[outcome]) for outcome in Outcome]),
        ("hosts_left_out", "Number of requested hosts that were left out.", [({}, len(report.left_out))]),
        ("check_status", "0 pass, 1 warn, 2 fail, 3 unknown. No host: the cluster.", _status(report.findings)),
        ("busbw_bytes_per_second", "Busbw of the slowest group, as in nccl-tests.", _busbw(report.tests)),
    )
    return "".join(line for name, help_, samples in metrics for line in _metric(f"preflight_{name}", help_, samples))


def _status(findings: Iterable[Finding]) -> Iterator[Sample]:
    worst = worst_by(((finding.check, finding.host or "", finding.device), finding.outcome) for finding in findings)
    for (check, host, device), outcome in worst.items():
        if outcome in STATUS:
            yield {"check": check, "host": host, "device": "" if device is None else str(device)}, STATUS[outcome]


def _busbw(tests: Iterable[TestResult]) -> Iterator[Sample]:
    for (op, dtype, size, scope), speed in slowest_groups(tests).items():
        yield {"op": op, "dtype": dtype, "size_bytes": str(size), "scope": scope.value}, speed * 1e9


def _metric(name: str, help_: str, samples: Iterable[Sample]) -> Iterator[str]:
    yield f"# HELP {name} {help_}\n# TYPE {name} gauge\n"
    for labels, value in samples:
        pairs = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        yield f"{name}{{{pairs}}} {value:.12g}\n" if pairs else f"{name} {value:.12g}\n"


def _escaped(text: str) -> str:
    return printable(text).replace("\\", "\\\\").replace('"', '\\"')
