"""Rules for the ranks, hosts, addresses and ports of a job, in one script and from host to host. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from preflight.launch.lint.master_addresses import LOOPBACK, addresses, file_urls, ports
from preflight.launch.lint.rules_ranks import starts_all
from preflight.launch.lint.rules_values import Rule
from preflight.launch.lint.types import JobStart, Script, ScriptFault, Word, digits, first_ten

_PET = ("rdzv-endpoint", "master-addr", "node-rank")  # options that torchrun reads from PET_NAME, too
_OWN_FOLDERS = ("/tmp/", "/dev/shm/", "/var/tmp/", "/run/")  # noqa: S108  each host has its own
_MOST_RANKS = 1 << 16  # hosts among which missing node ranks are looked for


def nodes(start: JobStart) -> int | None:
    """Return the number of hosts in a command's options or host file, None if it has none."""
    match start.family:
        case "torch":
            value = start.value("nnodes")
            return digits(value.text.rpartition(":")[2]) if value else 1  # 1:4 is a range
        case "msrun":
            return _quotient(start.number("worker-num"), start.number("local-worker-num"))
        case "srun":
            return start.number("N", "nodes")
        case "deepspeed":
            return start.number("num-nodes") or start.listed
        case "mpi":
            each = start.number("npernode", "N", "ppn")
            return _quotient(ranks(start), each, up=True) or _listed_nodes(start)
        case _:
            return _listed_nodes(start)


def _quotient(count: int | None, each: int | None, *, up: bool = False) -> int | None:
    return (-(-count // each) if up else count // each) if count and each else None


def _listed_nodes(start: JobStart) -> int | None:
    if start.hosts and "$" not in start.hosts.text:
        return len({name.partition(":")[0] for name in start.hosts.text.split(",")})
    return start.listed


def ranks(start: JobStart) -> int | None:
    return start.number("np", "n", "c", "num-proc", "ntasks")


def most_nodes(scripts: Sequence[Script], hosts: int) -> int:
    """Return the number of hosts of the job: by the commands, else the number of scripts or of `hosts`."""
    counts = [count for script in scripts for start in script.starts if (count := nodes(start))]
    counts += [1 for script in scripts if starts_all(script)]
    return max(counts, default=0) or max(hosts, len({script.name for script in scripts}))


def loopback(scripts: Sequence[Script], hosts: int) -> Iterator[ScriptFault]:
    """Yield masters at a loopback address, which is another host on each of several hosts."""
    count = most_nodes(scripts, hosts)
    for script in scripts if count > 1 else ():
        places = [(address, word) for address, _, word in addresses(script) if LOOPBACK.fullmatch(address)]
        settings = {id(word) for _, word in script.settings.values()}
        in_options = [place for place in places if id(place[1]) not in settings]
        for address, word in dict.fromkeys(in_options or places):
            yield script.fault(
                word,
                f"{address} is the local host on each of the {count} hosts, so they never meet",
                address,
                "the address of the host of rank 0",
                "set an address that the other hosts can reach",
            )


def one_address(script: Script) -> Iterator[ScriptFault]:
    """Yield an HCCL_IF_IP that mpirun's -x gives to several hosts. The right value differs from host to host."""
    for start in script.starts:
        count = nodes(start) or 0
        for word in start.passed if count > 1 else ():
            if word.text.partition("=")[0] == "HCCL_IF_IP":
                message = f"-x sets the same HCCL_IF_IP on all {count} hosts, but each host needs its own"
                do = "remove it, and pass the host NIC with -x HCCL_SOCKET_IFNAME"
                yield script.fault(word, message, word.text, "HCCL_SOCKET_IFNAME", do)


def no_master(script: Script) -> Iterator[ScriptFault]:
    """Yield torchrun commands for several hosts without a master or node rank.

    torchrun takes 127.0.0.1 for a missing master. It sets MASTER_ADDR for its ranks and never reads it. Its
    own options may come from PET_MASTER_ADDR and the like (torch/distributed/argparse_util.py).
    """
    for start in script.starts:
        count = nodes(start) or 0
        by_variable = [name for name in _PET if script.setting(f"PET_{name.upper().replace('-', '_')}", start)]
        options = {*start.given, *by_variable}
        if start.family != "torch" or count < 2 or "rdzv-endpoint" in options:
            continue
        if "master-addr" not in options:
            message = f"no --master_addr for {count} hosts, so each host uses 127.0.0.1, its own address"
            yield script.fault(
                start.word, message, "nothing", "--master_addr ADDRESS", "add the address of the host of rank 0"
            )
        if "node-rank" not in options:
            message, expected = (
                f"no --node_rank for {count} hosts, so each host uses 0",
                f"--node_rank 0 to {count - 1}",
            )
            yield script.fault(
                start.word, message, "nothing", expected, "add --node_rank, a different one on each host"
            )


def rank_beyond(script: Script) -> Iterator[ScriptFault]:
    for start in script.starts:
        count, rank, word = nodes(start), start.number("node-rank"), start.value("node-rank")
        if start.family in ("torch", "msrun") and count and rank is not None and word and rank >= count:
            message = f"node_rank {rank} is too large for {count} hosts, which are numbered from 0"
            do = "correct node_rank or the number of hosts"
            yield script.fault(word, message, str(rank), f"0 to {count - 1}", do)


def world_size(script: Script) -> Iterator[ScriptFault]:
    for start, count, each in _torch_counts(script):
        sizes = list(_of_program(start, "world-size"))
        setting = script.setting("WORLD_SIZE", start)
        if setting and setting[0] != str(count):  # some schedulers call the number of hosts so
            sizes.append(setting)
        for text, word in sizes:
            if text.isascii() and text.isdigit() and int(text[:9]) != count * each:
                message = f"the world size is {text}, but {count} × {each} processes are started"
                yield script.fault(word, message, text, str(count * each), "correct the world size or the numbers")


def program_ranks(script: Script) -> Iterator[ScriptFault]:
    """Yield options of the program that contradict the launcher's."""
    for start, _, _ in _torch_counts(script):
        for name in ("nproc-per-node", "node-rank"):
            of_launcher = start.value(name)
            for text, word in _of_program(start, name):
                if of_launcher and of_launcher.text != text and "$" not in text + of_launcher.text:
                    message = f"the program's {name.replace('-', '_')} differs from the launcher's"
                    do = "use the same value for both, since the program calculates its rank from it"
                    yield script.fault(word, message, text, of_launcher.text, do)


def _torch_counts(script: Script) -> Iterator[tuple[JobStart, int, int]]:
    """Yield torchrun's commands with their numbers of hosts and of processes on each, where both are known."""
    for start in script.starts:
        count, each = nodes(start), start.number("nproc-per-node")
        if start.family == "torch" and count and each:
            yield start, count, each


def _of_program(start: JobStart, name: str) -> Iterator[tuple[str, Word]]:
    """Yield the values of `--name VALUE` and `--name=VALUE` among the arguments of the program."""
    for at, word in enumerate(start.program):
        option, sign, value = word.text.partition("=")
        if option.startswith("--") and option[2:].replace("_", "-") == name:
            if sign:
                yield value, word
            elif at + 1 < len(start.program):
                yield start.program[at + 1].text, start.program[at + 1]


def mpi_ranks(script: Script) -> Iterator[ScriptFault]:
    for start, count, word in _mpi_counts(script):
        each = start.number("npernode", "N", "ppn")
        if each and count % each:
            message = f"{count} ranks are not a multiple of {each} ranks per host"
            expected = f"{each} × the number of hosts"
            yield script.fault(word, message, str(count), expected, "correct -np or -npernode")


def mpi_slots(script: Script) -> Iterator[ScriptFault]:
    for start, count, _ in _mpi_counts(script):
        slots = _slots(start.hosts.text) if start.hosts else None
        if start.hosts and slots is not None and slots < count:
            message = f"{slots} slots for {count} ranks, since a host without :N has one slot"
            yield script.fault(start.hosts, message, start.hosts.text, f"{count} slots", "write HOST:N for each host")


def _mpi_counts(script: Script) -> Iterator[tuple[JobStart, int, Word]]:
    """Yield MPI's commands with their numbers of ranks, each with its place."""
    for start in script.starts:
        count, word = ranks(start), start.value("np", "n", "c")
        if start.family in ("mpi", "perseus") and count and word:
            yield start, count, word


def _slots(text: str) -> int | None:
    """Return the slots of a list of hosts, `a:8,b` → 9; None for any other text."""
    counts = [digits(name.partition(":")[2] or "1") for name in text.split(",")]
    return None if "$" in text or None in counts else sum(filter(None, counts))


def srun_ranks(script: Script) -> Iterator[ScriptFault]:
    for start in script.starts:
        count, word = start.number("n", "ntasks"), start.value("n", "ntasks")
        hosts, each = nodes(start), start.number("ntasks-per-node")
        if start.family == "srun" and count and word and hosts and each and count > hosts * each:
            message = f"{count} ranks do not fit on {hosts} hosts with {each} ranks each"
            do = "correct --ntasks, --nodes or --ntasks-per-node"
            yield script.fault(word, message, str(count), str(hosts * each), do)


def shared_file(scripts: Sequence[Script], hosts: int, shared: str) -> Iterator[ScriptFault]:
    """Yield files of a `file://` rendezvous that hosts do not share. `shared` is the inventory's shared folder."""
    expected = f"a file in {shared}" if shared else "a file on a shared file system"
    folder = shared.rstrip("/") + "/" if shared else ""
    for script in scripts if most_nodes(scripts, hosts) > 1 else ():
        for path, word in file_urls(script.words):
            own = path.startswith(_OWN_FOLDERS)
            if own or not path.startswith(folder):
                message = f"file://{path} must be one file for all hosts" + ", but each host has its own" * own
                do = "use a shared path, a new one for every run, or tcp://"
                yield script.fault(word, message, path, expected, do)


def between_scripts(scripts: Sequence[Script]) -> Iterator[ScriptFault]:
    """Yield values that differ between hosts and must not, and those that are equal and must not be."""
    yield from _differing(scripts, "master's port", _ports)
    yield from _differing(scripts, "master's address", _addresses)
    yield from _differing(scripts, "number of hosts or ranks", _counts)
    for name in ("WORLD_SIZE", "RANK_SIZE"):
        yield from _differing(scripts, name, partial(_setting, name))
    yield from _node_ranks(scripts)
    owners: dict[str, Script] = {}
    for script in scripts:
        for value, word in _setting("HCCL_IF_IP", script):
            owner = owners.setdefault(value, script)
            if owner.name != script.name:
                message = f"HCCL_IF_IP is the same as in {owner.name}, but every host needs its own"
                do = "set the address of this host's NIC"
                yield script.fault(word, message, value, "this host's own address", do)


def _ports(script: Script) -> Iterator[tuple[str, Word]]:
    return ((port, word) for port, word in ports(script) if "$" not in port)


def _addresses(script: Script) -> Iterator[tuple[str, Word]]:
    return ((address, word) for address, _, word in addresses(script) if "$" not in address)


def _counts(script: Script) -> Iterator[tuple[str, Word]]:
    return ((word.text, word) for start in script.starts if (word := start.value("nnodes", "worker-num")))


def _setting(name: str, script: Script) -> Iterator[tuple[str, Word]]:
    """Yield value and place of a variable of the script, unless only the run has the value."""
    if name in script.settings and "$" not in script.settings[name][0]:
        yield script.settings[name]


def _differing(
    scripts: Sequence[Script], name: str, values: Callable[[Script], Iterable[tuple[str, Word]]]
) -> Iterator[ScriptFault]:
    """Compare the first value of each script with that of the first script."""
    pairs = [(script, *pair) for script in scripts for pair in list(values(script))[:1]]
    for script, value, word in pairs[1:]:
        first, expected, _ = pairs[0]
        if value != expected:
            message = f"the {name} differs from the one in {first.name}"
            yield script.fault(word, message, value, expected, "use the same value on all hosts")


def _node_ranks(scripts: Sequence[Script]) -> Iterator[ScriptFault]:
    owners: dict[int, Script] = {}
    count = 0
    for script in scripts:
        for start in script.starts:
            rank, word = start.number("node-rank"), start.value("node-rank")
            if rank is None or word is None:
                continue
            owner = owners.setdefault(rank, script)
            if owner.name != script.name:
                message = f"node_rank {rank} is the same as in {owner.name}"
                expected = "a different one on each host"
                yield script.fault(word, message, str(rank), expected, "number the hosts from 0")
            count = max(count, nodes(start) or 0)
    yield from _missing_node_ranks(scripts[-1], owners, count)


def _missing_node_ranks(script: Script, owners: Mapping[int, Script], count: int) -> Iterator[ScriptFault]:
    missing = sorted(set(range(count)) - set(owners)) if count <= _MOST_RANKS else []
    if missing and owners and script.starts:
        yield script.fault(
            script.starts[0].word,
            f"no script has node_rank {first_ten(missing)} of {count} hosts, so all others would wait for it",
            f"{len(owners)} node ranks",
            f"0 to {count - 1}",
            "check the script of every host or correct nnodes",
        )


RULES_OF_ONE: tuple[Rule, ...] = (
    no_master,
    one_address,
    rank_beyond,
    world_size,
    program_ranks,
    mpi_ranks,
    mpi_slots,
    srun_ranks,
)
