"""What Nagios and node-problem-detector read of the gate's answer."""

import json
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from gate.outputs import render
from hypothesis import given, settings
from hypothesis import strategies as st

ROOT = Path(__file__).parents[3]
BROKEN = {"check": "NPU107", "outcome": "fail", "device": 3, "summary": "node01: device 3: link down"}
HOT = {"check": "NPU110", "outcome": "warn", "device": 1, "summary": "device 1: 84 C"}
OLD = {"check": "verdict", "outcome": "unknown", "device": None, "summary": "the verdict is 3 d old"}


@dataclass
class Answer:
    """As the node's gate has it."""

    outcome: str
    sentence: str = "node01 is healthy"
    reasons: list[dict[str, Any]] = field(default_factory=list)
    age: float | None = 59.7
    open: bool = True
    context: str = "health"
    host: str = "node01"


@pytest.mark.parametrize(
    ("answer", "line", "code"),
    [
        (Answer("pass"), "PREFLIGHT OK - node01 is healthy | age=59s;;;0 problems=0;;;0", 0),
        (Answer("warn", "hot", [HOT]), "PREFLIGHT WARNING - hot | age=59s;;;0 problems=1;;;0", 1),
        (Answer("fail", "bad", [BROKEN, HOT]), "PREFLIGHT CRITICAL - bad | age=59s;;;0 problems=2;;;0", 2),
        (Answer("unknown", "old", [OLD], None), "PREFLIGHT UNKNOWN - old | age=U;;;0 problems=1;;;0", 3),
        (Answer("what?", "odd"), "PREFLIGHT UNKNOWN - odd | age=59s;;;0 problems=0;;;0", 3),
        (Answer("pass", age=-5.0), "PREFLIGHT OK - node01 is healthy | age=0s;;;0 problems=0;;;0", 0),
    ],
)
def test_nagios_has_its_state_the_sentence_and_figures_in_the_first_line(answer: Answer, line: str, code: int) -> None:
    text, found = render(answer, "nagios")
    assert (text.split("\n")[0], found) == (line, code)


def test_nagios_has_a_line_for_each_reason_and_counts_those_beyond_fifteen() -> None:
    assert render(Answer("fail", "bad", [BROKEN, HOT]), "nagios")[0].split("\n")[1:] == [
        "CRITICAL NPU107 device 3: link down",
        "WARNING NPU110 device 1: 84 C",
    ]
    assert render(Answer("fail", "bad", [BROKEN] * 25), "nagios")[0].endswith("link down\nand 10 more")


@pytest.mark.parametrize(
    ("answer", "line", "code"),
    [
        (Answer("pass"), "preflight: good", 0),
        (Answer("warn", reasons=[HOT]), "preflight: NPU110 device 1: 84 C", 0),
        (Answer("fail", reasons=[BROKEN, HOT]), "preflight: NPU107 device 3: link down", 1),
        (Answer("fail", reasons=[BROKEN, BROKEN]), "preflight: NPU107 device 3: link down (+1)", 1),
        (Answer("unknown", reasons=[OLD]), "preflight: verdict the verdict is 3 d old", 2),
        (Answer("what?", "odd"), "preflight: odd", 2),
        (
            Answer("fail", reasons=[BROKEN | {"summary": "x" * 90}] * 12),
            "preflight: NPU107 " + "x" * 53 + "... (+11)",
            1,
        ),
    ],
)
def test_node_problem_detector_has_one_short_line(answer: Answer, line: str, code: int) -> None:
    assert render(answer, "npd") == (line, code)
    assert len(line) <= 80


@pytest.mark.parametrize("trouble", ["1 / 0", "__import__('time').sleep(60)"], ids=["a bug", "a hang"])
@pytest.mark.parametrize(("form", "code"), [("nagios", 3), ("npd", 2), ("text", 0)])
def test_a_gate_that_fails_itself_is_unknown_to_monitoring(form: str, code: int, trouble: str) -> None:
    """Its policy may be open: jobs run, and monitoring is told all the same."""
    program = f"import gate.ask, gate.main; gate.main.HARD = 0.3; gate.ask.ask = lambda *_: {trouble}; gate.main.main()"
    command = [sys.executable, "-c", program, "--local", "--context", "health", "-o", form]
    remote = {"PYTHONPATH": str(ROOT / "preflight" / "remote")}
    done = subprocess.run(command, env=remote, capture_output=True, check=False)
    assert done.returncode == code, done.stderr


texts = st.text(max_size=300)
reasons = st.fixed_dictionaries(
    {"check": texts, "outcome": st.sampled_from(["fail", "unknown", "warn"]), "device": st.none(), "summary": texts}
)
answers = st.builds(
    Answer,
    st.sampled_from(["pass", "warn", "fail", "unknown"]),
    texts,
    st.lists(reasons, max_size=30),
    st.none() | st.floats(0, 1e9),
)


@settings(deadline=None)
@given(answers)
def test_whatever_a_tool_has_said_stays_words(answer: Answer) -> None:
    """No bar but ours, no line that is not ours, no byte beyond ASCII, and never longer than is read."""
    text, code = render(answer, "nagios")
    first, *others = text.split("\n")
    assert re.fullmatch(r"PREFLIGHT [A-Z]+ - [ -{}~]* \| age=(U|\d+s);;;0 problems=\d+;;;0", first)
    assert all(re.fullmatch(r"[ -{}~]{1,200}", line) for line in others)
    assert len(text) <= 4096
    assert code == ["pass", "warn", "fail", "unknown"].index(answer.outcome)
    line, _ = render(answer, "npd")
    assert re.fullmatch(r"preflight: [ -{}~]{0,69}", line)


def test_the_configuration_in_the_docs_is_one_that_node_problem_detector_takes() -> None:
    """Its rules (docs/custom_plugin_monitor.md there): a rule's timeout is within the global one, a permanent rule has
    a condition of the list, and lines are cut where ours end."""
    page = (ROOT / "docs" / "kubernetes.md").read_text()
    (text,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    config = json.loads(text)
    assert (config["plugin"], config["pluginConfig"]["max_output_length"]) == ("custom", 80)
    (condition,) = config["conditions"]
    (rule,) = config["rules"]
    assert (rule["type"], rule["condition"]) == ("permanent", condition["type"])
    assert int(rule["timeout"].rstrip("s")) <= int(config["pluginConfig"]["timeout"].rstrip("s"))
    assert condition["message"] == render(Answer("pass"), "npd")[0]
    assert rule["args"][-2:] == ["-o", "npd"]
