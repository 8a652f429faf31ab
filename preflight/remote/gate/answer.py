"""The gate's answer, and how it reads."""

WORST_FIRST = ("fail", "unknown", "warn", "pass")
SENTENCE = 400  # characters at most; summaries come from verdicts and tools
FOUND = " (found "  # begins what says how old a failure of a verdict is
JOB_CONTEXTS = ("job", "init")  # a policy that nobody can read leaves these closed, and the scheduler's open


class Answer:
    """May a job start here?

    context   who asks: prolog, epilog, task, health, job or init
    host      this host's name in the inventory, or its own
    outcome   pass, warn, fail or unknown: what is known of the host, after required, optional and off
    open      whether the job may run: not where the outcome is fail; where it is unknown, as the policy says
    reasons   [{"check", "outcome", "device", "summary"}], the worst first; "verdict" and "gate" in the place of a
              check's id are troubles of these themselves
    sentence  one line
    age       seconds since the oldest of the looks that count, None where none does
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
        """What JSON carries of it."""
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
        """The sentence; the reasons below it, where it does not name them all."""
        lines = [self.sentence]
        if len(self.reasons) > 1:
            lines += ["  %-8s%-8s%s" % (one["outcome"], one["check"], one_line(one["summary"])) for one in self.reasons]
        return "\n".join(lines)

    def code(self):
        """The exit code of `preflight-gate` (docs/gate.md)."""
        code = 0 if self.open else 1 if self.outcome == "fail" else 3
        return {1: 42, 3: 43}.get(code, code) if self.context == "init" else code


def opened(fields):
    """The answer that `fields` says."""
    answer = Answer(fields["context"], fields["host"], fields["outcome"], fields["reasons"], fields["open"])
    answer.age, answer.sentence = fields["age"], fields["sentence"]
    return answer


def reason(check, outcome, summary, device=None):
    return {"check": check, "outcome": outcome, "device": device, "summary": summary}


def nobody_knows(context, host, summary, opens_unknown=None):
    """Unknown, because of the gate itself. Without a policy: what is asked within a job closes, the rest opens."""
    opens = context not in JOB_CONTEXTS if opens_unknown is None else opens_unknown
    return Answer(context, host, "unknown", [reason("gate", "unknown", summary)], opens)


def worst(outcomes):
    return min(outcomes, key=WORST_FIRST.index, default="pass")


def told(context, host, outcome, reasons, is_open, age):
    """The answer in one line."""
    looked = "" if age is None else "; looked at %s ago" % span(age)
    if outcome == "pass":
        return "%s is good%s" % (host, looked)
    first = [one for one in reasons if one["outcome"] == outcome]
    words = "%s: %s" % (first[0]["check"], first[0]["summary"]) if first else "no reason was given"
    more = " (and %d more)" % (len(first) - 1) if len(first) > 1 else ""
    head = {"fail": "%s is broken", "warn": "%s may run jobs", "unknown": "nobody knows whether %s is good"}[outcome]
    if outcome == "fail" and context == "task":
        head = "this task cannot run on %s"
    policy = ""
    if outcome == "unknown":
        policy = "; jobs run all the same" if is_open else "; no job runs until that is known"
    return one_line("%s: %s%s" % (head % host, words, more))[: SENTENCE - len(policy)] + policy


def one_line(text):
    """Without what moves a terminal's cursor, or makes two lines of one."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def span(seconds):
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return "%d %s" % (seconds // size, unit)
    return "%d s" % max(0, seconds)
