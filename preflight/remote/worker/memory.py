"""Is there room for the tests, before anybody allocates?"""

from worker.pattern import IN_PLACE, brought, bytes_of_piece, given


def needed(test, rank, size):
    """Bytes that a test takes at a rank, on its device, and at most as many on the host, where values are compared:
    what it gives, what comes out, and that once more, because backends copy it. HCCL gathers at all ranks."""
    gives = len(given(test["op"], rank, test["root"], size))
    receiver = test["root"] if test["op"] == "gather" else rank
    brings = max(1, len(brought(test["op"], receiver, test["root"], size)))
    pieces = 2 * brings if test["op"] in IN_PLACE else gives + 2 * brings
    return pieces * bytes_of_piece(test, size)


def fits(spec, access):
    """The test that takes most must fit, on the device and, for all ranks of the host at once, in the host's memory.

    An allocator that runs out later would look like a fault, and a host that runs out kills whom it likes.
    """
    memory = access.memory(spec["device"])
    need = max([needed(test, spec["rank"], spec["size"]) for test in spec["tests"]] or [0])
    if memory and memory[0] < need:
        raise RuntimeError("%d MiB of memory are free on the device, %d are needed" % (memory[0] >> 20, need >> 20))
    ranks = len(spec["workers"])
    free = _host_memory()
    if free is not None and free < need * ranks:
        raise RuntimeError(
            "%d MiB of the host's memory are free, its %d ranks need %d" % (free >> 20, ranks, need * ranks >> 20)
        )


def room(spec, access):
    """Bytes that a device alone may take for a test that has no size which it must have: a tenth of what is free on it,
    and of the host's memory so much that 16 devices leave half of it."""
    memory, free = access.memory(spec["device"]), _host_memory()
    limits = [memory[0] // 10] if memory else []
    limits += [free // 32] if free is not None else []
    return min(limits or [1 << 28])


def _host_memory():
    """Bytes that can be had without swapping, None if the kernel does not say."""
    with open("/proc/meminfo") as lines:
        kibibytes = [int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    return kibibytes[0] << 10 if kibibytes else None
