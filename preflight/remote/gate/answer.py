"""Answer of the gate, and its text."""

WORST_FIRST = ("fail", "unknown", "warn", "pass")
SENTENCE = 400  # most characters; summaries come from verdicts and tools
FOUND = " (found "  # begins the note on the age of a verdict's failure
JOB_CONTEXTS = ("job", "init")  # an unreadable policy leaves these closed, and the scheduler's contexts open


class GateAnswer:
    """Answer to the question whether a job may start here.

    `context`   The asking context: prolog, epilog, task, health, job or init.
    `host`      This host's name in the inventory, or its own.
    `outcome`   State of the host after required, optional and off: pass, warn, fail or unknown.
    `open`      True if the job may run: never with the outcome fail. With unknown the policy decides.
    `reasons`   [{"check", "outcome", "device", "summary"}], the worst first. In the place of a check's id,
                "verdict" and "gate" mark errors of these themselves.
    `age`       Seconds since the oldest run that counts, None where none does.
    """

    age = None

    def __init__(self, context, host, outcome, reasons, opens_unknown):
        self.context = context
        self.host = host
        self.outcome = outcome
        self.reasons = reasons
        self.open = outcome in ("pass", "warn") or (outcome == "unknown" and opens_unknown)

    @property
    def sentence(self):
        """Return the answer in one line."""
        if self.outcome == "pass":
            return "%s is healthy%s" % (self.host, "" if self.age is None else ", checked %s ago" % span(self.age))
        policy = ""
        if self.outcome == "unknown":
            policy = ". Jobs run anyway" if self.open else ". No job runs until the state is known"
        return one_line("%s: %s" % (self._state(), self._cause()))[: SENTENCE - len(policy)] + policy

    def _state(self):
        if self.outcome == "fail":
            return ("this task cannot run on %s" if self.context == "task" else "%s is broken") % self.host
        return {"warn": "%s may run jobs", "unknown": "the state of %s is unknown"}[self.outcome] % self.host

    def _cause(self):
        causes = [reason for reason in self.reasons if reason["outcome"] == self.outcome]
        if not causes:
            return "no reason was given"
        suffix = " (and %d more)" % (len(causes) - 1) if len(causes) > 1 else ""
        return "%s: %s%s" % (causes[0]["check"], causes[0]["summary"], suffix)

    def fields(self):
        """Return the answer's fields for JSON."""
        return {
            "schema": "preflight.gate-answer/1",
            "host": self.host,
            "context": self.context,
            "outcome": self.outcome,
            "open": self.open,
            "age": self.age,
            "sentence": self.sentence,
            "reasons": self.reasons,
        }

    def text(self):
        """Return the sentence, with the reasons below it if there are several."""
        lines = [self.sentence]
        if len(self.reasons) > 1:
            lines += [
                "  %-8s%-8s%s" % (reason["outcome"], reason["check"], one_line(reason["summary"]))
                for reason in self.reasons
            ]
        return "\n".join(lines)

    def code(self):
        """Return the exit code of `preflight-gate` (docs/gate.md)."""
        code = 0 if self.open else 1 if self.outcome == "fail" else 3
        return {1: 42, 3: 43}.get(code, code) if self.context == "init" else code


def answer_from(fields):
    """Return the answer with these fields."""
    answer = GateAnswer(fields["context"], fields["host"], fields["outcome"], fields["reasons"], fields["open"])
    answer.age = fields["age"]
    return answer


def reason(check, outcome, summary, device=None):
    return {"check": check, "outcome": outcome, "device": device, "summary": summary}


def unknown_answer(context, host, summary, opens_unknown=None):
    """Return the answer "unknown" for an error of the gate itself. Without a policy, requests from within a job close
    and the other contexts open."""
    opens = context not in JOB_CONTEXTS if opens_unknown is None else opens_unknown
    return GateAnswer(context, host, "unknown", [reason("gate", "unknown", summary)], opens)


def worst(outcomes):
    return min(outcomes, key=WORST_FIRST.index, default="pass")


def one_line(text):
    """Return the text without characters that move a terminal's cursor or break the line."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def span(seconds):
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return "%d %s" % (seconds // size, unit)
    return "%d s" % max(0, seconds)
