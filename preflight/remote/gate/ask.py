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


class Child:
    """A process that runs `work(say)` and leaves; what it says with `say(**words)` comes back a JSON object a line."""

    def __init__(self, work):
        self.descriptor, theirs = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.setpgid(0, 0)
                for number in (signal.SIGALRM, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                    signal.signal(number, signal.SIG_DFL)
                signal.pthread_sigmask(signal.SIG_SETMASK, ())
                signal.alarm(CHILD)
                os.close(self.descriptor)
                work(lambda **words: os.write(theirs, json.dumps(words).encode() + b"\n"))
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


def ask(context, environment, work=None, seconds=SECONDS):
    """The answer, which has been written down. `work` is for tests."""
    begin = time.monotonic()
    until = begin + seconds
    known = {"host": environment.get("SLURMD_NODENAME") or os.uname()[1], "opens": None, "at": "itself"}
    child = Child(work or (lambda say: look(context, environment, begin, say)))
    try:
        while True:
            words = child.said(until)
            if words is None:
                break
            if "answer" in words:
                child.said(time.monotonic() + RECORD)  # until it has written it down
                return opened(words["answer"])
            known.update(words)
    finally:
        child.end()
    late = time.monotonic() >= until
    why = "there was no answer within %g s" % seconds if late else "what looks has ended without an answer"
    answer = nobody_knows(context, known["host"], "%s, at %s" % (why, known["at"]), known["opens"])
    writer = Child(lambda _: written(answer, environment, begin))
    writer.said(time.monotonic() + RECORD)
    writer.end()
    return answer


def look(context, environment, begin, say):
    from gate.decide import decide

    answer = decide(context, environment, say)
    say(answer=answer.fields())
    written(answer, environment, begin)


def written(answer, environment, begin):
    from gate.record import record

    record(answer, environment, seconds=round(time.monotonic() - begin, 3))
