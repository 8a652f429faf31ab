"""Who is there: ranks see one another arrive at the place where they meet, and say who is missing."""

import time

WORD = 60  # ranks whose presence one number of the store says (it has 64 bits, one of them the sign)
LOOKS = 640  # a second, by all ranks of the group together: they cost whoever serves the store
SAY = 1.0  # seconds between two words of a rank about who is missing
NAMED = 32  # missing ranks in one word, at most


def roll_call(store, rank, size, timeout, say):
    """Come, and wait until all others have come. Raises TimeoutError, which names the missing, after `timeout` seconds.

    A rank adds its bit to a number in the store, and all read these numbers: one round trip a look, in every version of
    torch. Store.wait() would not say who is missing; and with an old torch, a connection that waited in vain cannot be
    used any more.
    """
    words = [0] * -(-size // WORD)
    full = [(1 << min(WORD, size - WORD * number)) - 1 for number in range(len(words))]
    begin = time.monotonic()
    told_at, told, pause = begin, None, 0.01
    store.add(_key(rank // WORD), 1 << rank % WORD)
    while True:
        for number in [n for n in range(len(words)) if words[n] != full[n]]:
            words[number] = store.add(_key(number), 0)
            if words[number] != full[number]:
                break  # one look a round
        if words == full:
            return
        now = time.monotonic()
        late = now - begin > timeout
        if late or now - told_at > SAY:
            words = [store.add(_key(number), 0) for number in range(len(words))]
            missing = [n for n in range(size) if not words[n // WORD] >> n % WORD & 1]
            if missing != told:
                say({"at": "waits", "present": size - len(missing), "missing": missing[:NAMED]})
            told_at, told = now, missing
        if late and words != full:
            names = ", ".join(map(str, told[:NAMED])) + (" ..." if len(told) > NAMED else "")
            raise TimeoutError("%d of %d ranks came within %.0f s, not %s" % (size - len(told), size, timeout, names))
        time.sleep(pause)
        pause = min(1.5 * pause, max(0.1, size / LOOKS))


def _key(number):
    return "here/%d" % number
