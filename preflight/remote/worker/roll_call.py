"""Roll-call of a group: ranks wait for one another at their meeting place, and report which ranks are missing."""

import time

WORD = 60  # ranks in one number of the store (it has 64 bits, one of them the sign)
LOOKS = 640  # reads a second, by all ranks of the group together: they load the store's server
SAY = 1.0  # seconds between two reports of a rank about missing ranks
NAMED = 32  # missing ranks in one report, at most


def roll_call(store, rank, size, timeout, say):
    """Report this rank as present, and wait for all others. After `timeout` seconds raise TimeoutError with the missing
    ranks.

    A rank adds its bit to a number in the store, and all ranks read these numbers: one round trip for each read, in
    every version of torch. Store.wait() would not report which ranks are missing. With an old torch, a connection
    cannot be used any more after a wait that timed out.
    """
    roll = Roll(store, size)
    begin = time.monotonic()
    reported_at, absent, pause = begin, None, 0.01
    store.add(_key(rank // WORD), 1 << rank % WORD)
    while not roll.complete():
        now = time.monotonic()
        timed_out = now - begin > timeout
        if timed_out or now - reported_at > SAY:
            missing = roll.missing()
            if missing != absent:
                say({"at": "waits", "present": size - len(missing), "missing": missing[:NAMED]})
            reported_at, absent = now, missing
        if timed_out and absent:
            names = ", ".join(map(str, absent[:NAMED])) + (" ..." if len(absent) > NAMED else "")
            raise TimeoutError(
                "%d of %d ranks connected within %.0f s. Missing ranks: %s" % (size - len(absent), size, timeout, names)
            )
        time.sleep(pause)
        pause = min(1.5 * pause, max(0.1, size / LOOKS))


class Roll:
    """Numbers in the store that have a bit for each rank of a group, as last read."""

    def __init__(self, store, size):
        self.store, self.size = store, size
        self.full_masks = [(1 << min(WORD, size - begin)) - 1 for begin in range(0, size, WORD)]
        self.masks = [0] * len(self.full_masks)

    def complete(self):
        """Return whether no rank is missing. Read the numbers up to the first that lacks a rank: one read a round."""
        for number, full_mask in enumerate(self.full_masks):
            if self.masks[number] != full_mask:
                self.masks[number] = self.store.add(_key(number), 0)
                if self.masks[number] != full_mask:
                    return False
        return True

    def missing(self):
        """Read all numbers, and return the missing ranks."""
        self.masks = [self.store.add(_key(number), 0) for number in range(len(self.masks))]
        return [rank for rank in range(self.size) if not self.masks[rank // WORD] >> rank % WORD & 1]


def _key(number):
    return "here/%d" % number
