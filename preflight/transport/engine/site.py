"""Description of a site's engine: its command, and its texts."""

import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from preflight.model.errors import UsageError

_ANSWER = 20.0  # seconds for an engine's program to print its version


@dataclass(frozen=True)
class EngineSite:
    """One engine of a site.

    `argv` precedes the program's and starts one task on each node. `rank` is the variable with the task's number.
    `called` maps a node's own names to hosts. `lost` maps a line of the engine to lost hosts and the reason.
    `try_out` returns a command for people that shows if a host is reached. `without` are variables to remove.
    With `calls`, relays call back, at `port` if it is set. They show `nonce`, or prove that they have `key`.
    """

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
    """Return the stdout of `program option`, or its stderr if that is empty. Raises UsageError if it cannot run."""
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
        raise UsageError(
            f"{program} {option} cannot run: {error.strerror}. Check that PATH finds the right program"
        ) from None
    except subprocess.TimeoutExpired:
        raise UsageError(f"{program} {option} gave no answer within {_ANSWER:.0f} s. Run it manually") from None
    return (done.stdout.strip() or done.stderr.strip()).decode("utf-8", "replace")
