"""A job's allocation in Slurm's environment variables (srun(1), sbatch(1)). A Prolog has SLURM_NODELIST alone."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, groupby, repeat

from preflight.hostlists import names
from preflight.hostlists.host_list import HostList, ListSource, whole_number
from preflight.inventory.errors import InventoryError

ENVIRONMENT = "the environment"  # the name of a source that is no file, and so has no lines to name in errors
_NODES = ("SLURM_JOB_NODELIST", "SLURM_NODELIST")
_LINE = re.compile(r"^(?:export |declare -x )?(SLURM_\w+)=(.*)$", re.MULTILINE)
_MOST_SLOTS = 4096
_RUN = re.compile(r"(?P<slots>[0-9]{1,6})(?:\(x(?P<times>[0-9]{1,6})\))?")


def text_of(environment: Mapping[str, str]) -> str:
    """Return Slurm's variables as `env` prints them."""
    return "".join(
        f"{name}={value}\n" for name, value in environment.items() if name.startswith("SLURM_") and "\n" not in value
    )


def read(source: ListSource) -> HostList:
    """Read the hosts of SLURM_JOB_NODELIST, with slots from a variable for GPUs, else from the tasks a node."""
    assignments = _assignments(source.text)
    variables = {name: text for name, (_, text) in assignments.items()}
    values = {name: _value(source, *assignment) for name, assignment in assignments.items()}
    nodes_variable = next((name for name in _NODES if name in values), None)
    if nodes_variable is None:
        raise InventoryError(_no_job(source.name))
    host_list = names.read(values[nodes_variable])
    count = len(host_list.hosts)
    cpus = _per_node(source, values, "SLURM_JOB_CPUS_PER_NODE", count)
    tasks = _per_node(source, values, "SLURM_TASKS_PER_NODE", count)
    gpus = _gpus(variables)
    slots, note = ([gpus[0]] * count, gpus[1]) if gpus else _task_slots(count, tasks, cpus)
    return HostList(
        tuple(replace(host, slots=n) for host, n in zip(host_list.hosts, slots, strict=True)),
        variables.get("SLURM_CLUSTER_NAME", ""),
        "nvidia" if gpus else "",
        slots_are_devices=gpus is not None,
        notes=(*host_list.notes, *filter(None, [note])),
    )


def _assignments(text: str) -> dict[str, tuple[re.Match[str], str]]:
    """Return the line and the value without quotes of each variable that has a value. The last line counts."""
    matches = {match[1]: match for match in _LINE.finditer(text)}
    values = {name: match[2].strip().strip("\"'") for name, match in matches.items()}
    return {name: (matches[name], value) for name, value in values.items() if value not in ("", "(null)")}


def _task_slots(nodes: int, tasks: list[int] | None, cpus: list[int] | None) -> tuple[Sequence[int | None], str]:
    """Return the slots of every node, and a note on tasks or CPUs that are no slots."""
    if not tasks:
        return [None] * nodes, "CPUs per node were not counted as devices" if cpus else ""
    if set(tasks) == {1}:
        return [None] * nodes, "one task per node was not counted as one device, since launchers are started like this"
    return tasks, ""


def write(host_list: HostList) -> str:
    """Return `export` lines for `source`."""
    variables = {
        "SLURM_JOB_NODELIST": names.write_slurm(host_list).strip(),
        "SLURM_JOB_NUM_NODES": str(len(host_list.hosts)),
    }
    if all(host.slots for host in host_list.hosts):
        runs = [(slots, len(list(run))) for slots, run in groupby(host.slots for host in host_list.hosts)]
        variables["SLURM_TASKS_PER_NODE"] = ",".join(f"{slots}(x{n})" if n > 1 else f"{slots}" for slots, n in runs)
    return "".join(f"export {name}='{value}'\n" for name, value in variables.items())


def _value(source: ListSource, match: re.Match[str], value: str) -> ListSource:
    """Return a variable's value in its place, so that errors have its line and column: blanks replace the rest."""
    if source.name == ENVIRONMENT:
        return ListSource(f"{source.name}: {match[1]}", value)
    at = source.text.index(value, match.start(2))
    line = source.text.count("\n", 0, at)
    return ListSource(source.name, "\n" * line + " " * (at - match.start()) + value)


def _no_job(name: str) -> str:
    """Return the sentence about variables without a list of nodes, and how to get them."""
    if name == ENVIRONMENT:
        why = f"{_NODES[0]} is not set, so this is not a Slurm job. Run the command in a job (salloc, sbatch)"
    else:
        why = f"{name}: there is no line {_NODES[0]}=…. Write the file in a Slurm job (env | grep ^SLURM_ > slurm.env)"
    return f"{why}, or import a file with the hosts: preflight inventory import hosts.txt -o hosts.toml"


def _gpus(variables: Mapping[str, str]) -> tuple[int, str] | None:
    """Return the GPUs of a node, and a note on their variable. SLURM_GPUS_PER_NODE may be `a100:8`."""
    for variable in ("SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE"):
        if number := whole_number(variables.get(variable, "").rpartition(":")[2], 1, _MOST_SLOTS):
            return number, f"the number of devices comes from {variable}"
    return None


def _per_node(source: ListSource, values: Mapping[str, ListSource], key: str, nodes: int) -> list[int] | None:
    """Parse a value for each node: `8(x3),4` → [8, 8, 8, 4]. Return None if it is not set."""
    if key not in values:
        return None
    runs = list(_runs(values[key]))
    count = sum(times for _, times in runs)
    if count != nodes:
        raise InventoryError(f"{source.name}: {key} is for {count} nodes, but there are {nodes}")
    return list(chain.from_iterable(repeat(slots, times) for slots, times in runs))


def _runs(source: ListSource) -> Iterator[tuple[int, int]]:
    for item in re.finditer(r"[^,\s]+", source.text):
        match = _RUN.fullmatch(item[0])
        if match:
            yield int(match["slots"]), int(match["times"] or 1)
        else:
            source.fail(item.start(), f"{item[0][:40]!r} should be like 8 or 8(x3)")
