"""Further output of the vendor's tools for `preflight capture`: the parts that no section reads, for tools met for the
first time."""

import time

from collect.hccn import HCCN_TOOL, hccn, hccn_done, supported
from collect.npu_smi import AT_ONCE, NPU_SMI, QUERY_SECONDS, ask_mapping, numbers
from collect.tools import attempt, device_numbers, each, find

# Queries of the first device, with -g, as far as the tool lists them, and of the first chip.
OF_A_DEVICE = ("status", "local_lldp", "prio_tc", "tc_cfg", "tc_qos", "tc_stat", "pfc_stat", "dcqcn")
OF_A_CHIP = ("common", "memory", "ecc", "product", "proc-mem", "err-count")


def look_extras(request, deadline):
    """Return {command line: answer}; no answers of a tool that is missing."""
    commands = {"uname -a": find("uname"), "lspci -D -nn -d 19e5:": find("lspci")}
    npu_smi = find(*NPU_SMI)
    if npu_smi:
        commands.update({"npu-smi " + words: npu_smi for words in ("-v", "info -h", "info -l")})
        for npu, chip in numbers(ask_mapping(npu_smi, deadline)["out"])[:1]:
            for query in OF_A_CHIP:
                commands["npu-smi info -t %s -i %s -c %s" % (query, npu, chip)] = npu_smi

    def ask(line):
        return attempt([commands[line], *line.split()[1:]], soon(deadline))

    answers = each([line for line, tool in commands.items() if tool], ask, deadline, AT_ONCE)
    answers.update(of_a_device(request, deadline))
    return answers


def of_a_device(request, deadline):
    """Return the answers of hccn_tool for the first device. It has one user at a time, so it is called after the `hccn`
    section, one query after the other."""
    tool = find(*HCCN_TOOL)
    if not tool:
        return {}
    if "hccn" in request["deadlines"]:
        hccn_done.wait(max(0, deadline - time.monotonic()))
    answers = {"hccn_tool -h": attempt([tool, "-h"], soon(deadline))}
    devices = sorted(set(request["devices"]) | set(device_numbers("davinci")))
    for name in supported(tool, OF_A_DEVICE, deadline) if devices else ():
        answer = hccn(tool, devices[0], ["-" + name, "-g"], soon(deadline))
        answers["hccn_tool -i %d -%s -g" % (devices[0], name)] = answer
    return answers


def soon(deadline):
    return min(deadline, time.monotonic() + QUERY_SECONDS)
