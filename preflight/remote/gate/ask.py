"""Answer within a fixed time, whatever hangs: a child runs the checks, and its parent waits up to a limit."""

import json
import os
import select
import signal
import time

from gate.answer import answer_from, unknown_answer

SECONDS = 7.5  # seconds until the parent answers by itself
CHILD = 8  # seconds after which a child ends by itself: its parent may have been killed
RECORD = 0.3  # seconds by which recording an answer may delay it
LIMIT = 256 * 1024  # bytes of the child's messages


def working(work, descriptor):
    """Run the work in the child: in its own process group with its children, and with an alarm that ends it if no other
    process can."""

    def say(**words):
        os.write(descriptor, json.dumps(words).encode() + b"\n")

    os.setpgid(0, 0)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)  # a reader of our parent's output must not wait for a child that the kernel holds
    os.dup2(null, 2)
    for number in (signal.SIGALRM, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.alarm(CHILD)
    try:
        work(say)
    except Exception as error:
        say(trouble="%s: %.200s" % (type(error).__name__, error))


class Child:
    """Process that runs `work(say)` and leaves. Each call of `say(**words)` sends back a JSON object on one line."""

    def __init__(self, work):
        self.descriptor, child_end = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(self.descriptor)
                working(work, child_end)
            finally:
                os._exit(0)
        os.close(child_end)
        self.received = b""

    def next_message(self, until):
        """Return the next object; None where there is none before `until` (time.monotonic), or none to come."""
        poll = select.poll()
        poll.register(self.descriptor, select.POLLIN)
        while b"\n" not in self.received:
            if len(self.received) > LIMIT or not poll.poll(max(0, until - time.monotonic()) * 1000):
                return None
            part = os.read(self.descriptor, 65536)
            if not part:
                return None
            self.received += part
        line, _, self.received = self.received.partition(b"\n")
        return json.loads(line.decode())

    def end(self):
        """Kill the process and its children; one that the kernel holds is left to its alarm."""
        os.close(self.descriptor)
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except OSError:
            pass  # the child has ended, or is not yet a group: then its alarm ends it


def record_in_child(write):
    """Call `write` in a child, and wait a short time: a disk may hang as any other part may."""
    writer = Child(lambda _: write())
    writer.next_message(time.monotonic() + RECORD)
    writer.end()


def ask(context, environment, seconds=SECONDS, root="/", owner=0):
    """Return the answer, which has been written down. `root` and `owner` are for tests, as in decide.py."""
    begin = time.monotonic()
    until = begin + seconds
    host_name = environment.get("SLURMD_NODENAME") or os.uname()[1]
    progress = {"host": host_name, "opens": None, "at": "the start", "trouble": "the check was ended"}

    def run_checks(say):
        from gate.decide import Files, decide  # in the child: no disk that hangs holds its parent

        answer = decide(context, environment, say, Files(root, owner))
        say(answer=answer.fields())
        write(answer)

    def write(answer):
        from gate.record import record

        record(answer, environment, root, seconds=round(time.monotonic() - begin, 3))

    child = Child(run_checks)
    try:
        message = child.next_message(until)
        while message is not None and "answer" not in message:
            progress.update(message)
            message = child.next_message(until)
        if message is not None:
            child.next_message(time.monotonic() + RECORD)  # wait for the child's end: until then it records the answer
            return answer_from(message["answer"])
        timed_out = time.monotonic() >= until
    finally:
        child.end()
    cause = "no answer within %g s" % seconds if timed_out else progress["trouble"]
    answer = unknown_answer(context, progress["host"], "%s (during %s)" % (cause, progress["at"]), progress["opens"])
    record_in_child(lambda: write(answer))
    return answer
