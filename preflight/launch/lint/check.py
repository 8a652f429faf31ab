"""Faults of start scripts, in the order of their places. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from preflight.launch.lint import rules_inventory, rules_job, rules_placeholders, rules_ranks, rules_values
from preflight.launch.lint.angle_brackets import FILL_IN
from preflight.launch.lint.interpreter import Flow
from preflight.launch.lint.starts import dashes, starts
from preflight.launch.lint.types import JobStart, Script, ScriptFault
from preflight.model.cluster import Cluster, Host


def read(path: Path, text: str) -> tuple[Script, list[ScriptFault]]:
    """Return the script as its author meant it, and the slips that were corrected for that."""
    flow = Flow(path).read(text)
    script, slips = _script(flow)
    return script, [*flow.faults, *slips, *rules_values.carriage_returns(script, text)]


def _script(flow: Flow, host: str = "") -> tuple[Script, list[ScriptFault]]:
    """Return a script with those that it starts on other hosts. `host` is its own, if ssh starts it."""
    commands, of_dashes = dashes(flow.path, flow.commands)
    jobs, of_options = starts(flow.path, commands)
    remote = [_script(inner, where) for where, inner in flow.remote]
    script = Script(flow.path, commands, jobs, flow.settings, host, tuple(inner for inner, _ in remote))
    return script, [*of_dashes, *of_options, *(slip for _, slips in remote for slip in slips)]


def faults(
    texts: Mapping[Path, str], files: Mapping[Path, str], cluster: Cluster | None, hosts: Sequence[Host]
) -> list[ScriptFault]:
    """Return the faults of the scripts, each by itself and all together.

    `files` has the readable host files. `cluster` and `hosts` are the inventory's, where there is one.
    """
    context = _Context(files, cluster, hosts)
    in_order: list[ScriptFault] = []
    placeholders: list[ScriptFault] = []
    scripts: list[Script] = []
    for path, text in texts.items():
        whole, slips = read(path, text)
        whole = context.with_counts(whole)
        in_order += slips
        for script in (whole, *(inner for inner in whole.of_hosts if inner is not whole)):
            in_order += context.of_one(script)
            placeholders += rules_placeholders.placeholders(script)
        scripts += whole.of_hosts
    in_order += context.of_all(scripts)
    order = {path: number for number, path in enumerate(texts)}
    return sorted(
        dict.fromkeys(_without_placeholders(in_order, placeholders)),
        key=lambda fault: (order.get(fault.path, len(order)), fault.spot.line, fault.spot.column),
    )


def _without_placeholders(faults: Sequence[ScriptFault], placeholders: Sequence[ScriptFault]) -> list[ScriptFault]:
    """Return the faults and the placeholders among the values, each of these once.

    Other faults of a placeholder are dropped, since they disappear with it.
    """
    in_brackets = {fault.found for fault in faults if fault.found.startswith("<")}
    values = [fault for fault in placeholders if fault.found not in in_brackets]
    texts = {fault.found for fault in values} | in_brackets
    return [*values, *(fault for fault in faults if fault.do == FILL_IN or not {fault.found, fault.expected} & texts)]


@dataclass(frozen=True)
class _Context:
    """The host files and the inventory that scripts are compared with."""

    files: Mapping[Path, str]
    cluster: Cluster | None
    hosts: Sequence[Host]

    def of_one(self, script: Script) -> Iterator[ScriptFault]:
        for rule in (*rules_values.RULES_OF_ONE, *rules_job.RULES_OF_ONE, *rules_ranks.RULES_OF_ONE):
            yield from rule(script)
        for start, word in rules_inventory.host_files(script):
            path = beside(script.path, word.text)
            if path in self.files:
                yield from rules_inventory.host_file(script, start, word, path, self.files[path])
        if self.cluster:
            yield from rules_inventory.own_address(script, self.cluster, self.hosts)
            yield from rules_inventory.planned_ports(script, self.cluster)
            yield from rules_inventory.device_counts(script, self.hosts)

    def of_all(self, scripts: Sequence[Script]) -> Iterator[ScriptFault]:
        yield from rules_job.loopback(scripts, len(self.hosts))
        shared = self.cluster.probe.shared_dir if self.cluster else ""
        yield from rules_job.shared_file(scripts, len(self.hosts), shared)
        if len(scripts) > 1:
            yield from rules_job.between_scripts(scripts)
            yield from rules_ranks.between_scripts(scripts)
        elif scripts:
            yield from rules_ranks.first_rank(scripts[0])
        if self.cluster:
            yield from rules_inventory.master_host(scripts, self.hosts)

    def with_counts(self, script: Script) -> Script:
        """Return the script with the number of hosts that each command takes of its host file."""
        texts = {
            id(start): self.files[path]
            for start, word in rules_inventory.host_files(script)
            if (path := beside(script.path, word.text)) in self.files
        }

        def counted(start: JobStart) -> JobStart:
            text = texts.get(id(start))
            return start if text is None else replace(start, listed=rules_inventory.taken(start, text))

        return replace(script, starts=tuple(map(counted, script.starts)))


def beside(script: Path, name: str) -> Path:
    """Return the path of a file that a script names, from the script's folder."""
    return script.parent / name


def host_files(texts: Mapping[Path, str]) -> list[Path]:
    """Return the host files that the scripts name."""
    return [
        beside(path, word.text)
        for path, text in texts.items()
        for _, word in rules_inventory.host_files(read(path, text)[0])
    ]
