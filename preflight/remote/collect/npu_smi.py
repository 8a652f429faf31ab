"""Output of npu-smi: the table of chips and processes, and the details of each chip."""

import pwd
import re
import time

from collect.tools import QUERY_LIMIT, attempt, command, each, required

NPU_SMI = ("npu-smi", "/usr/local/sbin/npu-smi", "/usr/local/bin/npu-smi")
AT_ONCE = 4  # parallel calls: each opens the management interface of the driver
QUERY_SECONDS = 10  # limit of one query of a chip: one that hangs leaves time for the others
# Patterns of one line each. A search over the lines of a text would take the square of its blank ones. `re` lets no
# other thread run meanwhile, so that no deadline would fire.
PROCESS = re.compile(r"\|[ \d]+\|[ \t]*(\d{1,9})[ \t]*\|")
COLUMN_ENDS = re.compile(r"[ \t]{2,}|\t")
NUMBER = re.compile(r"\d{1,5}$")


def look_npu_smi(request, deadline):  # noqa: ARG001  (the sections have one signature)
    tool = required(*NPU_SMI)
    info, mapping = command([tool, "info"], deadline), ask_mapping(tool, deadline)
    rows = map(PROCESS.match, info["out"].partition("Process id")[2].splitlines())
    processes = [row.group(1) for row in rows if row]
    users = {pid: owner(pid) for pid in processes}
    return {"info": info, "mapping": mapping, "users": {pid: user for pid, user in users.items() if user}}


def ask_mapping(tool, deadline):
    return attempt([tool, "info", "-m"], min(deadline, time.monotonic() + QUERY_SECONDS))


def owner(pid):
    """Return the real user of a process, None where the process is hidden."""
    try:
        with open("/proc/%s/status" % pid, errors="replace") as file:  # a process chooses its name
            uid = next(int(line.split()[1]) for line in file if line.startswith("Uid:"))
    except (OSError, StopIteration):
        return None
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return "uid %d" % uid


def numbers(mapping):
    """Return [(NPU, chip)] of `npu-smi info -m`, by its heading. A management unit (Mcu) is no chip."""
    rows = [COLUMN_ENDS.split(line.strip()) for line in mapping[:QUERY_LIMIT].splitlines()]
    start = next((at for at, row in enumerate(rows) if "NPU ID" in row and "Chip ID" in row), len(rows))
    chips = [dict(zip(rows[start], row)) for row in rows[start + 1 :]]  # noqa: B905  (Python 3.6)
    places = [(chip.get("NPU ID", ""), chip.get("Chip ID", "")) for chip in chips if chip.get("Chip Name") != "Mcu"]
    return [place for place in places if all(map(NUMBER.match, place))]


def look_chips(request, deadline):
    """Return {"mapping": answer, "queries"}, with an answer for each query. A query is the words after `npu-smi info
    -t`, such as "health -i 0 -c 0"."""
    tool = required(*NPU_SMI)
    mapping = ask_mapping(tool, deadline)
    chips = numbers(mapping["out"])
    queries = ["topo"] + ["board -i " + npu for npu in dict.fromkeys(npu for npu, _ in chips)]
    queries += ["%s -i %s -c %s" % (query, *chip) for chip in chips for query in request["chip_queries"]]

    def ask(query):
        return attempt([tool, "info", "-t", *query.split()], min(deadline, time.monotonic() + QUERY_SECONDS))

    return {"mapping": mapping, "queries": each(queries, ask, deadline, AT_ONCE)}
