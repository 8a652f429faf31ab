"""What does not go together: ranks, hosts, addresses and ports, in one script and from host to host. Pure."""

from collections.abc import Iterator, Sequence

from preflight.launch.lint.rules_ranks import starts_all
from preflight.launch.lint.rules_values import LOOPBACK, Rule, addresses, ports, urls
from preflight.launch.lint.types import Fault, Script, Start, Word, digits

_READ = ("rdzv-endpoint", "master-addr", "node-rank")
_OWN_FOLDERS = ("/tmp/", "/dev/shm/", "/var/tmp/", "/run/")  # noqa: S108  each host has its own


def nodes(start: Start) -> int | None:
    """On how many hosts a command says that its job runs; None where it does not say."""
    if start.family == "torch":
        value = start.value("nnodes")
        text = value.text.rpartition(":")[2] if value else "1"  # 1:4 is a range
        return digits(text)
    if start.family == "msrun":
        all_, here = start.number("worker-num"), start.number("local-worker-num")
        return all_ // here if all_ and here else None
    if start.family == "srun":
        return start.number("N", "nodes")
    if start.family == "deepspeed" and (count := start.number("num-nodes")):
        return count
    if start.family == "mpi":
        count, each = ranks(start), start.number("npernode", "N", "ppn")
        if count and each:
            return -(-count // each)
    hosts = start.value("H", "host", "hosts") if start.family in ("mpi", "perseus") else None
    if hosts and "$" not in hosts.text:
        return len({name.partition(":")[0] for name in hosts.text.split(",")})
    return start.listed


def ranks(start: Start) -> int | None:
    return start.number("np", "n", "c", "num-proc", "ntasks")


def most_nodes(scripts: Sequence[Script], hosts: int) -> int:
    """On how many hosts the whole is meant to run: by the commands, else by the number of scripts or of `hosts`."""
    said = [count for script in scripts for start in script.starts if (count := nodes(start))]
    said += [1 for script in scripts if starts_all(script)]
    several = [count for count in said if count > 1]
    return max(several) if several else 1 if said else max(hosts, len({script.name for script in scripts}))


def loopback(scripts: Sequence[Script], hosts: int) -> Iterator[Fault]:
    """A master that every host looks for in itself."""
    most = most_nodes(scripts, hosts)
    if most < 2:
        return
    for script in scripts:
        told = [(a, w) for a, _, w in addresses(script) if LOOPBACK.fullmatch(a)]
        settings = {id(word) for _, word in script.settings.values()}
        in_options = [one for one in told if id(one[1]) not in settings]
        for address, word in dict.fromkeys(in_options or told):
            yield Fault(
                script.path, word.spot, f"{address} is another host on each of the {most} hosts: they never meet",
                address, "the address of the host of rank 0", "write the address at which the other hosts reach it",
            )  # fmt: skip


def one_address(script: Script) -> Iterator[Fault]:
    """mpirun's -x gives all ranks one value, and HCCL_IF_IP is another one on every host."""
    for start in script.starts:
        count = nodes(start)
        for word in start.passed:
            if count and count > 1 and word.text.partition("=")[0] == "HCCL_IF_IP":
                yield Fault(
                    script.path, word.spot, f"-x gives one HCCL_IF_IP to all {count} hosts, and each has its own",
                    word.text, "HCCL_SOCKET_IFNAME", "leave it out, and name the host NIC: -x HCCL_SOCKET_IFNAME",
                )  # fmt: skip


def no_master(script: Script) -> Iterator[Fault]:
    """torchrun takes 127.0.0.1 where no master is given; MASTER_ADDR is what it sets, not what it reads. It reads
    PET_MASTER_ADDR and the like for each of its options (torch/distributed/argparse_util.py)."""
    for start in script.starts:
        count = nodes(start)
        set_ = [name for name in _READ if script.setting(f"PET_{name.upper().replace('-', '_')}", start)]
        given = {*start.given, *set_}
        if start.family != "torch" or not count or count < 2 or "rdzv-endpoint" in given:
            continue
        if "master-addr" not in given:
            yield Fault(
                script.path, start.word.spot, f"no --master_addr for {count} hosts: each takes 127.0.0.1, itself",
                "nothing", "--master_addr ADDRESS", "add the address of the host of rank 0",
            )  # fmt: skip
        if "node-rank" not in given:
            yield Fault(
                script.path, start.word.spot, f"no --node_rank for {count} hosts: each takes 0", "nothing",
                f"--node_rank 0 to {count - 1}", "add --node_rank, another one on every host",
            )  # fmt: skip


def rank_beyond(script: Script) -> Iterator[Fault]:
    for start in script.starts:
        count, rank, word = nodes(start), start.number("node-rank"), start.value("node-rank")
        if count and rank is not None and word and rank >= count and start.family in ("torch", "msrun"):
            yield Fault(
                script.path, word.spot, f"node_rank {rank} does not exist among {count} hosts: they count from 0",
                str(rank), f"0 to {count - 1}", "correct node_rank, or the number of hosts",
            )  # fmt: skip


def world_size(script: Script) -> Iterator[Fault]:
    for start in script.starts:
        count, each = nodes(start), start.number("nproc-per-node")
        if start.family != "torch" or not count or not each:
            continue
        told = list(_of_program(start, "world-size"))
        setting = script.setting("WORLD_SIZE", start)
        if setting and setting[0] != str(count):  # some schedulers call the number of hosts so
            told.append(setting)
        for text, word in told:
            if text.isascii() and text.isdigit() and int(text[:9]) != count * each:
                yield Fault(
                    script.path, word.spot,
                    f"world size {text}, but {count} × {each} processes are started", text,
                    str(count * each), "correct the one that is not meant",
                )  # fmt: skip
        for name in ("nproc-per-node", "node-rank"):
            mine = start.value(name)
            for text, word in _of_program(start, name):
                if mine and mine.text != text and "$" not in text + mine.text:
                    yield Fault(
                        script.path, word.spot,
                        f"the program has another {name.replace('-', '_')} than the launcher", text,
                        mine.text, "give both the same: the program counts its rank from it",
                    )  # fmt: skip


def _of_program(start: Start, name: str) -> Iterator[tuple[str, Word]]:
    """The values of `--name VALUE` or `--name=VALUE` among the arguments of the program."""
    for at, word in enumerate(start.program):
        option, sign, value = word.text.partition("=")
        if option.startswith("--") and option[2:].replace("_", "-") == name:
            if sign:
                yield value, word
            elif at + 1 < len(start.program):
                yield start.program[at + 1].text, start.program[at + 1]


def mpi_ranks(script: Script) -> Iterator[Fault]:
    for start in script.starts:
        count, each, word = ranks(start), start.number("npernode", "N", "ppn"), start.value("np", "n", "c")
        if start.family not in ("mpi", "perseus") or not count or not word:
            continue
        if each and count % each:
            yield Fault(
                script.path, word.spot, f"{count} ranks are no multiple of {each} a host", str(count),
                f"{each} × the number of hosts", "correct -np or -npernode",
            )  # fmt: skip
        hosts = start.value("H", "host", "hosts")
        if hosts and "$" not in hosts.text:
            slots = _slots(hosts.text)
            if slots is not None and slots < count:
                yield Fault(
                    script.path, hosts.spot, f"{slots} slots for {count} ranks: a host without :N has one", hosts.text,
                    f"{count} slots", "write HOST:N for each",
                )  # fmt: skip


def srun_ranks(script: Script) -> Iterator[Fault]:
    for start in script.starts:
        count, word = start.number("n", "ntasks"), start.value("n", "ntasks")
        hosts, each = nodes(start), start.number("ntasks-per-node")
        if start.family == "srun" and count and word and hosts and each and count > hosts * each:
            yield Fault(
                script.path, word.spot, f"{count} ranks do not fit on {hosts} × {each}", str(count), str(hosts * each),
                "correct --ntasks, --nodes or --ntasks-per-node",
            )  # fmt: skip


def _slots(text: str) -> int | None:
    """`a:8,b` → 9; None for what is no such list."""
    counts = [name.partition(":")[2] or "1" for name in text.split(",")]
    return sum(map(int, counts)) if all(n.isascii() and n.isdigit() and len(n) < 10 for n in counts) else None


def shared_file(scripts: Sequence[Script], hosts: int, shared: str) -> Iterator[Fault]:
    """`shared`: the folder of all hosts, where the inventory names one."""
    if most_nodes(scripts, hosts) < 2:
        return
    for script in scripts:
        for url, (path, _), word in urls(script.words, "file"):
            own = path.startswith(_OWN_FOLDERS)
            if own or (shared and not path.startswith(shared.rstrip("/") + "/")):
                yield Fault(
                    script.path, word.spot,
                    f"{url} has to be one file for all hosts" + "; each has its own" * own, path,
                    f"a file in {shared}" if shared else "a file on a shared file system",
                    "take a path that all hosts share, new for every run, or tcp://",
                )  # fmt: skip


def between_scripts(scripts: Sequence[Script]) -> Iterator[Fault]:
    """What has to be the same on every host, and what must not."""
    yield from _differ(scripts, "master's port", [[(p, w) for p, w in ports(it) if "$" not in p] for it in scripts])
    told = [[(a, w) for a, _, w in addresses(it) if "$" not in a] for it in scripts]
    yield from _differ(scripts, "master's address", told)
    counts = [[(w.text, w) for s in it.starts if (w := s.value("nnodes", "worker-num"))] for it in scripts]
    yield from _differ(scripts, "number of hosts or ranks", counts)
    for name in ("WORLD_SIZE", "RANK_SIZE"):
        sizes = [
            [it.settings[name]] if name in it.settings and "$" not in it.settings[name][0] else [] for it in scripts
        ]
        yield from _differ(scripts, name, sizes)
    yield from _node_ranks(scripts)
    own = [(it, *it.settings["HCCL_IF_IP"]) for it in scripts if "HCCL_IF_IP" in it.settings]
    for at, (script, value, word) in enumerate(own):
        other = next((before for before, told, _ in own[:at] if told == value and "$" not in value), None)
        if other and other.name != script.name:
            yield Fault(
                script.path, word.spot, f"HCCL_IF_IP is that of {other.name}, too: every host has its own", value,
                "this host's own address", "write the address of this host's NIC",
            )  # fmt: skip


def _differ(scripts: Sequence[Script], what: str, told: list[list[tuple[str, Word]]]) -> Iterator[Fault]:
    """The first script that says it counts."""
    first = next(((it, said[0]) for it, said in zip(scripts, told, strict=True) if said), None)
    for script, said in zip(scripts, told, strict=True):
        for value, word in said[:1]:
            if first and value != first[1][0] and script is not first[0]:
                yield Fault(
                    script.path, word.spot, f"the {what} is another one than in {first[0].name}", value, first[1][0],
                    "give all hosts the same",
                )  # fmt: skip


def _node_ranks(scripts: Sequence[Script]) -> Iterator[Fault]:
    told: dict[int, Script] = {}
    count = 0
    for script in scripts:
        for start in script.starts:
            rank, word = start.number("node-rank"), start.value("node-rank")
            if rank is None or word is None:
                continue
            if rank in told and told[rank].name != script.name:
                yield Fault(
                    script.path, word.spot, f"node_rank {rank} is that of {told[rank].name}, too", str(rank),
                    "another one on every host", "count the hosts from 0",
                )  # fmt: skip
            told.setdefault(rank, script)
            count = max(count, nodes(start) or 0)
    missing = sorted(set(range(count)) - set(told)) if count <= 1 << 16 else []
    if missing and len(scripts) > 1 and told:
        script = scripts[-1]
        word = next((s.word for s in script.starts), None)
        if word:
            few = ", ".join(map(str, missing[:10])) + ("…" if len(missing) > 10 else "")
            yield Fault(
                script.path, word.spot, f"no script has node_rank {few} of {count} hosts: all would wait for it",
                f"{len(told)} node ranks", f"0 to {count - 1}", "check the script of every host, or correct nnodes",
            )  # fmt: skip


RULES_OF_ONE: tuple[Rule, ...] = (
    no_master, one_address, rank_beyond, world_size, mpi_ranks, srun_ranks,
)  # fmt: skip
