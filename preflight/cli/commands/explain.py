"""Explain a check: why it matters, how to check it manually, and how to fix it.

  preflight explain PRT101
  preflight explain prb103

The id is not case-sensitive.
"""

import argparse
import textwrap

from preflight.checks.engine.catalogue import CheckEntry, catalogue
from preflight.cli.commands.list_checks import WIDTH
from preflight.model.errors import UsageError

# Inputs of checks in words. What the program itself derives from other inputs (located, causes, known) is left out.
NEEDS = {
    "accelerators": "PCI devices and device files",
    "arrivals": "connections between the hosts",
    "baseline": "the saved baseline",
    "chips": "npu-smi",
    "clock": "the host's clock",
    "contact": "an ssh connection",
    "device_nodes": "device files in /dev",
    "environment": "/etc/hosts, limits.d, profile.d",
    "firewall": "the firewall's rules",
    "hccl_test": "HCCL Test (all_reduce_test)",
    "hccn": "hccn_tool",
    "hccn_conf": "/etc/hccn.conf",
    "job": "the jobs' environment",
    "limits": "process limits and /dev/shm",
    "link_counts": "port counters before and after the probe",
    "load": "the processor load",
    "names": "name resolution",
    "naming": "name resolution",
    "neighbours": "ssh logins between the hosts",
    "network": "network interfaces and routes",
    "nic": "hccn_tool",
    "npu_smi": "npu-smi",
    "nvidia": "nvidia-smi and the kernel log",
    "observations": "results of the probe",
    "os": "the operating system's data",
    "pings": "pings between the devices",
    "rdma": "RDMA devices in /sys",
    "rehearsal": "the probe's test of the ports",
    "shells": "the environment of ssh commands and logins",
    "sockets": "open sockets",
    "sysctl": "kernel settings (sysctl)",
    "versions": "installed versions",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="id of a check, such as PRT101")


def run(args: argparse.Namespace) -> int:
    print(text(find(args.id)))
    return 0


def find(id_: str) -> CheckEntry:
    """Return the check with this id, in any case. Raise UsageError with the nearest id."""
    checks = catalogue()
    if id_.upper() in checks:
        return checks[id_.upper()]
    from preflight.checks.engine.run import nearest

    raise UsageError(f"there is no check {id_!r}; {nearest(checks, id_)}")


def text(check: CheckEntry) -> str:
    """Return the explanation, 80 columns wide."""
    paragraphs = check.paragraphs()
    source = paragraphs.pop("Source", [check.module])
    about = {
        "severity": check.severity,
        "applies to": check.product_words,
        "scope": check.scope_words,
        "needs": needs_words(check),
    }
    lines = [f"{check.id}  {check.title}"]
    for label, words in about.items():
        lines += textwrap.wrap(f"{label + ':':<11} {words}", WIDTH, subsequent_indent=" " * 12)
    for label, paragraph in paragraphs.items():
        lines += ["", f"{label}:"]
        for line in paragraph:
            lines += [f"  {line}"] if line.startswith(" ") else _wrap(line)
    return "\n".join([*lines, "", *(f"source: {line}" for line in source), f"next: preflight check --only {check.id}"])


def needs_words(check: CheckEntry) -> str:
    """Return what the check needs: the outputs of tools, files and tests."""
    words = dict.fromkeys(NEEDS[section] for section in check.needs if section in NEEDS)
    return ", ".join(words) or "the inventory"


def _wrap(words: str) -> list[str]:
    return textwrap.wrap(
        words, WIDTH, initial_indent="  ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
