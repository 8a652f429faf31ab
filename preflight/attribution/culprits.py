"""Culprits that tests with different partners point to, and the evidence in words. Pure."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from preflight.model.measure import Located, Observation, TestOutcome, TestResult

_WELL = (TestOutcome.PASS, TestOutcome.REFUSED, TestOutcome.UNCHECKED)
SHOWN = 3  # partners, and ids of each, in a line of evidence
_VERBS = {  # of one, of several
    TestOutcome.HANG: ("hangs", "hang"),
    TestOutcome.FAIL: ("fails", "fail"),
    TestOutcome.SLOW: ("is slow", "are slow"),
    TestOutcome.WRONG_DATA: ("brings wrong data", "bring wrong data"),
}
_LEAD = {TestOutcome.HANG: "hung", TestOutcome.FAIL: "failed", TestOutcome.SLOW: "slow"}  # else wrong data


@dataclass(frozen=True)
class Named:
    """An object that tests name. `sides`: the groups of a partition, the largest first. `proven`: by tests with
    different partners; else one test has shown it, or it is a pair or a `group` of which nobody knows who it is."""

    one: Located
    sides: tuple[tuple[str, ...], ...] = ()
    proven: bool = True

    @property
    def kind(self) -> str:
        """Without "intermittent"."""
        return self.one.kind.rpartition(" ")[2]

    @property
    def intermittent(self) -> bool:
        return self.one.kind.startswith("intermittent")

    @property
    def single(self) -> bool:
        """A host or a device that is convicted."""
        return self.one.kind in ("host", "device")

    @property
    def outside(self) -> tuple[str, ...]:
        """Who is at fault, sorted: of a partition those that do not reach its largest group."""
        return tuple(sorted(member for side in self.sides[1:] for member in side) or sorted(self.one.members))

    def part(self, places: Iterable[str]) -> set[str]:
        """Those of `places` ("node01/3") that are members, or devices of one."""
        return {place for place in places if place in self.one.members or place.partition("/")[0] in self.one.members}

    def explains(self, places: Collection[str]) -> bool:
        """Whether a test of these devices fails because of it."""
        if self.kind == "system":
            return True
        inside = self.part(places)
        members = {member for member in self.one.members if member in inside or member in hosts_of(inside)}
        if self.kind == "partition":
            return sum(bool(members & set(side)) for side in self.sides) > 1
        if self.kind in ("link", "scale"):
            return members == set(self.one.members)
        # Who fails now and then explains the pairs in which it did, but not that everybody stopped.
        return bool(members) and not (self.intermittent and len(places) > 2)


def named(located: Sequence[Located] | None, *outcomes: TestOutcome) -> list[Named]:
    """What is located by tests that ended like that. The groups of a partition are one object, of each rail that is
    parted by itself."""
    mine = [one for one in located or () if one.outcome in outcomes]
    rails: dict[str, list[Located]] = defaultdict(list)
    for one in mine:
        if one.kind == "partition":
            own = {member.partition("/")[2] for member in one.members}
            rails[own.pop() if len(own) == 1 else ""].append(one)
    if any(len(groups) == 1 for groups in rails.values()):
        rails = {"": [one for groups in rails.values() for one in groups]}
    whole = [Named(one) for one in mine if one.kind != "partition"]
    return whole + [_parted(groups) for groups in rails.values()]


def _parted(groups: Sequence[Located]) -> Named:
    """The largest group first."""
    ordered = sorted(groups, key=lambda one: (-len(one.members), one.members))
    members = tuple(member for one in ordered for member in one.members)
    tests = tuple(dict.fromkeys(test for one in ordered for test in one.tests))
    return Named(replace(ordered[0], members=members, tests=tests), tuple(one.members for one in ordered))


def by_id(observations: Iterable[Observation]) -> dict[str, TestResult]:
    return {seen.test.id: seen.test for seen in observations}


def hosts_of(places: Iterable[str]) -> set[str]:
    """Return the hosts of places such as "node01/3"."""
    return {place.partition("/")[0] for place in places}


def _some(words: Sequence[str], shown: int = SHOWN) -> str:
    more = f" and {len(words) - shown} more" if len(words) > shown else ""
    return ", ".join(words[:shown]) + more


def failed_tests(one: Located, tests: Mapping[str, TestResult]) -> list[TestResult]:
    """Return the tests of `one` that ran and did not pass."""
    return [tests[id_] for id_ in one.tests if id_ in tests and tests[id_].outcome not in _WELL]


def _others(one: Located, test: TestResult) -> list[str]:
    """The members' partner in a test of two: a host where hosts are accused, else a device."""
    places = [member.place if "/" in "".join(one.members) else member.host for member in test.members]
    others = [place for place in dict.fromkeys(places) if place not in one.members]
    return others if len(others) == 1 else []


def partners(one: Located, tests: Mapping[str, TestResult]) -> list[str]:
    """With whom else it did not pass; each is well with others."""
    return list(dict.fromkeys(other for test in failed_tests(one, tests) for other in _others(one, test)))


def evidence(one: Located, tests: Mapping[str, TestResult]) -> tuple[str, ...]:
    """`failed with node05/1 (r3-2), node07/1 (r4-1)`, `which pass with others (r3-5, r4-3)`."""
    accusing = failed_tests(one, tests)
    acquitting = [id_ for id_ in one.tests if id_ in tests and tests[id_].outcome in _WELL]
    lead = _LEAD.get(one.outcome, "wrong data")
    if one.kind.rpartition(" ")[2] not in ("host", "device"):
        lines = [f"{lead} in {_some([test.id for test in accusing])}"] if accusing else []
        return (*lines, f"its parts pass: {_some(acquitting)}") if acquitting else tuple(lines)
    ids: dict[str, list[str]] = defaultdict(list)
    for test in accusing:
        for other in _others(one, test):
            speed = f", {test.busbw_GBps:.2f} GB/s" if one.outcome is TestOutcome.SLOW and test.busbw_GBps else ""
            ids[other].append(f"{test.id}{speed}")
    lines = [f"{lead} with {_some([f'{other} ({_some(those, 1)})' for other, those in ids.items()])}"] if ids else []
    passed = "passed with others" if one.kind.startswith("intermittent") else "which pass with others"
    return (*lines, f"{passed} ({_some(acquitting)})") if acquitting else tuple(lines)


def sentence(it: Named) -> str:
    """Who, and what it does."""
    one, (does, do) = it.one, _VERBS.get(it.one.outcome, ("fails", "fail"))
    host, _, device = one.members[0].partition("/") if one.members else ("", "", "")
    who = f"{host}: device {device}" if device else f"{host}: it"
    match one.kind:
        case "host" | "device":
            return f"{who} {does} with all partners, which do well with others"
        case "link":
            return f"{who} and {one.members[1]} {do} with each other, and do well with others"
        case "rail":
            return f"rail {device}: all tests along it {do}, on {len(one.members)} hosts; other rails are well"
        case "partition":
            groups = " | ".join(map(folded, it.sides))
            return f"{len(it.sides)} groups do well inside and {do} with each other: {groups}"
        case "scale":
            return f"{folded(one.members)} {do} together, and every part of them that was tried does well"
        case "system":
            return f"all tests of two {do}, whoever takes part: nobody can be named"
        case _:
            return f"{who} {does} now and then, and does well between"


def folded(members: Iterable[str]) -> str:
    """Return the members in short: `node[01-04]`, `node[01-04]/3`."""
    from preflight.inventory import fold  # ClusterShell is slow to load

    by_device: dict[str, list[str]] = defaultdict(list)
    for member in members:
        host, slash, device = member.partition("/")
        by_device[slash + device].append(host)
    return ",".join(fold(hosts) + device for device, hosts in by_device.items())
