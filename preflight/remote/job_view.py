"""What a job sees where the jobs run: the collector's `job` section. Standard library only, Python 3.6 syntax.

Runs in the jobs' own Python, which may be another one than the collector's, in a container, or a user's. Package
versions are read from the metadata files themselves: importlib.metadata costs 40 ms and is missing before Python 3.8,
importing torch costs over a second. The rest of stdin is {"marker", "wanted"}; the answer is a line of marker and JSON.

    wanted     {"npu": whether there are NPUs, "deep": null or what else is to be looked at, "called": names and
               addresses of this host, by which a rank table may name it}
    deep       {"prefixes": of variables, "files": paths to look at, "named_by": variables that name files whose text is
               wanted, "read_by": that name files to be seen, and "written_by": whose folders are, "requirements": files
               and "datasets": folders whose digests are wanted, "mpi_parameters": of Open MPI, "project": a folder or
               "", "imports": packages to be found}
"""

import os
import resource
import site
import stat
import sys
import threading
import time

PACKAGES = ("torch", "torch_npu", "numpy", "mindspore", "scipy", "decorator", "attrs")
FAMILIES = ("nvidia_nccl_cu", "nvidia_cuda_runtime")  # their names end in the release of CUDA
OLD_NAMES = {"mindspore_ascend": "mindspore"}
HEAD = 64 * 1024  # bytes read of a metadata or version file
TEXT = 1024 * 1024  # characters sent of a file that a variable names
TABLE = 64 * 1024  # bytes of a rank table from which on a host sends only what concerns it: all hosts have the same one
LARGEST = 64 * 1024 * 1024  # bytes read of a file that a variable names
NCCL_CONF = "/etc/nccl.conf"
MAPS = 4 * 1024 * 1024  # characters read of what a process has mapped
MAPPED_SECONDS = 3  # for all processes
IGNORED = 20  # lines of it told that are no variables
DIGEST_SECONDS = 15  # for all digests together
MOST_FILES = 1000 * 1000  # of one folder's digest
# In names of variables whose values stay here, in any case.
SECRET = ("PASS", "PWD", "SECRET", "TOKEN", "CREDENTIAL", "AUTH", "LOGIN", "KEY")


def read(path, limit=HEAD):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(limit)
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
            name = OLD_NAMES.get(name, name)
            if kind not in ("dist-info", "egg-info") or not (name in PACKAGES or name.startswith(FAMILIES)):
                continue
            path = os.path.join(root, entry)
            if os.path.isdir(path):  # Debian's egg-info may be a file
                path = os.path.join(path, "METADATA" if kind == "dist-info" else "PKG-INFO")
            for line in (read(path) or "").splitlines():
                if line.startswith("Version:"):
                    found.setdefault(name, line[8:].strip())
    return found


def cann_homes():
    """Where CANN may be: first where the environment points, then the usual places."""
    base = "/usr/local/Ascend/"
    homes = [
        os.environ.get("ASCEND_TOOLKIT_HOME"),
        os.environ.get("ASCEND_HOME_PATH"),
        base + "cann",
        base + "ascend-toolkit/latest",
        os.path.expanduser("~/Ascend/ascend-toolkit/latest"),
        base + "nnae/latest",
    ]
    return [home for home in homes if home]


def cann_files():
    """[[path, text], …] of every CANN version file."""
    arch = os.uname().machine + "-linux"
    names = (
        arch + "/ascend_toolkit_install.info",
        "ascend_toolkit_install.info",
        "ascend_nnae_install.info",
        "version.cfg",
        arch + "/ascend_ops_install.info",
    )
    paths = [os.path.join(home, name) for home in cann_homes() for name in names]
    return [[path, text] for path, text in ((path, read(path)) for path in paths) if text is not None]


def view(wanted):
    shm = os.statvfs("/dev/shm")
    return {
        "python": "%d.%d.%d" % sys.version_info[:3],
        "packages": packages(),
        "cann_files": cann_files() if wanted["npu"] else [],
        "nofile": resource.getrlimit(resource.RLIMIT_NOFILE),
        "memlock": resource.getrlimit(resource.RLIMIT_MEMLOCK),
        "shm_bytes": shm.f_blocks * shm.f_frsize,
        "stack": resource.getrlimit(resource.RLIMIT_STACK)[0],
        "shm": {"mode": stat.S_IMODE(os.stat("/dev/shm").st_mode), "free": shm.f_bavail * shm.f_frsize, **left()},
        "deep": deeper(wanted["deep"], wanted["called"]) if wanted["deep"] else None,
    }


def left():
    """NCCL's files in /dev/shm that no process has mapped, and their bytes. A process that is stuck in a driver may
    keep whoever reads its maps waiting: then nobody knows."""
    answer = []
    looking = threading.Thread(target=lambda: answer.append(unmapped()), daemon=True)
    looking.start()
    looking.join(MAPPED_SECONDS + 1)
    return answer[0] if answer else {"left": 0, "left_bytes": 0}


def unmapped():
    """Those of other users are theirs to see."""
    files = {}
    for name in os.listdir("/dev/shm"):
        if name.startswith("nccl-"):
            try:
                status = os.lstat("/dev/shm/" + name)
            except OSError:
                continue
            if os.geteuid() in (0, status.st_uid):
                files["/dev/shm/" + name] = status.st_blocks * 512
    until = time.monotonic() + MAPPED_SECONDS
    for pid in filter(str.isdigit, os.listdir("/proc") if files else ()):
        if time.monotonic() > until:
            return {"left": 0, "left_bytes": 0}  # whose they are is not known
        for line in (read("/proc/%s/maps" % pid, MAPS) or "").splitlines():
            if "/dev/shm/nccl-" in line:
                files.pop("/dev/shm/" + line.partition("/dev/shm/")[2].split(" ")[0], None)
    return {"left": len(files), "left_bytes": sum(files.values())}


def deeper(wanted, called):
    set_by_nccl, ignored = nccl_files()
    until = time.monotonic() + DIGEST_SECONDS
    named = [os.environ[name] for name in wanted["named_by"] if os.environ.get(name)]
    files = {path: seen(path) for path in wanted["files"]}
    files.update((path, with_text(path, called)) for path in named)
    files.update((path, seen(path)) for path in paths_in(wanted["read_by"]))
    folders = [os.path.dirname(path) for path in paths_in(wanted["written_by"])]
    files.update((path, to_write_in(path)) for path in folders)
    for path in wanted["requirements"] + wanted["datasets"]:
        files[path] = with_digest(path, until)
    return {
        "user": user(),
        "uid": os.geteuid(),
        "groups": list(dict.fromkeys([os.getegid(), *os.getgroups()])),
        "capabilities": capabilities(),
        "contained": contained(),
        "variables": variables(tuple(wanted["prefixes"])),
        "nccl_files": {plain(name): path for name, (path, _) in set_by_nccl.items() if name not in os.environ},
        "nccl_ignored": ignored,
        "rdma": rdma(),
        "files": list(files.values()),
        "devices": sorted(int(name[7:]) for name in os.listdir("/dev") if name[:7] == "davinci" and name[7:].isdigit()),
        "hccl_test": hccl_test(),
        "mpi": mpi(wanted["mpi_parameters"]),
        "project": folder(wanted["project"]) if wanted["project"] else None,
        "environment": folder(sys.prefix),
        "imports": {name: plain(origin(name, wanted["project"])) for name in wanted["imports"]},
    }


def user():
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def capabilities():
    for line in (read("/proc/self/status") or "").splitlines():
        if line.startswith("CapEff:"):
            return int(line.split()[1], 16)
    return 0


def contained():
    """Whether this is a container: by the marks that docker, podman, Kubernetes, LXC and systemd-nspawn leave."""
    if "container" in os.environ or os.path.exists("/.dockerenv") or os.path.exists("/run/.containerenv"):
        return True
    first = read("/proc/1/environ") or ""
    groups = read("/proc/1/cgroup") or ""
    marks = ("docker", "kubepods", "containerd", "/lxc", "libpod")
    return "\0container=" in "\0" + first or any(mark in groups for mark in marks)


def variables(prefixes):
    """Those whose names begin so. A value that may be a secret does not leave the host."""
    found = {name: value for name, (_, value) in nccl_files()[0].items()}
    found.update(os.environ)
    found = {name: value for name, value in found.items() if name.startswith(prefixes)}
    return {plain(name): "[redacted]" if secret(name, value) else plain(value) for name, value in found.items()}


def nccl_files():
    """What NCCL adds to the environment by itself: of variables that are not set there, the first line counts (NCCL,
    src/misc/param.cc). Images of clouds name the NIC there. Returns ({name: (file, value)}, [[file, name]] of lines
    with a blank or a word too much, which to NCCL are other names)."""
    found, ignored = {}, []
    for path in (os.environ.get("NCCL_CONF_FILE") or os.path.expanduser("~/.nccl.conf"), NCCL_CONF):
        for line in lines_of(path):
            name, is_set, value = line.partition("=")
            if is_set and name.startswith("NCCL_") and name == name.strip():
                found.setdefault(name, (plain(path), value))
            elif is_set and name.split()[-1:] and name.split()[-1].startswith("NCCL_") and "#" not in name:
                ignored.append([plain(path), plain(name[:80])])
    return found, ignored[:IGNORED]


def lines_of(path):
    """As NCCL reads them: only a line feed ends one. A pipe would be waited on."""
    if not os.path.isfile(path):
        return []
    try:
        with open(path, encoding="utf-8", errors="replace", newline="\n") as file:
            return file.read(HEAD).split("\n")
    except OSError:
        return []


def paths_in(names):
    """The absolute paths that variables name; any other would be the job's own folder's."""
    values = dict({name: value for name, (_, value) in nccl_files()[0].items()}, **os.environ)
    return [values[name] for name in names if values.get(name, "").startswith("/")]


def to_write_in(path):
    """A folder, and why nothing can be written there."""
    found = seen(path)
    if not found["error"] and found["kind"] != "missing" and not os.access(path, os.W_OK | os.X_OK):
        found["error"] = "Permission denied" if os.path.isdir(path) else "it is no folder"
    return found


def rdma():
    """RDMA devices, the nodes by which a program gets at them, and why the library for it does not load."""
    devices, nodes = (listed(path) for path in ("/sys/class/infiniband", "/dev/infiniband"))
    found = {"devices": devices, "nodes": [name for name in nodes if name.startswith("uverbs")], "libibverbs": ""}
    if devices:
        import ctypes

        try:
            ctypes.CDLL("libibverbs.so.1")
        except OSError as error:
            found["libibverbs"] = str(error)[:200]
    return found


def listed(path):
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []


def secret(name, value):
    """By its name, or as a URL that somebody logs in by: scheme://user:password@host."""
    return any(word in name.upper() for word in SECRET) or "@" in value.partition("://")[2]


def plain(text):
    """The text without bytes that are none, for which JSON has no place."""
    return text.encode("utf-8", "replace").decode()


def seen(path):
    """{"path", "kind", "size"} of what is there, and of a link, which stays one, why it leads nowhere."""
    found = {"path": plain(path), "kind": "missing", "text": "", "digest": "", "size": 0, "error": ""}
    try:
        status = os.lstat(path)
        found["kind"], found["size"] = kind_of(status.st_mode), status.st_size
        if found["kind"] == "link":
            found["size"] = os.stat(path).st_size
    except (FileNotFoundError, NotADirectoryError):
        if found["kind"] == "link":
            found["error"] = "the link leads nowhere"
    except OSError as error:
        found["error"] = error.strerror
    return found


def kind_of(mode):
    if stat.S_ISLNK(mode):
        return "link"
    if stat.S_ISDIR(mode):
        return "folder"
    return "file" if stat.S_ISREG(mode) else "device"


def with_text(path, called):
    """A file's text and the sha256 of its bytes."""
    found = seen(path)
    if found["kind"] not in ("file", "link") or found["error"] or not os.path.isfile(path):
        return found  # a pipe would be waited on
    try:
        with open(path, "rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        found["error"] = error.strerror
        return found
    if len(data) > LARGEST:
        found["error"] = "larger than %d MiB" % (LARGEST >> 20)
        return found
    from hashlib import sha256

    found["digest"] = sha256(data).hexdigest()
    text, why = data.decode("utf-8", "replace"), ""
    if len(data) > TABLE:
        text, why = of_this_host(text, set(called))
    if len(text) > TEXT:
        found["error"] = "larger than %d KiB, and no rank table%s" % (TEXT >> 10, why and ": " + why)
    else:
        found["text"] = text
    return found


def of_this_host(text, called):
    """What a rank table says of itself and of this host; any other text as it is, and why it is no rank table."""
    import json

    try:
        table = json.loads(text)
        short = {key: table[key] for key in ("version", "status", "server_count") if key in table}
        short["server_list"] = [server for server in table["server_list"] if called & set(names(server))]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        return text, str(error)
    return json.dumps(short), ""


def names(server):
    return [server[key] for key in ("server_id", "host_ip", "container_ip") if isinstance(server.get(key), str)]


def with_digest(path, until):
    """sha256 of a file's bytes, or of the sorted names and sizes of all files below a folder."""
    found = seen(path)
    try:
        if os.path.isdir(path):
            found["digest"] = digest_of_folder(path, until)
        elif os.path.isfile(path):
            found["digest"] = digest_of_file(path, until)
    except OSError as error:
        found["error"] = error.strerror
    except TooMuchError as error:
        found["error"] = str(error)
    return found


class TooMuchError(Exception):
    pass


def in_time(until):
    if time.monotonic() > until:
        raise TooMuchError("not read within %d s" % DIGEST_SECONDS)


def digest_of_file(path, until):
    from hashlib import sha256

    digest = sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            in_time(until)
            digest.update(block)
    return digest.hexdigest()


def digest_of_folder(path, until):
    from hashlib import sha256

    lines, folders = [], [path]
    while folders:
        in_time(until)
        with os.scandir(folders.pop()) as entries:
            for number, entry in enumerate(entries):
                if number % 1000 == 999:
                    in_time(until)
                if len(lines) == MOST_FILES:
                    raise TooMuchError("more than %d files" % MOST_FILES)
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif entry.is_file():
                    lines.append("%s %d" % (os.path.relpath(entry.path, path), entry.stat().st_size))
    return sha256("\n".join(sorted(lines)).encode("utf-8", "surrogateescape")).hexdigest()


def hccl_test():
    """Where HCCL Test's all_reduce_test stands, built; "" where it does not."""
    places = [os.path.join(home, "tools/hccl_test/bin") for home in cann_homes()]
    for place in os.environ.get("PATH", "").split(":") + places:
        path = os.path.join(place, "all_reduce_test")
        if place and os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    return ""


def folder(path):
    """Whether a job can use it, and the file system that it is in, as far as /proc/self/mountinfo tells."""
    found = {"path": plain(path), "filesystem": "", "source": "", "error": ""}
    try:
        if not stat.S_ISDIR(os.stat(path).st_mode):
            found["error"] = "it is no folder"
        elif not os.access(path, os.R_OK | os.X_OK):
            found["error"] = "Permission denied"
    except OSError as error:
        found["error"] = error.strerror
    real, longest = os.path.realpath(path), ""
    for line in (read("/proc/self/mountinfo", TEXT) or "").splitlines():
        fields, _, behind = line.partition(" - ")
        root, point = (octal(word) for word in fields.split()[3:5])
        below = real[len(point.rstrip("/")) :]
        # What was mounted last lies on top.
        if len(point) >= len(longest) and (real + "/").startswith(point.rstrip("/") + "/"):
            longest = point
            found["filesystem"], source = behind.split()[:2]
            found["source"] = plain(octal(source).rstrip("/") + root.rstrip("/") + below)
    return found


def octal(word):
    """A word of /proc, in which blanks are \\040."""
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        word = word.replace(code, character)
    return word


def origin(name, project):
    """Where an import would find a package, without importing it; "" nowhere."""
    from importlib.machinery import PathFinder
    from importlib.util import find_spec

    spec = PathFinder.find_spec(name, [project, *module_path()] if project else module_path())
    try:
        spec = spec or find_spec(name)  # built in, or by a finder of an editable install
    except (ImportError, ValueError):
        pass
    if spec is None:
        return ""
    places = list(spec.submodule_search_locations or ())
    return spec.origin if spec.has_location else places[0] if places else "built-in"


def mpi(wanted):
    """Where mpirun is on PATH, and [name, value, source] of Open MPI's parameters: what counts first is first."""
    places = [os.path.join(folder, "mpirun") for folder in os.environ.get("PATH", "").split(":") if folder]
    mpirun = next((path for path in places if os.access(path, os.X_OK) and os.path.isfile(path)), "")
    found = [
        [name, os.environ["OMPI_MCA_" + name], "OMPI_MCA_" + name]
        for name in wanted
        if "OMPI_MCA_" + name in os.environ
    ]
    prefix = os.path.dirname(os.path.dirname(os.path.realpath(mpirun))) if mpirun else ""
    installed = [os.path.join(prefix, "etc/openmpi-mca-params.conf")] if prefix else []
    for path in [os.path.expanduser("~/.openmpi/mca-params.conf"), *installed, "/etc/openmpi/openmpi-mca-params.conf"]:
        for line in (read(path) or "").splitlines():
            name, _, value = (part.strip() for part in line.partition("="))
            if name in wanted:
                found.append([name, plain(value), path])
    return {"mpirun": plain(mpirun), "parameters": [[name, plain(value), plain(path)] for name, value, path in found]}


def main():
    import json

    request = json.loads(sys.stdin.buffer.read().decode())
    print("\n" + request["marker"] + json.dumps(view(request["wanted"])))


if __name__ == "__main__":
    main()
