"""A job's allocation, as Slurm puts it into the environment (srun(1), sbatch(1); a Prolog has SLURM_NODELIST alone)."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain, groupby, repeat

from preflight.hostlists import names
from preflight.hostlists.listed import Listed, Source, whole_number
from preflight.inventory.errors import InventoryError

_NODES = ("SLURM_JOB_NODELIST", "SLURM_NODELIST")
ENVIRONMENT = "the environment"  # the name of a source that is no file, and has no lines that anybody could see
_LINE = re.compile(r"^(?:export |declare -x )?(SLURM_\w+)=(.*)$", re.MULTILINE)
_MOST_SLOTS = 4096
_TIMES = re.compile(r"(?P<slots>[0-9]{1,6})(?:\(x(?P<times>[0-9]{1,6})\))?")


def text_of(environment: Mapping[str, str]) -> str:
    """What `env` would print of Slurm's variables."""
    said = {name: value for name, value in environment.items() if name.startswith("SLURM_") and "\n" not in value}
    return "".join(f"{name}={value}\n" for name, value in said.items())


def read(source: Source) -> Listed:
    """The hosts of SLURM_JOB_NODELIST, with the devices that a variable for GPUs tells, else the tasks a node."""
    matches = {match[1]: match for match in _LINE.finditer(source.text)}
    said = {name: match[2].strip().strip("\"'") for name, match in matches.items()}
    said = {name: value for name, value in said.items() if value and value != "(null)"}
    key = next((name for name in _NODES if name in said), None)
    if key is None:
        raise InventoryError(_no_job(source.name))
    values = {name: _value(source, matches[name], said[name]) for name in said}
    nodes = names.read(values[key])
    cpus = _per_node(source, values, "SLURM_JOB_CPUS_PER_NODE", len(nodes.hosts))
    tasks = _per_node(source, values, "SLURM_TASKS_PER_NODE", len(nodes.hosts))
    slots: list[int] | None = None
    notes: tuple[str, ...] = ("the CPUs a node were not taken for devices",) if cpus and not tasks else ()
    product = ""
    if gpus := _gpus(said):
        variable, number = gpus
        slots, product = [number] * len(nodes.hosts), "nvidia"
        notes = (f"devices of every host as {variable} tells",)
    elif tasks and set(tasks) != {1}:
        slots = tasks
    elif tasks:
        notes = ("one task a node was not taken for one device, since launchers are started like that",)
    hosts = nodes.hosts
    if slots:
        hosts = tuple(replace(host, slots=count) for host, count in zip(hosts, slots, strict=True))
    cluster = said.get("SLURM_CLUSTER_NAME", "")
    return Listed(hosts, cluster, product, slots_are_devices=bool(product), notes=(*nodes.notes, *notes))


def _no_job(name: str) -> str:
    """Return the sentence about variables without a list of nodes, and how to come by them."""
    list_them = "name a file with the hosts: preflight inventory import hosts.txt -o hosts.toml"
    if name == ENVIRONMENT:
        why = f"{_NODES[0]} is not set, so this is no job of Slurm; run the command in a job (salloc, sbatch)"
    else:
        why = f"{name}: it has no line {_NODES[0]}=…; write it in a job of Slurm (env | grep ^SLURM_ > slurm.env)"
    return f"{why}, or {list_them}"


def write(listed: Listed) -> str:
    """Lines for `source`, with `export`."""
    said = {"SLURM_JOB_NODELIST": names.write_slurm(listed).strip(), "SLURM_JOB_NUM_NODES": str(len(listed.hosts))}
    if all(host.slots for host in listed.hosts):
        runs = [(slots, len(list(run))) for slots, run in groupby(host.slots for host in listed.hosts)]
        said["SLURM_TASKS_PER_NODE"] = ",".join(f"{slots}(x{n})" if n > 1 else f"{slots}" for slots, n in runs)
    return "".join(f"export {name}='{value}'\n" for name, value in said.items())


def _gpus(said: Mapping[str, str]) -> tuple[str, int] | None:
    """SLURM_GPUS_PER_NODE may be `a100:8`, SLURM_GPUS_ON_NODE is this node's number."""
    for variable in ("SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE"):
        if number := whole_number(said.get(variable, "").rpartition(":")[2], 1, _MOST_SLOTS):
            return variable, number
    return None


def _value(source: Source, match: re.Match[str], value: str) -> Source:
    """A variable's value alone, in the place where it stands: blanks are in the place of all else."""
    if source.name == ENVIRONMENT:
        return Source(f"{source.name}: {match[1]}", value)
    at = source.text.index(value, match.start(2))
    line = source.text.count("\n", 0, at)
    return Source(source.name, "\n" * line + " " * (at - match.start()) + value)


def _per_node(source: Source, values: Mapping[str, Source], key: str, nodes: int) -> list[int] | None:
    """`8(x3),4` → [8, 8, 8, 4]"""
    if key not in values:
        return None
    runs = list(_runs(values[key]))
    if sum(times for _, times in runs) != nodes:
        raise InventoryError(f"{source.name}: {key} speaks of {sum(n for _, n in runs)} nodes; there are {nodes}")
    return list(chain.from_iterable(repeat(slots, times) for slots, times in runs))


def _runs(source: Source) -> Iterator[tuple[int, int]]:
    for item in re.finditer(r"[^,\s]+", source.text):
        match = _TIMES.fullmatch(item[0])
        if match:
            yield int(match["slots"]), int(match["times"] or 1)
        else:
            source.wrong(item.start(), f"{item[0][:40]!r} is not like 8 or 8(x3)")
