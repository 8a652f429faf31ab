"""Answer of the gate, and its text."""

WORST_FIRST = ("fail", "unknown", "warn", "pass")
SENTENCE = 400  # most characters; summaries come from verdicts and tools
FOUND = " (found "  # begins the note on the age of a verdict's failure
JOB_CONTEXTS = ("job", "init")  # an unreadable policy leaves these closed, and the scheduler's contexts open


class Answer:
    """Answer to the question whether a job may start here.

    `context`   The asking context: prolog, epilog, task, health, job or init.
    `host`      This host's name in the inventory, or its own.
    `outcome`   State of the host after required, optional and off: pass, warn, fail or unknown.
    `open`      True if the job may run: never with the outcome fail. With unknown the policy decides.
    `reasons`   [{"check", "outcome", "device", "summary"}], the worst first. In the place of a check's id,
                "verdict" and "gate" mark errors of these themselves.
    `sentence`  One line.
    `age`       Seconds since the oldest run that counts, None where none does.
    """

    def __init__(self, context, host, outcome, reasons, opens_unknown, age=None, sentence=""):
        self.context = context
        self.host = host
        self.outcome = outcome
        self.reasons = reasons
        self.open = outcome in ("pass", "warn") or (outcome == "unknown" and opens_unknown)
        self.age = age
        self.sentence = sentence or told(context, host, outcome, reasons, self.open, age)

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


def opened(fields):
    """Return the answer with these fields."""
    answer = Answer(fields["context"], fields["host"], fields["outcome"], fields["reasons"], fields["open"])
    answer.age, answer.sentence = fields["age"], fields["sentence"]
    return answer


def reason(check, outcome, summary, device=None):
    return {"check": check, "outcome": outcome, "device": device, "summary": summary}


def nobody_knows(context, host, summary, opens_unknown=None):
    """Return the answer "unknown" for an error of the gate itself. Without a policy, requests from within a job close
    and the other contexts open."""
    opens = context not in JOB_CONTEXTS if opens_unknown is None else opens_unknown
    return Answer(context, host, "unknown", [reason("gate", "unknown", summary)], opens)


def worst(outcomes):
    return min(outcomes, key=WORST_FIRST.index, default="pass")


def told(context, host, outcome, reasons, is_open, age):
    """Return the answer in one line."""
    age_note = "" if age is None else "; looked at %s ago" % span(age)
    if outcome == "pass":
        return "%s is good%s" % (host, age_note)
    causes = [reason for reason in reasons if reason["outcome"] == outcome]
    cause = "%s: %s" % (causes[0]["check"], causes[0]["summary"]) if causes else "no reason was given"
    suffix = " (and %d more)" % (len(causes) - 1) if len(causes) > 1 else ""
    head = {"fail": "%s is broken", "warn": "%s may run jobs", "unknown": "nobody knows whether %s is good"}[outcome]
    if outcome == "fail" and context == "task":
        head = "this task cannot run on %s"
    policy = ""
    if outcome == "unknown":
        policy = "; jobs run all the same" if is_open else "; no job runs until that is known"
    return one_line("%s: %s%s" % (head % host, cause, suffix))[: SENTENCE - len(policy)] + policy


def one_line(text):
    """Return the text without characters that move a terminal's cursor or break the line."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def span(seconds):
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return "%d %s" % (seconds // size, unit)
    return "%d s" % max(0, seconds)
