"""The answer within a time that holds whatever hangs: a child looks, its parent waits so long and no longer."""

import json
import os
import select
import signal
import time

from gate.answer import nobody_knows, opened

SECONDS = 7.5  # until the parent answers by itself
CHILD = 8  # seconds after which a child ends by itself: its parent may have been killed
RECORD = 0.3  # seconds that writing an answer down may hold it up
LIMIT = 256 * 1024  # bytes of what the child says


def working(work, descriptor):
    """The child's life: a group of its own, with what it starts, and an alarm that ends it where nobody else can."""

    def say(**words):
        os.write(descriptor, json.dumps(words).encode() + b"\n")

    os.setpgid(0, 0)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 1)  # whoever reads our parent's output must not wait for a child that the kernel holds
    os.dup2(nothing, 2)
    for number in (signal.SIGALRM, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.alarm(CHILD)
    try:
        work(say)
    except Exception as error:
        say(trouble="%s: %.200s" % (type(error).__name__, error))


class Child:
    """A process that runs `work(say)` and leaves; what it says with `say(**words)` comes back a JSON object a line."""

    def __init__(self, work):
        self.descriptor, theirs = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(self.descriptor)
                working(work, theirs)
            finally:
                os._exit(0)
        os.close(theirs)
        self.heard = b""

    def said(self, until):
        """The next object, None where there is none before `until` (time.monotonic), or none to come."""
        waiting = select.poll()
        waiting.register(self.descriptor, select.POLLIN)
        while b"\n" not in self.heard:
            if len(self.heard) > LIMIT or not waiting.poll(max(0, until - time.monotonic()) * 1000):
                return None
            part = os.read(self.descriptor, 65536)
            if not part:
                return None
            self.heard += part
        line, _, self.heard = self.heard.partition(b"\n")
        return json.loads(line.decode())

    def end(self):
        """Kill it and what it has started; one that the kernel holds is left to it."""
        os.close(self.descriptor)
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except OSError:
            pass  # it has ended, or is not yet a group: then its alarm ends it


def ask(context, environment, seconds=SECONDS, root="/", owner=0):
    """The answer, which has been written down. `root` and `owner` are for tests, as in decide.py."""
    begin = time.monotonic()
    until = begin + seconds
    here = environment.get("SLURMD_NODENAME") or os.uname()[1]
    known = {"host": here, "opens": None, "at": "its start", "trouble": "what looks was ended"}

    def look(say):
        from gate.decide import decide

        answer = decide(context, environment, say, root, owner)
        say(answer=answer.fields())
        write(answer)

    def write(answer):
        from gate.record import record

        record(answer, environment, root, seconds=round(time.monotonic() - begin, 3))

    child = Child(look)
    try:
        words = child.said(until)
        while words is not None and "answer" not in words:
            known.update(words)
            words = child.said(until)
        if words is not None:
            child.said(time.monotonic() + RECORD)  # its end: until then it writes the answer down
            return opened(words["answer"])
        late = time.monotonic() >= until
    finally:
        child.end()
    why = "no answer within %g s" % seconds if late else known["trouble"]
    answer = nobody_knows(context, known["host"], "%s, at %s" % (why, known["at"]), known["opens"])
    writer = Child(lambda _: write(answer))
    writer.said(time.monotonic() + RECORD)
    writer.end()
    return answer
