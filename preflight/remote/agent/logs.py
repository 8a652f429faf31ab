"""Lines of a worker's backend log: NCCL's log, CANN's plog. Bounded, and of that worker alone."""

import os
import re
import shutil
import stat
import tempfile
import time

FIRST, LAST = 3, 5  # lines reported of a worker: its first errors, and their consequences
WIDTH = 240  # characters of a line
READ = 1 << 18  # bytes read of a file, from its end
FILES = 4
WORD = 100  # characters of a name
MOST_WAYS = 8

# INFO of these subsystems shows which interface and transport NCCL chose, and why.
NCCL_ENVIRONMENT = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET,ENV"}
_NCCL = re.compile(
    r"NCCL WARN|NCCL INFO .*(?:NET/\S+ ?: ?(?:Using|No)|Bootstrap ?: ?Using|_IFNAME|_IB_HCA|_IB_DISABLE|NCCL_NET set"
    r"|failed|refused|timed out)"
)
# NCCL's choice is in lines such as `NET/IB : Using [0]mlx5_0:1/RoCE`, `NET/IB : No device found.` and `Using network
# Socket`. Each connected channel has a line such as `Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA`, `via
# P2P/CUMEM` or `via SHM/direct/direct`.
_CHOICE = re.compile(r"NCCL INFO (NET/\S+ ?:? ?(?:Using|No) .*|Using network .*)")
_VIA = re.compile(r" via (NET/[\w ]+|P2P|SHM|COLLNET|NVLS)")
_NETWORK = re.compile(r"Using network (.+)")
_PLOG = re.compile(r"^\[ERROR\](?!.*call trace)|\bE[IJ]\d{4}\b")  # a call trace repeats the line before it


class Logs:
    """The logs of one agent's workers. Settings of logs in `environ`, the jobs' environment, are kept."""

    def __init__(self, backend, environ):
        self.backend, self.environ = backend, environ
        self.began = time.time()
        self.folder = ""
        if backend == "nccl" and not environ.get("NCCL_DEBUG_FILE"):
            try:
                self.folder = tempfile.mkdtemp(prefix="preflight-nccl-")
            except OSError:
                pass  # no place for logs: NCCL's lines are kept with all other output of the worker

    def environment(self):
        """Return the variables for a worker."""
        if self.backend != "nccl":
            return {}
        variables = {} if self.environ.get("NCCL_DEBUG") else dict(NCCL_ENVIRONMENT)
        if self.folder:
            variables["NCCL_DEBUG_FILE"] = os.path.join(self.folder, "%p")
        return variables

    def of(self, pid):
        """Return the relevant lines of the worker `pid`, oldest first."""
        pattern = {"nccl": _NCCL, "hccl": _PLOG}.get(self.backend)
        if pattern is None:
            return []
        files = self._nccl_files(pid) if self.backend == "nccl" else self._plogs(pid)
        texts = [text for path in files[-FILES:] for text in self._read(path).splitlines()]
        lines = [line.strip()[:WIDTH] for line in texts if pattern.search(line)]
        lines = [line for number, line in enumerate(lines) if line not in lines[:number][-LAST:]]
        return lines if len(lines) <= FIRST + LAST else lines[:FIRST] + lines[-LAST:]

    def way(self, pid):
        """Return the network and the transports of the worker's NCCL, as it logs them once all ranks are connected."""
        if self.backend != "nccl":
            return None
        text = "\n".join(self._read(path, first) for path in self._nccl_files(pid) for first in (True, False))
        lines = list(dict.fromkeys(line.strip()[:WIDTH] for line in _CHOICE.findall(text)))[:FIRST]
        networks = [name.strip()[:WORD] for name in _NETWORK.findall(text)]
        ways = sorted({way[:WORD] for way in _VIA.findall(text)})[:MOST_WAYS]
        return {"network": networks[-1] if networks else "", "ways": ways, "lines": lines}

    def remove(self):
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _nccl_files(self, pid):
        """Return the paths of NCCL's logs. NCCL puts the process and the host, up to its first dot, into the name."""
        if self.folder:
            return [os.path.join(self.folder, str(pid))]
        host = os.uname().nodename.partition(".")[0]
        return [self.environ["NCCL_DEBUG_FILE"].replace("%p", str(pid)).replace("%h", host)]

    def _plogs(self, pid):
        """Return the paths of plog-PID_TIME.log in the folders `debug` (errors) and `run` (CANN log reference)."""
        home = os.path.join(self.environ.get("HOME") or "/root", "ascend", "log")
        root = self.environ.get("ASCEND_PROCESS_LOG_PATH") or home
        paths = []
        for kind in ("run", "debug"):
            folder = os.path.join(root, kind, "plog")
            try:
                names = os.listdir(folder)
            except OSError:
                continue
            paths += sorted(os.path.join(folder, name) for name in names if name.startswith("plog-%d_" % pid))
        return paths

    def _read(self, path, first=False):
        """Return the end of a file, or its beginning if `first` is set.

        Return no text if it is not an ordinary file of this run: process numbers are used again.
        """
        try:
            with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode) or status.st_mtime < self.began - 1:
                    return ""
                file.seek(0 if first else max(0, status.st_size - READ))
                return file.read(READ).decode("utf-8", "replace")
        except OSError:
            return ""
