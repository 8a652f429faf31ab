"""The commands of a job on its hosts, as text for bash: blocks to be pasted, or a script for each host. Pure."""

import shlex
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence

from preflight.launch.job import HostLaunch, LaunchFile, Variable
from preflight.launch.words import LONGEST, RawText, folded
from preflight.model.cluster import ProbeSettings
from preflight.model.errors import UsageError

_COLUMNS = 80


def script(launch: HostLaunch, settings: ProbeSettings, comments: Sequence[str]) -> str:
    """Return a whole script for one host, with comments at its head."""
    head = ["#!/bin/bash", *_comments(comments), ""]
    return "\n".join([*head, _wrapped(_body(launch, settings), settings), ""])


def blocks(
    launches: Sequence[HostLaunch],
    settings: ProbeSettings,
    comments: Sequence[str],
    fold: Callable[[Iterable[str]], str],
) -> str:
    """Return blocks to be pasted into a shell of each host.

    Hosts that differ in variables alone have a block of those each, and one block for all. `fold` names a set of hosts:
    `node[01-16]`.
    """
    several = len({(launch.command, launch.files) for launch in launches}) > 1
    lines = [*_comments(comments)]
    if len(launches) < 2 or settings.wrapper or settings.user or several:
        for launch in launches:
            lines += ["", *_comments([f"on {launch.host}:"]), _wrapped(_body(launch, settings), settings)]
    else:
        lines += _shared(launches, settings, fold)
    return "\n".join([*lines, ""])


def _shared(
    launches: Sequence[HostLaunch], settings: ProbeSettings, fold: Callable[[Iterable[str]], str]
) -> Iterator[str]:
    """Yield the blocks of hosts that differ in variables alone."""
    first = launches[0]
    own = _differing(launches)
    for launch in launches:
        yield from ("", *_comments([f"on {launch.host}, first:"]), *_setup(settings))
        yield from _exports(Variable(name, value, "") for name, value in _values(launch).items() if name in own)
    yield from ("", *_comments([f"then on each of {fold(launch.host for launch in launches)}:"]))
    common = [variable for variable in first.variables if variable.name not in own]
    differing = [variable for variable in first.variables if variable.name in own]
    yield from _comments(f"{variable.name}: {variable.why}" for variable in differing)
    yield from (*_exports(common), *_files(first.files), first.command)


def _differing(launches: Sequence[HostLaunch]) -> set[str]:
    """Return the names of the variables in which hosts differ."""
    first, *further = (set(_values(launch).items()) for launch in launches)
    return {name for name, _ in first.union(*further) - first.intersection(*further)}


def _values(launch: HostLaunch) -> dict[str, str]:
    return {variable.name: variable.value for variable in launch.variables}


def _body(launch: HostLaunch, settings: ProbeSettings) -> str:
    return "\n".join([*_setup(settings), *_exports(launch.variables), *_files(launch.files), launch.command])


def _setup(settings: ProbeSettings) -> list[str]:
    return [settings.setup] if settings.setup else []


def _exports(variables: Iterable[Variable]) -> Iterator[str]:
    for variable in variables:
        yield from _comments([variable.why])
        yield f"export {variable.name}={shlex.quote(variable.value)}"


def _files(files: Sequence[LaunchFile]) -> Iterator[str]:
    for file in files:
        yield folded(("printf", "%s\\n", *file.text.splitlines(), RawText(f"> {shlex.quote(file.name)}")))


def _wrapped(body: str, settings: ProbeSettings) -> str:
    """Return the text as jobs run it: as their user, in their container. Raises UsageError for one that is too long."""
    user = ("sudo", "-n", "-H", "-u", settings.user, "--") if settings.user else ()
    around = (*user, *settings.wrapper)
    if around and len(body.encode()) > LONGEST:
        raise UsageError(
            f"{around[0]} (user or exec in the inventory) needs the whole script as one argument, but Linux allows "
            "only 128 KiB. Start the job on every host with torchrun or shell"
        )
    return f"{shlex.join(around)} bash -c {shlex.quote(body)}" if around else body


def _comments(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        yield from textwrap.wrap(
            text,
            _COLUMNS,
            initial_indent="# ",
            subsequent_indent="#   ",
            break_long_words=False,
            break_on_hyphens=False,
        )
