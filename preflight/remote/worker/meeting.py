"""Meeting places of a group's ranks: a TCPStore that outlives all ranks, or a place that jobs use (`[probe] init`)."""

import datetime
import os
import socket
import stat
import struct
import time

import torch
import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous
from worker.roll_call import roll_call

APPEARS = 10.0  # seconds until rank 0's file is visible on other hosts; rank 0 makes it long before


def serve_store(address, sock):
    """Serve a TCPStore on a listening socket, and return an object to keep alive. It has a thread: only after a
    fork."""
    port = sock.getsockname()[1]
    common = {"is_master": True, "wait_for_workers": False, "timeout": datetime.timedelta(seconds=30)}
    try:
        store = dist.TCPStore(address, port, master_listen_fd=sock.fileno(), **common)
    except TypeError:  # an old torch binds by itself, to all addresses
        sock.shutdown(socket.SHUT_RDWR)  # in case that the agent has not closed its own yet
        sock.close()
        store = dist.TCPStore(address, port, **common)
        reset_at_close(port)
    else:
        sock.detach()  # the store owns it now
    return store


def reset_at_close(port):
    """Have connections of this process at its own `port`, present and future, reset when they are closed or the process
    dies.

    A connection that ends in TIME-WAIT would keep the port from the next job.
    """
    for fd in map(int, os.listdir("/proc/self/fd")):
        try:
            if not stat.S_ISSOCK(os.fstat(fd).st_mode):
                continue
            with socket.fromfd(fd, socket.AF_INET, socket.SOCK_STREAM) as sock:  # whatever its real family is
                name = sock.getsockname()
                if isinstance(name, tuple) and name[1] == port:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except OSError:
            pass  # it was closed in between


def prepare_file(spec):
    """Make the file where ranks meet, if this is rank 0, before anything else. So the other ranks find it."""
    if spec["init"] == "file" and spec["rank"] == 0:
        try:
            _make(spec["file"])
        except OSError:
            pass  # tried again, and reported, when the ranks meet


def _make(path):
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o644))


def _agents_store(spec, timeout):
    address, port = spec["store"]
    return dist.TCPStore(address, port, is_master=False, wait_for_workers=False, timeout=timeout)


def _rendezvous(url, spec, timeout):
    """Do the same as init_process_group(init_method=url), except for the size.

    With the size, torch would let rank 0 wait here for all others, and not report which are missing. The roll-call does
    both.
    """
    size = spec["size"] if spec["init"] == "file" else 1
    store, _, _ = next(rendezvous(url, rank=spec["rank"], world_size=size, timeout=timeout))
    _spare_the_port(spec)  # for connections from now on, should a rank be missing
    return store


def _spare_the_port(spec):
    """Keep the master's port, which rank 0 serves, free for the job that binds it next."""
    if spec["init"] in ("env", "tcp") and spec["rank"] == 0:
        reset_at_close(spec["store"][1])


def _shared_file(spec, timeout):
    """Wait for the file that rank 0 makes, and meet in it.

    A FileStore makes the file that it does not find: where a directory is not shared, ranks would wait for ever.
    """
    folder, name = os.path.split(spec["file"])
    until = time.monotonic() + min(APPEARS, 0.5 * timeout.total_seconds())
    try:
        while name not in os.listdir(folder):
            if spec["rank"] == 0:
                _make(spec["file"])
            elif time.monotonic() > until:
                raise OSError(0, "this is not the same directory as on rank 0: the file %s is missing" % name)
            time.sleep(0.2)
    except OSError as error:
        raise OSError("shared_dir %s: %s" % (folder, error.strerror)) from error
    return _rendezvous("file://" + spec["file"], spec, timeout)


_PLACES = {
    "store": _agents_store,
    "env": lambda spec, timeout: _rendezvous("env://", spec, timeout),
    "tcp": lambda spec, timeout: _rendezvous("tcp://%s:%d" % tuple(spec["store"]), spec, timeout),
    "file": _shared_file,
}


def claim(store, device, rank):
    """Raise RuntimeError if another rank of the group has claimed the same device.

    NCCL would refuse it only when all ranks have met ("Duplicate GPU detected"), and older releases wait for ever.
    """
    if not device:
        return
    if store.add("device/" + device, 1) > 1:
        owner = store.get("owner/" + device).decode()
        raise RuntimeError("Duplicate GPU: rank %d and rank %s are both on %s" % (rank, owner, device))
    store.set("owner/" + device, str(rank))


def join(spec, access, timeout, say):
    """Meet the other ranks and connect with them, up to a first exchange of correct data.

    Return the seconds that connecting took once all ranks were there.
    """
    rank, size = spec["rank"], spec["size"]
    store = dist.PrefixStore(spec["group"], _PLACES[spec["init"]](spec, timeout))
    claim(store, access.identity(spec["device"]), rank)
    say({"at": "stage", "stage": "store"})
    roll_call(store, rank, size, timeout.total_seconds(), say)
    _spare_the_port(spec)  # for connections of faster ranks
    say({"at": "stage", "stage": "peers"})
    begin = time.perf_counter()
    options = access.options(spec)
    dist.init_process_group(
        spec["backend"], store=store, rank=rank, world_size=size, timeout=timeout, pg_options=options
    )
    # The first exchange makes the connections where the backend is lazy. It is not barrier(), which needs hooks of the
    # device type that a stand-in does not have.
    first = torch.ones(1, device=access.place(spec["device"]))
    dist.all_reduce(first)
    access.synchronise()
    if first.item() != size:
        raise RuntimeError("the first all_reduce returned %s instead of %d" % (first.item(), size))
    return time.perf_counter() - begin
