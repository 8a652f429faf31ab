"""Start scripts → what is wrong with them, in the order in which it stands there. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from preflight.launch.lint import rules_inventory, rules_job, rules_placeholders, rules_ranks, rules_values
from preflight.launch.lint.angle_brackets import FILL_IN
from preflight.launch.lint.interpreter import Flow
from preflight.launch.lint.starts import dashes, starts
from preflight.launch.lint.types import Fault, Script
from preflight.model.cluster import Cluster, Host


def read(path: Path, text: str) -> tuple[Script, list[Fault]]:
    """The script as it was meant, and what had to be taken otherwise than it is written."""
    flow = Flow(path).read(text)
    script, found = _script(flow)
    return script, [*flow.faults, *found, *rules_values.carriage_returns(script, text)]


def _script(flow: Flow, host: str = "") -> tuple[Script, list[Fault]]:
    """With those that it starts on other hosts. `host`: where it runs itself, if it is one of these."""
    commands, of_dashes = dashes(flow.path, tuple(flow.commands))
    begun, of_options = starts(flow.path, commands)
    remote = [_script(one, where) for where, one in flow.remote]
    script = Script(flow.path, commands, begun, flow.settings, host, tuple(one for one, _ in remote))
    return script, [*of_dashes, *of_options, *(fault for _, found in remote for fault in found)]


def faults(
    texts: Mapping[Path, str], files: Mapping[Path, str], cluster: Cluster | None, hosts: Sequence[Host]
) -> list[Fault]:
    """What is wrong with the scripts, each by itself and all together. `files`: the host files that could be read;
    `cluster`, `hosts`: the inventory's, where there is one."""
    found: list[Fault] = []
    left_in: list[Fault] = []
    scripts: list[Script] = []
    for path, text in texts.items():
        whole, first = read(path, text)
        whole = _counted(whole, files)
        found += first
        for script in (whole, *(one for one in whole.of_hosts if one is not whole)):
            found += _of_one(script, files, cluster, hosts)
            left_in += rules_placeholders.placeholders(script)
        scripts += whole.of_hosts
    found += rules_job.loopback(scripts, len(hosts))
    found += rules_job.shared_file(scripts, len(hosts), cluster.probe.shared_dir if cluster else "")
    if len(scripts) > 1:
        found += rules_job.between_scripts(scripts)
        found += rules_ranks.between_scripts(scripts)
    elif scripts:
        found += rules_ranks.first_rank(scripts[0])
    if cluster:
        found += rules_inventory.master_host(scripts, hosts)
    order = list(texts)
    return sorted(
        dict.fromkeys(_without_placeholders(found, left_in)),
        key=lambda it: (order.index(it.path) if it.path in texts else len(order), it.spot.line, it.spot.column),
    )


def _without_placeholders(found: Sequence[Fault], left_in: Sequence[Fault]) -> list[Fault]:
    """Return the faults and the placeholders among the values, each of these once. What is wrong with a placeholder
    besides is left out: it goes away with it."""
    brackets = {fault.found for fault in found if fault.found.startswith("<")}
    told = [fault for fault in left_in if fault.found not in brackets]
    texts = {fault.found for fault in told} | brackets
    rest = [it for it in found if it.do == FILL_IN or not {it.found, it.expected} & texts]
    return [*told, *rest]


def _of_one(
    script: Script, files: Mapping[Path, str], cluster: Cluster | None, hosts: Sequence[Host]
) -> Iterator[Fault]:
    for rule in (*rules_values.RULES_OF_ONE, *rules_job.RULES_OF_ONE, *rules_ranks.RULES_OF_ONE):
        yield from rule(script)
    for start, word in rules_inventory.host_files(script):
        path = beside(script.path, word.text)
        if path in files:
            yield from rules_inventory.host_file(script, start, word, path, files[path])
    if cluster:
        yield from rules_inventory.own_address(script, cluster, hosts)
        yield from rules_inventory.planned_ports(script, cluster)
        yield from rules_inventory.device_counts(script, hosts)


def _counted(script: Script, files: Mapping[Path, str]) -> Script:
    """With the number of hosts that its commands take of their host files."""
    texts = {id(it): files.get(beside(script.path, word.text)) for it, word in rules_inventory.host_files(script)}
    listed = {key: text for key, text in texts.items() if text is not None}
    return replace(
        script,
        starts=tuple(
            replace(it, listed=rules_inventory.taken(it, listed[id(it)])) if id(it) in listed else it
            for it in script.starts
        ),
    )


def beside(script: Path, name: str) -> Path:
    """A file that a script names, from the folder in which the script stands."""
    return script.parent / name


def host_files(texts: Mapping[Path, str]) -> list[Path]:
    """The host files that the scripts name."""
    return [
        beside(path, word.text)
        for path, text in texts.items()
        for _, word in rules_inventory.host_files(read(path, text)[0])
    ]
