"""Plain names, one or more a line (pdsh, PBS), or a node list of Slurm: both are read alike. node[01-16,20]."""

from collections import Counter

from preflight.hostlists import slurm_nodelist
from preflight.hostlists.host_list import HostList, ListedHost, ListSource, TextError
from preflight.inventory.hostset import MOST_HOSTS


def read(source: ListSource) -> HostList:
    """Read names between commas, blanks and line breaks, without comments. A repeated host counts once."""
    counts: Counter[str] = Counter()
    from_ranges = 0  # names of all lines with brackets; those of PBS have a line a slot, and may be many more
    for line in source.lines():
        try:
            names = slurm_nodelist.expand(line.text)
            from_ranges += len(names) if "[" in line.text else 0
            if from_ranges > MOST_HOSTS:
                source.fail(line.at, f"the ranges up to here list more than {MOST_HOSTS} hosts")
            for name, at in names:
                counts[name if name in counts else source.valid_host(name, line.at + at)] += 1
        except TextError as error:
            source.fail(line.at + error.at, str(error))
    notes = [
        f"{name} is listed {count} times and was imported once" for name, count in counts.most_common(1) if count > 1
    ]
    return source.valid_list(HostList(tuple(map(ListedHost, counts)), notes=tuple(notes)))


def write_lines(host_list: HostList) -> str:
    return "".join(f"{host.name}\n" for host in host_list.hosts)


def write_slurm(host_list: HostList) -> str:
    return slurm_nodelist.fold(host.name for host in host_list.hosts) + "\n"
