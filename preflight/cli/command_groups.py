"""Commands in the groups of `preflight --help`, and the text of that help."""

from preflight.cli.parser import Parser

# Group → command → one-line help
GROUPS = {
    "Check": {
        "check": "check all hosts and links; print each problem with its fix",
        "probe": "run collectives on all devices; find hung and slow devices",
        "facts": "collect the facts of all hosts, without running checks",
        "list-checks": "list all checks",
        "explain": "explain a check: why it matters, how to check and fix it",
    },
    "Provision": {
        "configure": "show the changes that hosts need, ask, and apply them",
        "configure-ports": "reserve the HCCL and job ports on all hosts",
        "configure-device-ips": "set the address of each device NIC",
        "configure-firewall": "open the firewall for the cluster, or switch it off",
        "configure-environment": "set names in /etc/hosts, limits and the HCCL profile",
        "plan": "save the changes that hosts need to a file, for apply",
        "apply": "apply a saved plan, and nothing else",
        "rollback": "undo the changes of a run",
        "init": "write a first inventory for a list of hosts",
        "learn": "write an inventory from a cluster that is already configured",
        "inventory": "convert host lists of MPI, Slurm, Ansible and other tools",
    },
    "Run jobs": {
        "launch": "print each host's job command and environment; check scripts",
        "exec": "probe a job's nodes, then run a command on the good nodes",
        "ranktable": "write, check or distribute the rank table",
        "gate": "decide whether a job may start on a host",
    },
    "Read results": {
        "diagnose": "read a failed job's logs: first error, cause and fix",
        "history": "list earlier runs, with their findings and changes",
        "diff": "compare two runs",
        "baseline": "save a probe's bandwidths; compare later probes with them",
        "capture": "save the redacted tool output of all hosts for later checks",
        "support-bundle": "pack a run's facts, report and logs into one redacted file",
    },
    "Lab and tools": {
        "lab": "run a test cluster on this machine, and break it",
        "parse": "parse saved output of a vendor tool",
        "completion": "print the completion script for a shell",
        "help": "print help for a command",
    },
}

_HEAD = """\
usage: preflight [--version] COMMAND [OPTION ...]

Check and configure clusters of NPU or GPU servers before distributed training.
  preflight check -i hosts.toml        # find problems; changes nothing
  preflight configure -i hosts.toml    # show the changes, ask, apply them
  preflight help check                 # options and examples of a command
"""
_AREA = "configure-"  # start of the commands for one area, which share a line with `configure`
# Commands that share a line
_LABELS = {"plan": "plan, apply"}
_TEXTS = {"plan": "save changes to a file; apply that file and nothing else"}


class RootParser(Parser):
    """Parser of the whole command line. Its help has the commands in groups, 40 lines of 80 columns."""

    def format_help(self) -> str:
        groups = ("\n".join([title, *_lines(commands)]) for title, commands in GROUPS.items())
        return "\n".join([_HEAD, "\n\n".join(groups)]) + "\n"


def _lines(commands: dict[str, str]) -> list[str]:
    """Return one line for each command of a group. `help` is among the examples already."""
    areas = ", ".join(name.removeprefix(_AREA) for name in commands if name.startswith(_AREA))
    shown = {name: text for name, text in commands.items() if not name.startswith(_AREA) and name != "help"}
    if areas:
        shown = {"configure[-AREA]": f"apply changes to {areas}", **shown}
        del shown["configure"]
        del shown["apply"]  # in the line of `plan`
    return [f"  {_LABELS.get(name, name):<16}  {_TEXTS.get(name, text)}" for name, text in shown.items()]
