"""What a job sees where the jobs run: the collector's `job` section. Standard library only, Python 3.6 syntax.

Runs in the jobs' own Python, which may be another one than the collector's, in a container, or a user's. Package
versions are read from the metadata files themselves: importlib.metadata costs 40 ms and is missing before Python 3.8,
importing torch costs over a second. The rest of stdin is {"marker", "npu"}; the answer is a line of marker and JSON.
"""

import os
import resource
import site
import sys

PACKAGES = ("torch", "torch_npu", "numpy")
HEAD = 64 * 1024  # bytes read of a metadata or version file


def read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(HEAD)
    except OSError:
        return None


def module_path():
    """Where an import looks. The collector itself runs with -I, jobs do not: what that left out is put back."""
    if not sys.flags.isolated:
        return [path for path in sys.path if path]
    more = os.environ.get("PYTHONPATH", "").split(":")
    return [path for path in more + sys.path + [site.getusersitepackages()] if path]


def packages():
    """{name: version} of what is installed, the first on the module path counts, as it does for an import."""
    found = {}
    for root in module_path():
        try:
            entries = os.listdir(root)
        except OSError:
            continue
        for entry in entries:
            stem, _, kind = entry.rpartition(".")
            name = stem.split("-")[0].lower()
            if kind not in ("dist-info", "egg-info") or name not in PACKAGES:
                continue
            path = os.path.join(root, entry)
            if os.path.isdir(path):  # Debian's egg-info may be a file
                path = os.path.join(path, "METADATA" if kind == "dist-info" else "PKG-INFO")
            for line in (read(path) or "").splitlines():
                if line.startswith("Version:"):
                    found.setdefault(name, line[8:].strip())
    return found


def cann_files():
    """[[path, text], …] of every CANN version file: first where the environment points, then the usual places."""
    arch = os.uname().machine + "-linux"
    base = "/usr/local/Ascend/"
    homes = [
        os.environ.get("ASCEND_TOOLKIT_HOME"),
        os.environ.get("ASCEND_HOME_PATH"),
        base + "cann",
        base + "ascend-toolkit/latest",
        os.path.expanduser("~/Ascend/ascend-toolkit/latest"),
        base + "nnae/latest",
    ]
    names = (
        arch + "/ascend_toolkit_install.info",
        "ascend_toolkit_install.info",
        "ascend_nnae_install.info",
        "version.cfg",
        arch + "/ascend_ops_install.info",
    )
    paths = [os.path.join(home, name) for home in homes if home for name in names]
    return [[path, text] for path, text in ((path, read(path)) for path in paths) if text is not None]


def view(npu):
    shm = os.statvfs("/dev/shm")
    return {
        "python": "%d.%d.%d" % sys.version_info[:3],
        "packages": packages(),
        "cann_files": cann_files() if npu else [],
        "nofile": resource.getrlimit(resource.RLIMIT_NOFILE),
        "memlock": resource.getrlimit(resource.RLIMIT_MEMLOCK),
        "shm_bytes": shm.f_blocks * shm.f_frsize,
    }


def main():
    import json

    request = json.loads(sys.stdin.buffer.read().decode())
    print("\n" + request["marker"] + json.dumps(view(request["npu"])))


if __name__ == "__main__":
    main()
