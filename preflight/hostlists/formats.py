"""The formats: reader, writer and fields of each, and the recognition of a text's format."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from preflight.hostlists import (
    ansible,
    clustershell,
    clustershell_yaml,
    host_file,
    names,
    rank_table,
    slurm_environment,
    ssh_config,
)
from preflight.hostlists.host_list import HostList, ListSource
from preflight.inventory.errors import InventoryError

_SSH_FIELDS = ("address", "user", "port", "key", "bastion")
_OPEN_MPI = r"[^\s:@]+@[^\s:=]+$|\S+\s+(slots|max_slots|max-slots|user|username)\s*="

Lines = Sequence[str]  # of a text, without comments and trailing blanks


@dataclass(frozen=True)
class Format:
    """A format of host lists.

    `looks` recognizes its lines. `holds` names the fields of ListedHost that it has a place for. `use` is a command for
    a file {}, or {whole}, its absolute path, and {host}, its first host. `groups`: a list may have groups to choose
    from. `by_address`: hosts are written by their addresses.
    """

    what: str
    read: Callable[[ListSource], HostList]
    write: Callable[[HostList], str]
    looks: Callable[[Lines], bool]
    use: str
    holds: frozenset[str] = frozenset()
    groups: bool = False
    by_address: bool = False


def _every(pattern: str) -> Callable[[Lines], bool]:
    form = re.compile(pattern)
    return lambda lines: all(form.fullmatch(line.strip()) for line in lines)


def _some(pattern: str) -> Callable[[Lines], bool]:
    form = re.compile(pattern)
    return lambda lines: any(form.match(line.strip()) for line in lines)


def _json(*keys: str) -> Callable[[Lines], bool]:
    return lambda lines: _brace(lines) and any(f'"{key}"' in line for key in keys for line in lines)


def _ansible(lines: Lines) -> bool:
    return _json("_meta", "hosts", "children")(lines) or _not_json(lines)


def _not_json(lines: Lines) -> bool:
    """Recognize an Ansible inventory that Ansible has to turn into JSON first. It is in no other format."""
    return not _brace(lines) and (ansible.is_ini(lines) or ansible.is_yaml(lines))


def _brace(lines: Lines) -> bool:
    """Recognize JSON, also below a line or two that `kubectl describe` has written above."""
    return any(line.lstrip().startswith("{") for line in lines[:3])


def _option(lines: Lines) -> bool:
    """Recognize a:8,b:8, or -H and one or more of them."""
    words = host_file.OPTION.sub("", lines[0], count=1).strip()
    begins = words != lines[0].strip()
    return len(lines) == 1 and (begins or "," in words) and ":" in words and not re.search(r"[\s\[\]{=]", words)


def _hydra(lines: Lines) -> bool:
    return _some(r"[^\s:]+:\d")(lines) and _every(r"[^\s:,={\[]+(:\d[^\s,]*)?(\s+\w+=\S+)*")(lines)


def _yaml(lines: Lines) -> bool:
    """Recognize a name alone, and an indented line below."""
    first, second, *_ = (*lines[lines[0] == "---" :], "", "")
    return first.endswith(":") and first == first.lstrip() and second != second.lstrip()


def _groups(lines: Lines) -> bool:
    return not _yaml(lines) and _every(r"[\w.-]+:(\s.*|\D.*)?")(lines)


FORMATS = {
    "openmpi": Format(
        "Open MPI and Horovod: node01 slots=8",
        host_file.read_open_mpi,
        host_file.write_open_mpi,
        _some(_OPEN_MPI),
        "mpirun --hostfile {} hostname",
        frozenset({"slots", "user"}),
    ),
    "deepspeed": Format(
        "DeepSpeed: node01 slots=8",
        host_file.read_deepspeed,
        host_file.write_deepspeed,
        _every(r"\S+\s+slots=\S*"),
        "deepspeed --hostfile {} train.py",
        frozenset({"slots"}),
    ),
    "hydra": Format(
        "MPICH and Intel MPI: node01:8",
        host_file.read_hydra,
        host_file.write_hydra,
        _hydra,
        "mpiexec -f {} hostname",
        frozenset({"slots", "user"}),
    ),
    "horovod": Format(
        "-H of horovodrun, perseusrun, mpirun: node01:8,node02:8",
        host_file.read_option,
        host_file.write_option,
        _option,
        'horovodrun -H "$(cat {})" hostname',
        frozenset({"slots"}),
    ),
    "names": Format(
        "host names, one per line, for pdsh and others",
        names.read,
        names.write_lines,
        _every(r"[^\s:=@{}]*|([0-9A-Fa-f]*:){2,}[0-9A-Fa-f.]*"),
        "pdsh -w ^{} hostname",
    ),
    "slurm": Format(
        "Slurm's node list: node[01-16,20]",
        names.read,
        names.write_slurm,
        _every(r"[^:=@{}]*[\[\],][^:=@{}]*"),
        'srun --nodelist "$(cat {})" hostname',
    ),
    "slurm-env": Format(
        "a Slurm job's environment: SLURM_JOB_NODELIST=…",
        slurm_environment.read,
        slurm_environment.write,
        _some(r"(.*\s)?SLURM_(JOB_)?NODELIST="),
        ". {whole}",
        frozenset({"slots"}),
    ),
    "clustershell": Format(
        "ClusterShell's groups: all: node[01-16]",
        clustershell.read,
        clustershell.write,
        _groups,
        "install -m 644 {} /etc/clustershell/groups.d/local.cfg",
        groups=True,
    ),
    "clustershell-yaml": Format(
        "ClusterShell's groups in YAML",
        clustershell_yaml.read,
        clustershell_yaml.write,
        _yaml,
        "install -m 644 {} /etc/clustershell/groups.d/cluster.yaml",
        groups=True,
    ),
    "ansible": Format(
        "Ansible: what ansible-inventory --list prints",
        ansible.read,
        ansible.write,
        _ansible,
        "ansible -i {} all -m ping",
        frozenset({"slots", "sudo", *_SSH_FIELDS}),
        groups=True,
    ),
    "ssh-config": Format(
        "ssh_config",
        ssh_config.read,
        ssh_config.write,
        _some(r"(?i)(host|match|include)(\s+(?!slots|max)|\s*=)\s*\S"),
        "ssh -F {} {host}",
        frozenset(_SSH_FIELDS),
    ),
    "rank-table": Format(
        "rank tables 1.0 and 1.2, hccl.json of MindCluster",
        rank_table.read,
        rank_table.write,
        _json("server_list", "group_list", "rank_list"),
        "export RANK_TABLE_FILE={whole}",
        frozenset({"address", "slots", "device_ips"}),
        by_address=True,
    ),
}


def read(source: ListSource, name: str = "") -> tuple[str, HostList]:
    """Return the format's name and the hosts of the text.

    Without a name it is the only format that can read the text, or the first of several that read the same hosts.
    Raises InventoryError.
    """
    if name:
        return name, FORMATS[name].read(source)
    is_json = source.text.lstrip().startswith("{")
    lines = [source.text] if is_json else [line.text for line in source.lines(indented=True)]
    if not lines:
        raise InventoryError(f"{source.name}: the file has no hosts. Use another file, or set its format with --from")
    if _not_json(lines):
        return "ansible", ansible.read(source)
    lists, errors = _try_formats(source, lines)
    if len({host_list.hosts for host_list in lists.values()}) == 1:
        return next(iter(lists.items()))
    if lists:
        raise InventoryError(f"{source.name}: the format may be {' or '.join(lists)}. Set it with --from")
    if errors:
        raise errors[0]
    raise InventoryError(f"{source.name}: unknown format. Set it with --from to one of {', '.join(FORMATS)}")


def _try_formats(source: ListSource, lines: Sequence[str]) -> tuple[dict[str, HostList], list[InventoryError]]:
    """Read the text in every format that it looks like. Return the lists by format, and the errors of the others."""
    lists: dict[str, HostList] = {}
    errors: list[InventoryError] = []
    for name, form in FORMATS.items():
        if form.looks(lines):
            try:
                lists[name] = form.read(source)
            except InventoryError as error:
                errors.append(error)
    return lists, errors
