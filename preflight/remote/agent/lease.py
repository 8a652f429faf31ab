"""Who probes this host: each agent keeps a record for its life, so that the next one finds what a crashed run left.

A record says who started the agent, and until when it is sure to be heard of: `silence` seconds from every word of its
controller, which speaks every few of them; longer while torch is imported, because nobody reads stdin then. An agent
whose time is over ends itself, or is ended by its alarm. The kernel tells which process holds a record (POSIX lock), so
that a record of the past means nothing, and no other process is ever taken for an agent. Of a record of another run:

- its time moves on: that run is alive, and this one has to do without the host;
- its time is over, and its holder still there: it is stopped, or the end of its run never reached it. It is ended, with
  all that descends from it;
- none of both yet: it is looked at again, for `silence` seconds at most.

Records are in a directory of the user's own below $TMPDIR or /tmp: whoever may read or end an agent is its user. Their
names begin with the boot's id, because locks and pids of other machines mean nothing here, should $TMPDIR be shared.
Times are those of the monotonic clock, which is one for all processes and not set by anybody.
"""

import fcntl
import hashlib
import json
import os
import signal
import struct
import time

from agent.processes import end_descendants

LOOK_AGAIN = 0.2
DYING = 5  # seconds in which a process dies unless it hangs in a driver
_FLOCK = "hhlli4x"  # struct flock of <fcntl.h>: type, whence, start, length, pid
_TIME = "%020.3f\n"  # begins a record: until when its holder is sure to be heard of


class HostBusyError(Exception):
    """Somebody else probes this host."""


class Record:
    """Of another run's agent, which holds it."""

    def __init__(self, fd, pid):
        self.pid = pid  # 0: of a process in another container
        line, _, rest = os.pread(fd, 4096, 0).decode("utf-8").partition("\n")
        self.until, about = float(line), json.loads(rest)
        self.run, self.by, self.since = (str(about[name])[:200] for name in ("run", "by", "since"))

    def __str__(self):
        return "run %s of %s, started %s" % (self.run, self.by, self.since)


class Lease:
    """The right to probe this host, of one run."""

    def __init__(self, hello):
        self.silence, self.patience, self.by = hello["silence"], hello["patience"], hello["by"]
        self.run = hashlib.sha256(hello["nonce"].encode()).hexdigest()[:8]
        with open("/proc/sys/kernel/random/boot_id") as boot:
            self.boot = boot.read()[:8]
        self.path = self.directory = self.fd = self.name = None

    def take(self):
        """Wait for the host; returns the records of the agents that were ended for it. Raises HostBusyError, and
        OSError where no record can be kept: the next run will not find this agent, should it be left."""
        begin, seen, ended = time.monotonic(), {}, {}
        while True:
            self.lock_directory()
            try:
                others = self.others()
                if not others:
                    self.write()
                    break
            finally:
                fcntl.flock(self.directory, fcntl.LOCK_UN)
            now = time.monotonic()
            for name, record in others.items():
                first = seen.setdefault(name, record.until)
                if name in ended:
                    stuck = now - ended[name][0] > DYING
                elif now > record.until and record.pid:
                    ended[name] = now, record
                    end(record.pid)
                    continue
                else:
                    stuck = now - begin > self.silence + LOOK_AGAIN
                if stuck or record.until > first:
                    who = record.by, record.run, record.since
                    raise HostBusyError("this host is being probed by %s (run %s) since %s" % who)
            time.sleep(LOOK_AGAIN)
        return [record for _, record in ended.values()]

    def lock_directory(self):
        """Open it anew if the last who needed it has removed it meanwhile."""
        while self.directory is None or os.fstat(self.directory).st_nlink == 0:
            if self.directory is not None:
                os.close(self.directory)
            self.path, self.directory = own_directory(os.environ.get("TMPDIR") or "/tmp")
            fcntl.flock(self.directory, fcntl.LOCK_EX)
        fcntl.flock(self.directory, fcntl.LOCK_EX)

    def others(self):
        """{name: record of another run's agent that is still there}; what nobody holds any more is removed."""
        found = {}
        for name in os.listdir(self.directory):
            if not name.startswith(self.boot):
                continue
            fd = os.open(name, os.O_RDWR | os.O_NOFOLLOW, dir_fd=self.directory)
            try:
                pid = holder(fd)
                if pid is None:
                    os.unlink(name, dir_fd=self.directory)
                    continue
                record = Record(fd, pid)
                if record.run != self.run:
                    found[name] = record
            except (ValueError, KeyError, TypeError):
                pass  # no record of ours
            finally:
                os.close(fd)
        return found

    def write(self):
        about = {"run": self.run, "by": self.by, "since": time.strftime("%Y-%m-%d %H:%M")}
        text = _TIME % (time.monotonic() + self.patience) + json.dumps(about)
        name = self.boot + "-" + os.urandom(8).hex()
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        fd = os.open(name, flags, 0o600, dir_fd=self.directory)
        fcntl.lockf(fd, fcntl.LOCK_EX)
        os.write(fd, text.encode())
        self.name, self.fd = name, fd

    def renew(self):
        """The controller was heard of. Should the agent be unable to end itself in time, its alarm does."""
        signal.alarm(int(self.silence) + DYING)
        if self.fd is not None:
            os.pwrite(self.fd, (_TIME % (time.monotonic() + self.silence)).encode(), 0)

    def give_back(self):
        """Leave nothing, not even the directory where nobody else needs it."""
        if self.fd is not None:
            try:
                self.lock_directory()
                os.unlink(self.name, dir_fd=self.directory)
                os.rmdir(self.path)
            except OSError:
                pass  # somebody has cleaned up, or has a record there


def own_directory(parent):
    """Path of the directory for records and its descriptor; it is made if it is not there. Raises OSError if it is not
    this user's alone."""
    path = os.path.join(parent, "preflight-%d" % os.geteuid())
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    status = os.fstat(fd)
    if status.st_uid != os.geteuid() or status.st_mode & 0o077:
        os.close(fd)
        raise PermissionError("%s is not a directory of this user alone" % path)
    return path, fd


def holder(fd):
    """pid of the process that has locked the file; None: nobody; 0: one that is not seen from this container."""
    asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    kind, _, _, _, pid = struct.unpack(_FLOCK, fcntl.fcntl(fd, fcntl.F_GETLK, asked))
    return None if kind == fcntl.F_UNLCK else max(0, pid)


def end(pid):
    """SIGKILL for an agent and all that descends from it. It is stopped first, so that nobody new comes; those whose
    parents die become its children and not init's, stopped or not."""
    try:
        os.kill(pid, signal.SIGSTOP)
        end_descendants(pid)
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # it has just ended
