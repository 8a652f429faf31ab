"""Applies one host's changes by compare-and-set. Runs on the host, as root; imported by nobody.

Standard library only, Python 3.6 syntax. The rest of stdin is the request, a JSON object:

    marker     word that frames the answer; banners before it and noise after it do no harm
    action     "apply" or "confirm"
    run        the run's id, a file name
    journal    directory of the journals, and of the verdicts on guarded runs
    lock       file whose flock makes this the only run on the host
    owner      who runs it, for the message that others see meanwhile        (apply)
    seconds    how long the guardian waits for the confirmation              (apply)
    changes    [{"area", "kind", "target", "before", "after"}, …] in order   (apply)

The answer is `\\n<marker> <length>\\n<json>\\n`:

    apply      {"results": [{"state", "found", "message"}, …], "guarded": whether a confirmation is awaited}
    confirm    {"verdict": "confirmed" | "reverted", "left": [targets that could not be taken back]}
    either     {"error": "one sentence"}

What each kind's target and value are stands in preflight/model/change.py.
"""

import collections
import errno
import fcntl
import ipaddress
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

TAG = "preflight"  # the comment that marks a firewall rule as ours
TOOL_SECONDS = 20  # a single call of nft, ufw or hccn_tool
BUSY_SECONDS = 15  # how long a busy hccn_tool is asked again
SETTLE_SECONDS = 3  # how long a device may take to show what it was told
FILE_LIMIT = 1 << 20  # bytes; nothing that is changed here comes near
HCCN_TOOL = "/usr/local/Ascend/driver/tools/hccn_tool"
ENVIRONMENT = dict(os.environ, LC_ALL="C", PATH=os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin")
# How bytes that are no UTF-8 stand in a file's text: as in collect.py.
KEPT = {0xDC00 + byte: 0x10FF00 + byte for byte in range(0x80, 0x100)}
GIVEN_BACK = {kept: surrogate for surrogate, kept in KEPT.items()}


class StepError(Exception):
    """Why something could not be read or written: one sentence."""


def sentence(error):
    if isinstance(error, OSError) and error.strerror:
        return "%s: %s" % (error.filename, error.strerror) if error.filename else error.strerror
    return str(error)


def call(*argv, stdin=""):
    """Run a program to its end: (exit code, stdout, stderr)."""
    try:
        done = subprocess.run(
            argv,
            input=stdin.encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=TOOL_SECONDS,
            env=ENVIRONMENT,
        )
    except subprocess.TimeoutExpired:
        raise StepError("%s had not ended after %d s" % (" ".join(argv[:4]), TOOL_SECONDS)) from None
    except FileNotFoundError:
        raise StepError("%s is not installed" % argv[0]) from None
    return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")


def must(*argv, stdin=""):
    code, out, err = call(*argv, stdin=stdin)
    if code:
        raise StepError("%s failed: %s" % (" ".join(argv[:4]), (err.strip() or out.strip())[:500]))
    return out


# Files.


def real_path(path):
    """Where the file really is. A link is kept and written through, as long as it stays under the same top directory:
    one that leads out of /etc belongs to something that manages the file elsewhere."""
    real = os.path.realpath(path)
    if real.split("/")[1] != path.split("/")[1]:
        raise StepError("%s is a link to %s; change that by hand" % (path, real))
    return real


def read_file(path):
    real = real_path(path)
    if not os.path.exists(real):
        return None
    if not os.path.isfile(real):
        raise StepError("%s is not a regular file" % path)
    with open(real, "rb") as file:
        data = file.read(FILE_LIMIT + 1)
    if len(data) > FILE_LIMIT:
        raise StepError("%s is larger than %d KiB" % (path, FILE_LIMIT // 1024))
    return data.decode("utf-8", "surrogateescape").translate(KEPT)


def write_file(path, text):
    """Whole or not at all, whenever the power goes; owner, mode, ACL and SELinux label stay."""
    path = real_path(path)
    directory = os.path.dirname(path)
    if text is None:
        os.unlink(path)
    else:
        try:
            replace_file(path, text.translate(GIVEN_BACK).encode("utf-8", "surrogateescape"))
        except OSError as error:  # the name of the temporary file, another on every host, is nobody's business
            raise StepError("%s cannot be written: %s" % (path, error.strerror or error)) from None
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def replace_file(path, data):
    directory = os.path.dirname(path)
    if not os.path.isdir(directory):
        os.makedirs(directory, 0o755)
    handle, partial = tempfile.mkstemp(prefix=".preflight-", dir=directory)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            keep_looks(path, partial)
            os.fsync(file.fileno())
        os.rename(partial, path)
    except BaseException:
        os.unlink(partial)
        raise


def keep_looks(path, partial):
    try:
        old = os.stat(path)
    except FileNotFoundError:
        os.chmod(partial, 0o644)
        return
    os.chown(partial, old.st_uid, old.st_gid)
    shutil.copystat(path, partial)  # mode and extended attributes …
    os.utime(partial)  # … but not the times


# Kernel settings.


def sysctl_path(key):
    if not re.match(r"[a-z0-9_]+(\.[a-z0-9_]+)+$", key):
        raise StepError("%r is not the name of a kernel setting" % key)
    return "/proc/sys/" + key.replace(".", "/")


def read_sysctl(key):
    with open(sysctl_path(key)) as file:
        return file.read().strip()


def write_sysctl(key, value):
    """One write(2): what one call brings is the whole value. The kernel ignores an empty one; a newline clears."""
    data = ((value or "") + "\n").encode()
    handle = os.open(sysctl_path(key), os.O_WRONLY)
    try:
        taken = os.write(handle, data)
    finally:
        os.close(handle)
    if taken != len(data):
        raise StepError(
            "the kernel took %d of %d bytes for %s; fewer, wider ranges are shorter" % (taken, len(data), key)
        )


def same_sysctl(value):
    """The kernel sorts and merges port lists: the ports are compared, not the text."""
    words = (value or "").split()
    if len(words) != 1 or not re.match(r"[0-9,-]+$", words[0]):
        return words
    ports = set()
    for item in filter(None, words[0].split(",")):
        low, _, high = item.partition("-")
        ports.update(range(int(low), int(high or low) + 1))
    return ports


# nftables.

OUR_COMMENT = ' comment "%s"' % TAG


def chain_words(target):
    words = target.split(" ")
    if len(words) != 3 or words[0] not in ("ip", "ip6", "inet") or not all(re.match(r"[\w./-]+$", w) for w in words):
        raise StepError("%r is not FAMILY TABLE CHAIN" % target)
    return words


def our_handles(target):
    """[(rule, handle)] of the rules in the chain that carry our comment."""
    listing = must("nft", "-a", "list", "chain", *chain_words(target))
    found = []
    for line in listing.splitlines():
        rule, _, handle = line.strip().rpartition(" # handle ")
        if rule.endswith(OUR_COMMENT):
            found.append((rule, handle))
    return found


def read_nft_rules(target):
    return "\n".join(rule for rule, _ in our_handles(target)) or None


def write_nft_rules(target, value):
    """Ours out, the new ones in at the top, in one transaction: nothing is ever half open."""
    chain = " ".join(chain_words(target))
    script = ["delete rule %s handle %s" % (chain, handle) for _, handle in our_handles(target)]
    for rule in reversed((value or "").splitlines()):
        if not rule.endswith(OUR_COMMENT):
            rule += OUR_COMMENT
        script.append("insert rule %s %s" % (chain, rule))
    must("nft", "-f", "-", stdin="\n".join(script) + "\n")


def same_rules(value):
    """All of our rules accept, so their order means nothing. `{ a }` is the same as `a`, and `a/32` as `a`: nft and ufw
    print the shorter."""
    rules = []
    for line in (value or "").splitlines():
        rule = " ".join(line.split())
        rule = rule[: -len(OUR_COMMENT)] if rule.endswith(OUR_COMMENT) else rule
        rule = re.sub(r"\{ ([^ ]+) \}", r"\1", rule)
        rules.append(re.sub(r"(\d+\.\d+\.\d+\.\d+)/32\b", r"\1", rule))
    return sorted(filter(None, rules))


def read_nft_input(target):
    """The chain as nft lists it: what puts it back."""
    code, out, err = call("nft", "list", "chain", *chain_words(target))
    if code and "No such file or directory" not in err:
        raise StepError("nft list chain %s failed: %s" % (target, err.strip()[:500]))
    return None if code else out


def write_nft_input(target, value):
    if value == "present":
        raise StepError("how chain %s looked is not known here; load the host's own rules again" % target)
    chain = " ".join(chain_words(target))
    must("nft", "-f", "-", stdin=value or "flush chain %s\ndelete chain %s\n" % (chain, chain))


def same_presence(value):
    return value is not None


# ufw.

UFW_TUPLES = ("/etc/ufw/user.rules", "/etc/ufw/user6.rules")
UFW_TUPLE = re.compile(r"### tuple ### (\S+) (\S+) (\S+) (?:0\.0\.0\.0/0|::/0) any (\S+) in comment=(\S+)$")


def read_ufw_rules(_):
    """Our rules, as `allow tcp PORTS from CIDR`; ufw keeps a rule a line, with its comment in hexadecimal."""
    rules = []
    for path in UFW_TUPLES:
        for line in (read_file(path) or "").splitlines():
            match = UFW_TUPLE.match(line)
            if match and match.group(5) == TAG.encode().hex():
                rules.append("%s %s %s from %s" % match.groups()[:4])
    return "\n".join(rules) or None


def ufw_words(rule):
    """`allow tcp PORTS from CIDR` → the words ufw wants."""
    match = re.match(r"(allow) (tcp|udp) ([0-9,:]+) from ([0-9a-fA-F.:/]+)$", rule)
    if not match:
        raise StepError("%r is not a rule like `allow tcp 60000:60031 from 10.0.0.0/8`" % rule)
    action, protocol, ports, source = match.groups()
    return [action, "proto", protocol, "from", source, "to", "any", "port", ports]


def write_ufw_rules(target, value):
    old, new = same_rules(read_ufw_rules(target)), same_rules(value)
    for rule in new:
        if rule not in old:
            must("ufw", "prepend", *ufw_words(rule), "comment", TAG)
    for rule in old:
        if rule not in new:
            must("ufw", "delete", *ufw_words(rule))


def read_ufw_enabled(_):
    text = read_file("/etc/ufw/ufw.conf")
    if text is None:
        raise StepError("ufw is not installed")
    values = re.findall(r"^\s*ENABLED\s*=\s*\"?(\w+)", text, re.MULTILINE)
    return "yes" if values and values[-1].lower() == "yes" else "no"


def write_ufw_enabled(_, value):
    must("ufw", *(["--force", "enable"] if value == "yes" else ["disable"]))


# Device NICs. hccn_tool's exit codes collide and some failures end with 0: judged are its words, and what it then
# shows (hccn_tool sources of the 910B driver: internal codes modulo 256).


def hccn(device, *words):
    """One call's text, stdout and stderr together. `busy` comes on stdout, from any other user of the tool."""
    if not re.match(r"[0-9]{1,2}$", device):
        raise StepError("%r is not a device id" % device)
    tool = shutil.which("hccn_tool", path=ENVIRONMENT["PATH"]) or HCCN_TOOL
    pause = 0.1
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        _, out, err = call(tool, "-i", device, *words)
        text = (out + err).strip()
        if "hccn_tool is busy" not in text:
            return text
        if time.monotonic() + pause > deadline:
            raise StepError("hccn_tool was busy for %d s; something else on this host keeps calling it" % BUSY_SECONDS)
        time.sleep(pause)
        pause = min(2.0, pause * 2)


def hccn_get(device, command, *patterns):
    """The patterns' first groups, or None where the tool says that nothing is set."""
    text = hccn(device, "-" + command, "-g")
    found = [re.search(pattern, text, re.MULTILINE) for pattern in patterns]
    if all(found):
        return [match.group(1) for match in found]
    if not text or "preset there" in text:  # old 910A drivers print nothing
        return None
    raise StepError("hccn_tool -i %s -%s -g: %s" % (device, command, text[-300:]))


def hccn_set(device, command, *words):
    if None in words:
        raise StepError("hccn_tool cannot unset the %s; device %s keeps it until it is reset" % (command, device))
    text = hccn(device, "-" + command, "-s", *words)
    if "successfully" not in text:
        raise StepError("hccn_tool -i %s -%s -s %s: %s" % (device, command, " ".join(words), text[-300:] or "no word"))


def read_device_address(device):
    found = hccn_get(device, "ip", r"^ipaddr:\s*([\d.]+)", r"^netmask:\s*([\d.]+)")
    return found and str(ipaddress.IPv4Interface("/".join(found)))


def write_device_address(device, value):
    interface = value and ipaddress.IPv4Interface(value)
    hccn_set(device, "ip", "address", value and str(interface.ip), "netmask", value and str(interface.netmask))


def read_device_gateway(device):
    found = hccn_get(device, "gateway", r"^default gateway:\s*([\d.]+)")
    return found and found[0]


def write_device_gateway(device, value):
    hccn_set(device, "gateway", "gateway", value)


def read_device_detect(device):
    found = hccn_get(device, "netdetect", r"^netdetect addr(?:ess)?:\s*([\d.]+)")
    return None if not found or found[0] == "0.0.0.0" else found[0]


def write_device_detect(device, value):
    hccn_set(device, "netdetect", "address", value)


def same_text(value):
    return value


# `same` maps a value to what is compared: two values are the same where these are equal. `settle`: seconds that a
# written value may take to show.
Kind = collections.namedtuple("Kind", "read write same settle")
KINDS = {
    "file": Kind(read_file, write_file, same_text, 0),
    "sysctl": Kind(read_sysctl, write_sysctl, same_sysctl, 0),
    "nft-rules": Kind(read_nft_rules, write_nft_rules, same_rules, 0),
    "nft-input": Kind(read_nft_input, write_nft_input, same_presence, 0),
    "ufw-rules": Kind(read_ufw_rules, write_ufw_rules, same_rules, 0),
    "ufw-enabled": Kind(read_ufw_enabled, write_ufw_enabled, same_text, 0),
    "device-address": Kind(read_device_address, write_device_address, same_text, SETTLE_SECONDS),
    "device-gateway": Kind(read_device_gateway, write_device_gateway, same_text, SETTLE_SECONDS),
    "device-detect": Kind(read_device_detect, write_device_detect, same_text, SETTLE_SECONDS),
}


class Journal:
    """What this run did to this host: a JSON object a line, on the disk before the next step begins."""

    def __init__(self, directory, run):
        os.makedirs(directory, 0o700, exist_ok=True)
        self.path = os.path.join(directory, run + ".jsonl")
        self.optional = False  # whether steps are made that cannot be written down
        try:
            self.handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        except FileExistsError:
            message = "run %s has been on this host before; is the host in the inventory under two names?"
            raise StepError(message % run) from None

    def note(self, event, **more):
        record = dict(more, event=event, time=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
        line = (json.dumps(record, sort_keys=True) + "\n").encode()
        try:
            if os.write(self.handle, line) < len(line):
                raise OSError(errno.ENOSPC, "the disk is full")
            os.fsync(self.handle)
        except OSError as error:
            if not self.optional:
                raise StepError("%s cannot be written: %s" % (self.path, error.strerror)) from None


def step(change, journal, **number):
    """One change, by compare-and-set: {"state", "found", "message"}. `number` is `step` or `undo` for the journal."""
    kind, target, after = KINDS[change["kind"]], change["target"], change["after"]
    which = dict(number, kind=change["kind"], target=target)

    def ended(state, found=None, message=""):
        result = {"state": state, "found": found, "message": message}
        journal.note("end", **dict(which, **result))
        return result

    try:
        found = kind.read(target)
    except (StepError, OSError) as error:
        return ended("failed", message="could not be read: " + sentence(error))
    if kind.same(found) == kind.same(after):
        return ended("already")
    if kind.same(found) != kind.same(change["before"]):
        return ended("moved", found)
    journal.note("begin", before=found, after=after, **which)
    problem = ""
    try:
        kind.write(target, after)
    except (StepError, OSError) as error:
        problem = sentence(error)
    try:
        found = read_back(kind, target, after, settle=0 if problem else kind.settle)
    except (StepError, OSError) as error:
        return ended("failed", message=problem or "could not be read back: " + sentence(error))
    if kind.same(found) == kind.same(after):  # what the host shows counts, not what the tool said
        return ended("done", message=problem)
    return ended("failed" if problem else "did-not-stick", found, problem)


def read_back(kind, target, after, settle):
    deadline = time.monotonic() + settle
    while True:
        found = kind.read(target)
        if kind.same(found) == kind.same(after) or time.monotonic() >= deadline:
            return found
        time.sleep(0.2)


WELL = ("done", "already")
NOT_RUN = {"state": "not-run", "found": None, "message": ""}


def abandoned():
    """Whether nobody will read the answer: its reader pressed Ctrl-C, or the connection broke."""
    reader = select.poll()
    reader.register(sys.stdout, 0)  # that the other end is gone is reported unasked
    return bool(reader.poll(0))


def run_steps(changes, journal, first=0):
    """The changes in order, up to the first that does not end well; none is begun that nobody waits for."""
    results = []
    for number, change in enumerate(changes, first):
        if results and results[-1]["state"] not in WELL:
            break
        try:
            if abandoned():
                journal.note("abandoned", step=number)
                break
            results.append(step(change, journal, step=number))
        except StepError as error:  # of the journal: what was done before is told nevertheless
            results.append({"state": "failed", "found": None, "message": sentence(error)})
    return results + [NOT_RUN] * (len(changes) - len(results))


# The dead man's switch. A verdict on a guarded run is a symbolic link, because making one is atomic and fails where
# there is one already: either the confirmation or the guardian comes first, never both.


def verdict_path(request):
    return os.path.join(request["journal"], request["run"] + ".verdict")


def claim(path, verdict):
    """Set the verdict if there is none yet; the one that holds."""
    try:
        os.symlink(verdict, path)
    except FileExistsError:
        pass
    return os.readlink(path)


def post_guardian(changes, request, journal):
    """Start a process that outlives this one and takes `changes` back unless the verdict says `confirmed` in time.

    The countdown begins when the last writer of a pipe is gone, which is this process: so it begins at its end, however
    it ends, and the guardian never works against it. The guardian inherits the lock and holds it until it is done.
    """
    undo = []
    for change in reversed(changes):
        try:
            found = KINDS[change["kind"]].read(change["target"])
        except (StepError, OSError):
            continue  # its step will fail on the same, before it writes
        undo.append(dict(change, before=change["after"], after=found))
    read_end, write_end = os.pipe()  # programs that are called do not inherit these
    middle = os.fork()
    if middle:
        os.close(read_end)
        if os.waitpid(middle, 0)[1]:
            raise StepError("the guardian could not be started; the host's journal says why")
        return
    status = 1
    try:
        os.setsid()  # a session of its own: the end of the connection does not reach it
        if os.fork() == 0:
            os.close(write_end)
            guard(undo, read_end, request, journal)
        status = 0
    except BaseException as error:
        journal.note("guardian failed", message=sentence(error))
    finally:
        os._exit(status)


def guard(undo, read_end, request, journal):
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):  # sshd waits for everybody who holds these
        os.dup2(null, descriptor)
    os.read(read_end, 1)  # comes back at end-of-file
    path = verdict_path(request)
    deadline = time.monotonic() + request["seconds"]
    while time.monotonic() < deadline and not os.path.islink(path):
        time.sleep(0.1)
    journal.optional = True  # a full disk must not keep a host locked out
    try:
        verdict = claim(path, "reverted")
    except OSError:  # then nobody else's verdict is there either
        verdict = "reverted"
    journal.note(verdict)
    if verdict == "reverted":
        for number, change in enumerate(undo):  # every one, even where one before it failed
            if step(change, journal, undo=number)["state"] not in WELL:
                journal.note("left", target=change["target"])


def take_lock(path, patience=0.0):
    """The lock's descriptor; it is free again when every process that inherited it has ended."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return handle
        except BlockingIOError:
            if time.monotonic() >= deadline:
                owner = os.read(handle, 200).decode("utf-8", "replace").strip()
                os.close(handle)
                message = "another run is at work on this host (%s); wait until it is done"
                raise StepError(message % (owner or "unnamed")) from None
            time.sleep(0.05)


def apply(request):
    changes = request["changes"]
    guarded = [change for change in changes if change["area"] == "firewall"]
    plain = changes[: len(changes) - len(guarded)]
    if any(change["area"] == "firewall" for change in plain):
        raise StepError("the firewall's changes have to come last")
    lock = take_lock(request["lock"])
    os.ftruncate(lock, 0)
    os.write(lock, request["owner"].encode()[:200])
    journal = Journal(request["journal"], request["run"])
    journal.note("start", owner=request["owner"], changes=len(changes))
    results = run_steps(plain, journal)
    if not guarded or any(result["state"] not in WELL for result in results):
        return {"results": results + [NOT_RUN] * len(guarded), "guarded": False}
    try:
        post_guardian(guarded, request, journal)
    except (StepError, OSError) as error:  # then the firewall is left alone; what was done before is told nevertheless
        failed = {"state": "failed", "found": None, "message": sentence(error)}
        return {"results": results + [failed] + [NOT_RUN] * (len(guarded) - 1), "guarded": False}
    return {"results": results + run_steps(guarded, journal, len(plain)), "guarded": True}


def confirm(request):
    verdict = claim(verdict_path(request), "confirmed")
    take_lock(request["lock"], patience=2 * TOOL_SECONDS)  # the guardian has done what the verdict says
    left = []
    with open(os.path.join(request["journal"], request["run"] + ".jsonl")) as file:
        for line in file:
            try:
                record = json.loads(line)
            except ValueError:
                continue  # cut where the disk was full
            if record["event"] == "left":
                left.append(record["target"])
    return {"verdict": verdict, "left": left}


def answer_to(request):
    try:
        if os.geteuid() != 0:
            raise StepError('changing a host needs root; set ssh.user = "root" or ssh.sudo = true in the inventory')
        if not re.match(r"[\w.-]+$", request["run"]) or request["run"].startswith("."):
            raise StepError("%r is not the id of a run" % request["run"])
        return {"apply": apply, "confirm": confirm}[request["action"]](request)
    except (StepError, OSError) as error:
        return {"error": sentence(error)}


def main():
    os.umask(0o022)
    request = json.loads(sys.stdin.buffer.read().decode())
    text = json.dumps(answer_to(request))
    sys.stdout.write("\n%s %d\n%s\n" % (request["marker"], len(text), text))


if __name__ == "__main__":
    main()
