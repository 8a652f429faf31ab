"""iptables as the program on the host writes it: our rules one by one, and an emptied chain that comes back whole."""

import subprocess

import pytest

from tests.lab.local_host import LocalHost, change, inside, states

pytestmark = pytest.mark.lab

V4 = "-s 10.0.0.0/16 -p tcp -m multiport --dports 29500,60000:60031 -m comment --comment preflight -j ACCEPT"
OTHER_V4 = V4.replace("10.0.0.0/16", "10.7.0.9/32")
V6 = V4.replace("10.0.0.0/16", "fd00:1::/64")
OTHER_V6 = V4.replace("10.0.0.0/16", "fd00:7::9/128")
PROGRAMS = [
    ("iptables-nft", V4, OTHER_V4),
    ("iptables-legacy", V4, OTHER_V4),
    ("ip6tables-nft", V6, OTHER_V6),
    ("ip6tables-legacy", V6, OTHER_V6),
]
SITE = (
    '-A INPUT -m comment --comment "somebody\'s own" -j ACCEPT',
    "-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT",
    "-A INPUT -j DROP",
)


def listed(host: LocalHost, program: str) -> list[str]:
    return inside(host, program, "-S", "INPUT").splitlines()


@pytest.fixture(params=PROGRAMS, ids=lambda param: param[0])
def chain(netns: LocalHost, request: pytest.FixtureRequest) -> tuple[LocalHost, str, str, str]:
    """A host whose INPUT holds somebody's rules, in this program's tables."""
    program, ours, other = request.param
    for rule in SITE:
        subprocess.run(["sh", "-c", f"{' '.join(netns.inside)} {program} {rule}"], check=True)
    return netns, program, ours, other


def test_our_rules_go_first_and_leave_without_a_trace(chain: tuple[LocalHost, str, str, str]) -> None:
    host, program, ours, other = chain
    before = listed(host, program)
    both = f"{ours}\n{other}"
    assert states(host.apply_confirmed(change("iptables-rules", program, None, both))) == ["done"]
    assert listed(host, program) == [before[0], f"-A INPUT {ours}", f"-A INPUT {other}", *before[1:]]
    assert states(host.apply_confirmed(change("iptables-rules", program, None, both), run="r2")) == ["already"]
    assert states(host.apply_confirmed(change("iptables-rules", program, both, other), run="r3")) == ["done"]
    assert listed(host, program) == [before[0], f"-A INPUT {other}", *before[1:]]
    assert states(host.apply_confirmed(change("iptables-rules", program, other, None), run="r4")) == ["done"]
    assert listed(host, program) == before


def test_what_somebody_changed_meanwhile_is_left_alone(chain: tuple[LocalHost, str, str, str]) -> None:
    host, program, ours, other = chain
    inside(host, program, "-I", "INPUT", *other.split())
    before = listed(host, program)
    assert states(host.apply_confirmed(change("iptables-rules", program, None, ours))) == ["moved"]
    assert listed(host, program) == before


def test_nothing_but_rules_of_ours_is_given_to_iptables(chain: tuple[LocalHost, str, str, str]) -> None:
    host, program, ours, _ = chain
    before = listed(host, program)
    for number, rule in enumerate(("-j DROP", ours.replace("ACCEPT", "DROP"), f"{ours} -t nat")):
        answer = host.apply_confirmed(change("iptables-rules", program, None, rule), run=f"r{number}")
        assert states(answer) == ["failed"]
        assert "is not a rule of preflight" in answer["results"][0]["message"]
    assert listed(host, program) == before


@pytest.mark.parametrize("word", ["DROP", "LOG", "RETURN"])
def test_a_rule_of_the_site_with_our_comment_stays(chain: tuple[LocalHost, str, str, str], word: str) -> None:
    host, program, ours, other = chain
    inside(host, program, "-I", "INPUT", *other.replace("ACCEPT", word).split())
    before = listed(host, program)
    assert states(host.apply_confirmed(change("iptables-rules", program, None, ours))) == ["done"]
    (back,) = host.undo_of()
    assert states(host.apply_confirmed(back, run="r2")) == ["done"]
    assert listed(host, program) == before


def test_an_emptied_chain_comes_back_as_it_was(chain: tuple[LocalHost, str, str, str]) -> None:
    host, program, _, _ = chain
    inside(host, program, "-P", "INPUT", "DROP")
    before = listed(host, program)
    assert states(host.apply_confirmed(change("iptables-input", program, "present", None))) == ["done"]
    assert listed(host, program) == ["-P INPUT ACCEPT"]
    (back,) = host.undo_of()
    assert states(host.apply_confirmed(back, run="r2")) == ["done"]
    assert listed(host, program) == before


def test_a_program_that_is_none_is_refused(netns: LocalHost) -> None:
    answer = netns.apply(change("iptables-rules", "rm -rf /", None, V4))
    assert answer == {"error": "preflight never changes iptables-rules 'rm -rf /'"}
