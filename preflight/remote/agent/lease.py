"""Records of the agents that probe this host. Each agent keeps a record for its life, so that the next agent finds the
remains of a crashed run.

A record has the name of the agent's user, and the time until which the next sign of life is due. It is due `silence`
seconds after the last sign of life of the controller, which sends one every few seconds. While torch is imported it is
due later, because stdin is not read then. An agent with an overdue record ends itself, or is ended by its alarm. The
kernel tells which process holds a record (POSIX lock). So a record of the past means nothing, and no other process is
ever taken for an agent.

Cases of another run's record:

- Its time moves on: that run is alive, and this run has to do without the host.
- Its time is over, but its holder is alive: the holder is stopped, or the end of its run never reached it. The holder
  is ended, with all its descendants.
- Neither yet: the record is read again, for `silence` seconds at most.

Records are in a private directory of the user below $TMPDIR or /tmp, so only the user of an agent can read its record
or end it. Their names begin with the boot's id, because locks and pids of other machines mean nothing here, should
$TMPDIR be shared. Times are those of the monotonic clock, which is the same for all processes and cannot be set.
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
_TIME = "%020.3f\n"  # first line of a record: the time until which its holder's next sign of life is due


class HostBusyError(Exception):
    """Another run that probes this host."""


class Record:
    """The record of another run's agent, which holds it."""

    def __init__(self, fd, pid):
        self.pid = pid  # 0: a process in another container
        line, _, text = os.pread(fd, 4096, 0).decode("utf-8").partition("\n")
        self.until, fields = float(line), json.loads(text)
        self.run, self.by, self.since = (str(fields[name])[:200] for name in ("run", "by", "since"))

    def __str__(self):
        return "run %s of %s, started %s" % (self.run, self.by, self.since)


class Lease:
    """The right of one run to probe this host."""

    def __init__(self, hello):
        self.silence, self.patience, self.by = hello["silence"], hello["patience"], hello["by"]
        self.run = hashlib.sha256(hello["nonce"].encode()).hexdigest()[:8]
        with open("/proc/sys/kernel/random/boot_id") as boot:
            self.boot = boot.read()[:8]
        self.path = self.directory = self.fd = self.name = None

    def take(self):
        """Wait for the host, and return the records of the agents that were ended for it.

        Raise HostBusyError if another run keeps the host. Raise OSError if no record can be kept: the next run could
        not find this agent, should it be left behind.
        """
        begin, first_times, ended = time.monotonic(), {}, {}
        while True:
            self.lock_directory()
            try:
                records = self.other_records()
                if not records:
                    self.write()
                    break
            finally:
                fcntl.flock(self.directory, fcntl.LOCK_UN)
            now = time.monotonic()
            for name, record in records.items():
                first = first_times.setdefault(name, record.until)
                if name in ended:
                    stuck = now - ended[name][0] > DYING
                elif now > record.until and record.pid:
                    ended[name] = now, record
                    end(record.pid)
                    continue
                else:
                    stuck = now - begin > self.silence + LOOK_AGAIN
                if stuck or record.until > first:
                    owner = record.by, record.run, record.since
                    raise HostBusyError("this host is being probed by %s (run %s) since %s" % owner)
            time.sleep(LOOK_AGAIN)
        return [record for _, record in ended.values()]

    def lock_directory(self):
        """Lock the directory, and open it anew if the last agent that needed it has removed it meanwhile."""
        while self.directory is None or os.fstat(self.directory).st_nlink == 0:
            if self.directory is not None:
                os.close(self.directory)
            self.path, self.directory = own_directory(os.environ.get("TMPDIR") or "/tmp")
            fcntl.flock(self.directory, fcntl.LOCK_EX)
        fcntl.flock(self.directory, fcntl.LOCK_EX)

    def other_records(self):
        """Return {name: record} of other runs' agents that are still alive. Remove records that no process holds any
        more."""
        records = {}
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
                    records[name] = record
            except (ValueError, KeyError, TypeError):
                pass  # not a record of an agent
            finally:
                os.close(fd)
        return records

    def write(self):
        fields = {"run": self.run, "by": self.by, "since": time.strftime("%Y-%m-%d %H:%M")}
        text = _TIME % (time.monotonic() + self.patience) + json.dumps(fields)
        name = self.boot + "-" + os.urandom(8).hex()
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        fd = os.open(name, flags, 0o600, dir_fd=self.directory)
        fcntl.lockf(fd, fcntl.LOCK_EX)
        os.write(fd, text.encode())
        self.name, self.fd = name, fd

    def renew(self):
        """Prolong the lease after a sign of life of the controller. Should the agent be unable to end itself in time,
        its alarm does."""
        signal.alarm(int(self.silence) + DYING)
        if self.fd is not None:
            os.pwrite(self.fd, (_TIME % (time.monotonic() + self.silence)).encode(), 0)

    def give_back(self):
        """Remove the record, and the directory unless another agent needs it."""
        if self.fd is not None:
            try:
                self.lock_directory()
                os.unlink(self.name, dir_fd=self.directory)
                os.rmdir(self.path)
            except OSError:
                pass  # the record is gone already, or another agent has a record there


def own_directory(parent):
    """Return the path and the descriptor of the directory for records, after making it if it is missing.

    Raise OSError if it is not this user's alone.
    """
    path = os.path.join(parent, "preflight-%d" % os.geteuid())
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    status = os.fstat(fd)
    if status.st_uid != os.geteuid() or status.st_mode & 0o077:
        os.close(fd)
        raise PermissionError("%s is not a directory that only this user can write to" % path)
    return path, fd


def holder(fd):
    """Return the pid of the process that has locked the file, or None if it is not locked.

    The pid is 0 for a process that is not visible in this container.
    """
    query = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    kind, _, _, _, pid = struct.unpack(_FLOCK, fcntl.fcntl(fd, fcntl.F_GETLK, query))
    return None if kind == fcntl.F_UNLCK else max(0, pid)


def end(pid):
    """Send SIGKILL to an agent and all its descendants.

    The agent is stopped first, so that it starts no new process. Orphaned descendants become its children and not
    init's, stopped or not.
    """
    try:
        os.kill(pid, signal.SIGSTOP)
        end_descendants(pid)
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # it has just ended
