"""What is started on the hosts, as text for bash: to be pasted, or a script a host. Pure."""

import shlex
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence

from preflight.launch.job import File, HostLaunch, Variable
from preflight.launch.words import LONGEST, Raw, folded
from preflight.model.cluster import ProbeSettings
from preflight.model.errors import UsageError

_COLUMNS = 80


def script(launch: HostLaunch, place: ProbeSettings, told: Sequence[str]) -> str:
    """A whole script for one host; `told`: lines of comment for its head."""
    head = ["#!/bin/bash", *(line for text in told for line in _comment(text)), ""]
    return "\n".join([*head, _where(_body(launch, place, launch.variables), place), ""])


def blocks(
    launches: Sequence[HostLaunch], place: ProbeSettings, told: Sequence[str], fold: Callable[[Iterable[str]], str]
) -> str:
    """Blocks to be pasted into a shell of each host. Where hosts differ only in variables, each has a block of those,
    and what follows is the same on all. `fold` names a set of hosts: `node[01-16]`."""
    lines = [line for text in told for line in _comment(text)]
    if len(launches) < 2 or place.wrapper or place.user or len({(it.command, it.files) for it in launches}) > 1:
        for launch in launches:
            lines += ["", *_comment(f"on {launch.host}:"), _where(_body(launch, place, launch.variables), place)]
        return "\n".join([*lines, ""])
    own = {name for launch in launches for name in _own(launch, launches[0])}
    for launch in launches:
        mine = [Variable(it.name, it.value, "") for it in launch.variables if it.name in own]
        lines += ["", *_comment(f"on {launch.host}, first:"), *_setup(place), *_exports(mine)]
    why = [f"{it.name}: {it.why}" for it in launches[0].variables if it.name in own]
    lines += [
        "",
        *_comment(f"then on each of {fold(it.host for it in launches)}:"),
        *(c for w in why for c in _comment(w)),
    ]
    lines += [*_exports([it for it in launches[0].variables if it.name not in own])]
    return "\n".join([*lines, *_files(launches[0].files), launches[0].command, ""])


def _own(launch: HostLaunch, first: HostLaunch) -> set[str]:
    """The variables in which two hosts differ."""
    here, there = ({it.name: it.value for it in one.variables} for one in (launch, first))
    return {name for name in here.keys() | there.keys() if here.get(name) != there.get(name)}


def _body(launch: HostLaunch, place: ProbeSettings, variables: Sequence[Variable]) -> str:
    return "\n".join([*_setup(place), *_exports(variables), *_files(launch.files), launch.command])


def _setup(place: ProbeSettings) -> list[str]:
    return [place.setup] if place.setup else []


def _exports(variables: Iterable[Variable]) -> Iterator[str]:
    for it in variables:
        yield from _comment(it.why)
        yield f"export {it.name}={shlex.quote(it.value)}"


def _files(files: Sequence[File]) -> Iterator[str]:
    for it in files:
        yield folded(("printf", "%s\\n", *it.text.splitlines(), Raw(f"> {shlex.quote(it.name)}")))


def _where(body: str, place: ProbeSettings) -> str:
    """The same where jobs run: as their user, in their container. Raises UsageError for what is too long for that."""
    user = ("sudo", "-n", "-H", "-u", place.user, "--") if place.user else ()
    around = (*user, *place.wrapper)
    if around and len(body.encode()) > LONGEST:
        raise UsageError(
            f"for {around[0]} (user and exec of the inventory) all of it has to be one argument, and it is longer than "
            "the 128 KiB that Linux lets through; start the job with torchrun or shell, on every host"
        )
    return f"{shlex.join(around)} bash -c {shlex.quote(body)}" if around else body


def _comment(text: str) -> list[str]:
    return textwrap.wrap(
        text, _COLUMNS, initial_indent="# ", subsequent_indent="#   ", break_long_words=False, break_on_hyphens=False
    )
