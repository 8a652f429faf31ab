"""Names alone: one or more a line (pdsh, PBS), or a node list of Slurm. Both are read alike: node[01-16,20]."""

from collections import Counter

from preflight.hostlists import slurm_names
from preflight.hostlists.listed import Listed, ListedHost, Source, TextError
from preflight.inventory.hostset import MOST_HOSTS


def read(source: Source) -> Listed:
    """Names between commas, blanks and line breaks, without comments; a host that stands there twice counts once."""
    seen: Counter[str] = Counter()
    from_ranges = 0  # names of all lines with brackets; those of PBS have a line a slot, and may be many more
    for line in source.lines():
        try:
            names = slurm_names.expand(line.text)
            from_ranges += len(names) if "[" in line.text else 0
            if from_ranges > MOST_HOSTS:
                source.wrong(line.at, f"up to here the ranges name more than {MOST_HOSTS} hosts")
            for name, at in names:
                seen[name if name in seen else source.checked(name, line.at + at)] += 1
        except TextError as wrong:
            source.wrong(line.at + wrong.at, str(wrong))
    notes = [f"{name} stands there {count} times: counted once" for name, count in seen.most_common(1) if count > 1]
    return source.listed(Listed(tuple(map(ListedHost, seen)), notes=tuple(notes)))


def write_lines(listed: Listed) -> str:
    return "".join(f"{host.name}\n" for host in listed.hosts)


def write_slurm(listed: Listed) -> str:
    return slurm_names.fold(host.name for host in listed.hosts) + "\n"
