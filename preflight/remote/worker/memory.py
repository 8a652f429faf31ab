"""Memory that the tests need, checked before any of it is allocated."""

from worker.pattern import IN_PLACE, bytes_of_piece, received_pieces, sent_pieces


def needed(test, rank, size):
    """Return the bytes that a test takes at a rank, on its device, and at most as many on the host, where values are
    compared.

    They are its inputs, its results, and the results once more, because backends copy them. HCCL gathers at all ranks.
    """
    sent = len(sent_pieces(test["op"], rank, test["root"], size))
    receiver = test["root"] if test["op"] == "gather" else rank
    received = max(1, len(received_pieces(test["op"], receiver, test["root"], size)))
    pieces = 2 * received if test["op"] in IN_PLACE else sent + 2 * received
    return pieces * bytes_of_piece(test, size)


def fits(spec, access):
    """Raise RuntimeError if the largest test does not fit in the device's memory, or for all ranks at once in the
    host's.

    An allocator that runs out later would look like a fault, and a host that runs out kills any process.
    """
    memory = access.memory(spec["device"])
    need = max([needed(test, spec["rank"], spec["size"]) for test in spec["tests"]] or [0])
    if memory and memory[0] < need:
        raise RuntimeError(
            "the device has %d MiB of free memory, but %d MiB are needed" % (memory[0] >> 20, need >> 20)
        )
    ranks = len(spec["workers"])
    free = _host_memory()
    if free is not None and free < need * ranks:
        raise RuntimeError(
            "the host has %d MiB of free memory, but its %d ranks need %d MiB" % (free >> 20, ranks, need * ranks >> 20)
        )


def room(spec, access):
    """Return the bytes that a device alone may take for a test without a required size.

    That is a tenth of the device's free memory, and so much of the host's memory that 16 devices leave half of it.
    """
    memory, free = access.memory(spec["device"]), _host_memory()
    limits = [memory[0] // 10] if memory else []
    limits += [free // 32] if free is not None else []
    return min(limits or [1 << 28])


def _host_memory():
    """Return the bytes that are available without swapping; None if the kernel does not report them."""
    with open("/proc/meminfo") as lines:
        kibibytes = [int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    return kibibytes[0] << 10 if kibibytes else None
