"""Answers in the form that monitoring systems read.

`nagios` is a plugin's output and exit code (the Monitoring Plugins' guidelines; Icinga and Naemon, too). `npd` is that
of a custom plugin of Kubernetes' node-problem-detector, which cuts its line after 80 bytes.
"""

import json

LINE = 200  # characters of Nagios' first line before its performance data
MORE = 15  # reasons after it; Nagios reads 4 KiB in all
SHORT = 80  # characters of node-problem-detector's line: its max_output_length
_STATES = {"pass": ("OK", 0), "warn": ("WARNING", 1), "fail": ("CRITICAL", 2), "unknown": ("UNKNOWN", 3)}
_NPD_CODES = {"pass": 0, "warn": 0, "fail": 1}  # anything else: 2, its Unknown


def render(answer, form):
    """Return (text without its last newline, exit code) of a GateAnswer. `form`: json, nagios or npd."""
    return {"json": _json, "nagios": _nagios, "npd": _npd}[form](answer)


def _json(answer):
    return json.dumps(answer.fields()), answer.code()


def _nagios(answer):
    state, code = _STATES.get(answer.outcome, _STATES["unknown"])
    problems = [problem for problem in answer.reasons if problem["outcome"] != "pass"]
    age = "U" if answer.age is None else "%ds" % max(0, answer.age)  # U: not known
    first_line = _cut("PREFLIGHT %s - %s" % (state, _harmless(answer.sentence)), LINE)
    lines = ["%s | age=%s;;;0 problems=%d;;;0" % (first_line, age, len(problems))]
    for problem in problems[:MORE]:
        state = _STATES.get(problem["outcome"], _STATES["unknown"])[0]
        lines.append(_cut("%s %s" % (state, _subject(problem, answer.host)), LINE))
    if len(problems) > MORE:
        lines.append("and %d more" % (len(problems) - MORE))
    return "\n".join(lines), code


def _npd(answer):
    problems = [reason for reason in answer.reasons if reason["outcome"] == answer.outcome]
    if answer.outcome == "pass":
        text = "preflight: good"
    elif problems:
        suffix = " (+%d)" % (len(problems) - 1) if len(problems) > 1 else ""
        text = _cut("preflight: " + _subject(problems[0], answer.host), SHORT - len(suffix)) + suffix
    else:
        text = "preflight: " + _harmless(answer.sentence)
    return _cut(text, SHORT), _NPD_CODES.get(answer.outcome, 2)


def _subject(reason, host):
    """Return a reason in one line, without the host's name. The summary names the device where there is one."""
    summary, prefix = reason["summary"], host + ": "
    return _harmless("%s %s" % (reason["check"], summary[len(prefix) :] if summary.startswith(prefix) else summary))


def _harmless(text):
    """Return the text as one line of ASCII, so that bytes equal characters, without the bar that starts Nagios'
    performance data."""
    return "".join(letter if " " <= letter <= "~" else "?" for letter in " ".join(text.split()).replace("|", "/"))


def _cut(text, length):
    return text if len(text) <= length else text[: length - 3] + "..."
