"""How a site's engine starts a program on all hosts, and what its own programs say of themselves."""

import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from preflight.model.errors import UsageError

_ANSWER = 20.0  # seconds for an engine's program to say what it is


@dataclass(frozen=True)
class EngineSite:
    """`argv`: what stands in front of the program's, one task a node; `rank`: the variable that numbers the tasks;
    `called`: a node's own names → host; `lost`: from a line that the engine prints to the hosts that are lost, and why;
    `try_out`: a command, for a person, that shows whether a host is reached; `without`: variables that it must not see;
    `calls`: its relays call back, at `port` if it has one; `nonce`: what they know already that they are to show;
    `key`: what both sides prove to have instead."""

    name: str
    argv: Sequence[str]
    rank: str
    called: Mapping[str, str]
    try_out: Callable[[str], str]
    lost: Callable[[str], Sequence[tuple[str, str]]] = lambda _: ()
    environment: Mapping[str, str] = field(default_factory=dict)
    without: Sequence[str] = ()
    calls: bool = False
    port: int = 0
    nonce: str = field(default="", repr=False)
    key: str = field(default="", repr=False)


def answer(program: str, option: str, environment: Mapping[str, str]) -> str:
    """What `program option` prints: on stdout, else on stderr. Raises UsageError where it cannot be run."""
    try:
        done = subprocess.run(
            (program, option),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_ANSWER,
            check=False,
            env=dict(environment),
        )
    except OSError as error:
        raise UsageError(f"{program} {option}: {error.strerror}; is it the program that is meant?") from None
    except subprocess.TimeoutExpired:
        raise UsageError(f"{program} {option} says nothing for {_ANSWER:.0f} s; try it by hand") from None
    return (done.stdout.strip() or done.stderr.strip()).decode("utf-8", "replace")
