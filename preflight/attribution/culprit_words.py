"""Culprits that tests with different partners show, and their evidence, in words. Pure."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from preflight.model.measure import Located, Observation, TestOutcome, TestResult

_WELL = (TestOutcome.PASS, TestOutcome.REFUSED, TestOutcome.UNCHECKED)
SHOWN = 3  # partners, and ids of each, in a line of evidence
_VERBS = {  # singular, plural
    TestOutcome.HANG: ("hangs", "hang"),
    TestOutcome.FAIL: ("fails", "fail"),
    TestOutcome.SLOW: ("is slow", "are slow"),
    TestOutcome.WRONG_DATA: ("produces wrong data", "produce wrong data"),
}
_LEAD = {TestOutcome.HANG: "hung", TestOutcome.FAIL: "failed", TestOutcome.SLOW: "slow"}  # otherwise "wrong data"


@dataclass(frozen=True)
class Named:
    """An object that tests identify.

    `sides`: the groups of a partition, the largest first. `proven`: tests with different partners point to it.
    Otherwise one test has shown it, or it is a pair or a `group` in which the culprit is not known.
    """

    one: Located
    sides: tuple[tuple[str, ...], ...] = ()
    proven: bool = True

    @property
    def kind(self) -> str:
        """The kind, without "intermittent"."""
        return self.one.kind.rpartition(" ")[2]

    @property
    def intermittent(self) -> bool:
        return self.one.kind.startswith("intermittent")

    @property
    def single(self) -> bool:
        """True for a host or a device that is identified, and not intermittent."""
        return self.one.kind in ("host", "device")

    @property
    def outside(self) -> tuple[str, ...]:
        """The members at fault, sorted. In a partition, they do not reach its largest group."""
        return tuple(sorted(member for side in self.sides[1:] for member in side) or sorted(self.one.members))

    def part(self, places: Iterable[str]) -> set[str]:
        """Return those of `places` ("node01/3") that are members, or devices of one."""
        return {place for place in places if place in self.one.members or place.partition("/")[0] in self.one.members}

    def explains(self, places: Collection[str]) -> bool:
        """Return whether a test of these devices fails because of this object."""
        if self.kind == "system":
            return True
        inside = self.part(places)
        members = {member for member in self.one.members if member in inside or member in hosts_of(inside)}
        if self.kind == "partition":
            return sum(bool(members & set(side)) for side in self.sides) > 1
        if self.kind in ("link", "scale"):
            return members == set(self.one.members)
        # An intermittent host or device explains the pairs in which it failed, but not that all ranks stopped.
        return bool(members) and not (self.intermittent and len(places) > 2)


def named(located: Sequence[Located] | None, *outcomes: TestOutcome) -> list[Named]:
    """Return the objects that tests with these outcomes locate.

    The groups of a partition are one object. There is one for each rail if every rail is parted by itself.
    """
    faults = [fault for fault in located or () if fault.outcome in outcomes]
    objects = [Named(fault) for fault in faults if fault.kind != "partition"]
    return objects + [_parted(groups) for groups in _partitions(faults)]


def _partitions(faults: Iterable[Located]) -> Iterable[list[Located]]:
    """Return the groups of each partition: by rail if every rail is parted by itself, else all of them as one."""
    rails: dict[str, list[Located]] = defaultdict(list)
    for fault in faults:
        if fault.kind == "partition":
            rails_of_members = {member.partition("/")[2] for member in fault.members}
            rails[rails_of_members.pop() if len(rails_of_members) == 1 else ""].append(fault)
    if any(len(groups) == 1 for groups in rails.values()):
        return [list(chain.from_iterable(rails.values()))]
    return rails.values()


def _parted(groups: Sequence[Located]) -> Named:
    """Return the groups of a partition as one object, the largest group first."""
    ordered = sorted(groups, key=lambda group: (-len(group.members), group.members))
    members = tuple(member for group in ordered for member in group.members)
    tests = tuple(dict.fromkeys(test for group in ordered for test in group.tests))
    return Named(replace(ordered[0], members=members, tests=tests), tuple(group.members for group in ordered))


def by_id(observations: Iterable[Observation]) -> dict[str, TestResult]:
    return {observation.test.id: observation.test for observation in observations}


def hosts_of(places: Iterable[str]) -> set[str]:
    """Return the hosts of places such as "node01/3"."""
    return {place.partition("/")[0] for place in places}


def counted(number: int, noun: str) -> str:
    """Return `1 rank`, or `3 ranks`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _some(words: Sequence[str], shown: int = SHOWN) -> str:
    suffix = f" and {len(words) - shown} more" if len(words) > shown else ""
    return ", ".join(words[:shown]) + suffix


def test_words(ids: Sequence[str], shown: int = SHOWN) -> str:
    """Return `test r3-2`, or `tests r3-2, r4-1 and 7 more`."""
    return f"test{'s' if len(ids) > 1 else ''} {_some(ids, shown)}"


def failed_tests(fault: Located, tests: Mapping[str, TestResult]) -> list[TestResult]:
    """Return the tests of `fault` that ran and did not pass."""
    return [tests[id_] for id_ in fault.tests if id_ in tests and tests[id_].outcome not in _WELL]


def _partner(fault: Located, test: TestResult) -> list[str]:
    """Return the members' partner in a test of two: a host where the members are hosts, else a device."""
    places = [member.place if "/" in "".join(fault.members) else member.host for member in test.members]
    other_places = [place for place in dict.fromkeys(places) if place not in fault.members]
    return other_places if len(other_places) == 1 else []


def partners(fault: Located, tests: Mapping[str, TestResult]) -> list[str]:
    """Return the partners with which it did not pass. Each of them passes with others."""
    return list(dict.fromkeys(partner for test in failed_tests(fault, tests) for partner in _partner(fault, test)))


def evidence(fault: Located, tests: Mapping[str, TestResult]) -> tuple[str, ...]:
    """Return `failed with node05/1 (test r3-2)` and `the same partners pass with other devices (test r3-5)`."""
    failures = failed_tests(fault, tests)
    passed_ids = [id_ for id_ in fault.tests if id_ in tests and tests[id_].outcome in _WELL]
    if fault.kind.rpartition(" ")[2] in ("host", "device"):
        objects, link = _failed_partners(fault, failures), "with"
        is_intermittent = fault.kind.startswith("intermittent")
        passed = "passed in other tests" if is_intermittent else "the same partners pass with other devices"
        passed = f"{passed} ({test_words(passed_ids)})"
    else:
        objects, link = [test.id for test in failures], "in"
        passed = f"its members pass in other tests ({test_words(passed_ids)})"
    failed = f"{_LEAD.get(fault.outcome, 'wrong data')} {link} {_some(objects)}"
    return (*([failed] if objects else ()), *([passed] if passed_ids else ()))


def _failed_partners(fault: Located, failures: Iterable[TestResult]) -> list[str]:
    """Return each partner with which it failed, with the first test, and its speed if that is what failed."""
    ids: dict[str, list[str]] = defaultdict(list)
    for test in failures:
        for partner in _partner(fault, test):
            speed = f", {test.busbw_GBps:.2f} GB/s" if fault.outcome is TestOutcome.SLOW and test.busbw_GBps else ""
            ids[partner].append(f"{test.id}{speed}")
    return [f"{partner} ({test_words(test_ids, 1)})" for partner, test_ids in ids.items()]


def sentence(culprit: Named) -> str:
    """Return the summary about a culprit: which object it is, and how its tests end."""
    fault, (does, do) = culprit.one, _VERBS.get(culprit.one.outcome, ("fails", "fail"))
    device = fault.members[0].partition("/")[2] if fault.members else ""
    subject = place(fault.members[0]) if fault.members else ""
    match fault.kind:
        case "host" | "device":
            return f"{subject} {does} with every partner. The same partners pass with other devices"
        case "link":
            return f"{link_ends(fault.members)} {do} with each other. Both pass with other partners"
        case "rail":
            return f"rail {device}: all tests along it {do} on {len(fault.members)} hosts. Other rails pass"
        case "partition":
            groups = " | ".join(map(folded, culprit.sides))
            return f"tests between {len(culprit.sides)} groups {do}: {groups}. Tests within each group pass"
        case "scale":
            return f"{folded(fault.members)} {do} together. All tests with fewer of these members pass"
        case "system":
            return f"every pair {does}, so the culprit cannot be identified"
        case _:
            return f"{subject} {does} intermittently. Some of its tests pass"


def link_ends(members: Sequence[str]) -> str:
    """Return the beginning of a summary about a link: `node03: node03/1 and node07/1`."""
    host = members[0].partition("/")[0]
    return f"{host}: {members[0]} and {members[1]}"


def place(member: str) -> str:
    """Return the beginning of a summary about a host or device: `node03: device 1`, or `node03: the host`."""
    host, _, device = member.partition("/")
    return f"{host}: {f'device {device}' if device else 'the host'}"


def folded(members: Iterable[str]) -> str:
    """Return the members in short: `node[01-04]`, `node[01-04]/3`."""
    from preflight.inventory import fold  # ClusterShell is slow to load

    by_device: dict[str, list[str]] = defaultdict(list)
    for member in members:
        host, slash, device = member.partition("/")
        by_device[slash + device].append(host)
    return ",".join(fold(hosts) + device for device, hosts in by_device.items())
