"""For `preflight capture`: what the vendor's tools print beyond what is read, as they are met for the first time."""

import time

from collect.hccn import HCCN_TOOL, davinci, known
from collect.npu_smi import AT_ONCE, NPU_SMI, QUERY_SECONDS, numbers
from collect.tools import attempt, each, find

# Asked of the first device, with -g, as far as the tool lists it; and of the first chip.
OF_A_DEVICE = ("status", "local_lldp", "prio_tc", "tc_cfg", "tc_qos", "tc_stat", "pfc_stat", "dcqcn")
OF_A_CHIP = ("common", "memory", "ecc", "product", "proc-mem", "err-count")


def look_extras(request, deadline):
    """{command line: answer}; nothing of a tool that is not there."""
    commands = {"uname -a": find("uname"), "lspci -D -nn -d 19e5:": find("lspci")}
    hccn_tool, npu_smi = find(*HCCN_TOOL), find(*NPU_SMI)
    if hccn_tool:
        commands["hccn_tool -h"] = hccn_tool
        devices = sorted(set(request["devices"]) | set(davinci()))
        for name in known(hccn_tool, OF_A_DEVICE, deadline) if devices else ():
            commands["hccn_tool -i %d -%s -g" % (devices[0], name)] = hccn_tool
    if npu_smi:
        commands.update({"npu-smi " + words: npu_smi for words in ("-v", "info -h", "info -l")})
        for npu, chip in numbers(attempt([npu_smi, "info", "-m"], deadline)["out"])[:1]:
            for query in OF_A_CHIP:
                commands["npu-smi info -t %s -i %s -c %s" % (query, npu, chip)] = npu_smi

    def ask(line):
        until = min(deadline, time.monotonic() + QUERY_SECONDS)
        return attempt([commands[line], *line.split()[1:]], until)

    return each([line for line, tool in commands.items() if tool], ask, deadline, AT_ONCE)
