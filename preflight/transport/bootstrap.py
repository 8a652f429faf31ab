"""From a program to the command line that runs it on a host, and what the host's shell says when it cannot. Pure.

The source goes over stdin, never into an argument: arguments are seen by every user of the host. Each layer below
becomes argv in front of the next, so that nothing is quoted twice by hand:

    sudo -n  →  wrapper (docker exec -i …)  →  shell that runs the setup line  →  python reading its source
"""

import re
import shlex

from preflight.transport import troubles
from preflight.transport.troubles import Place
from preflight.transport.types import Program, TransportError

# Reads exactly the source, then runs it as __main__; what follows on stdin is the program's. A source cut short by a
# broken connection must not run as far as it came. Without -I the current directory is taken off the module path: a
# file named like a library module in a home directory would be imported.
_LOADER = (
    "import sys;"
    'sys.path[:1] == [""] and sys.path.pop(0);'
    "source=sys.stdin.buffer.read({length});"
    "len(source) == {length} or sys.exit(70);"
    'exec(compile(source,"preflight","exec"))'
)

# $1 is the setup line. It must not eat the source on stdin, nor write into the program's stdout. Setup lines say
# `source`, which not every sh knows.
_SETUP = 'eval "$1" </dev/null >&2; shift; exec "$@"'
_WITH_SETUP = f"""command -v bash >/dev/null 2>&1 && exec bash -c '{_SETUP}' preflight "$@"; {_SETUP}"""

_AS_ROOT = '[ "$(id -u)" = 0 ] || set -- sudo -n -- "$@"; exec "$@"'
_AS_USER = 'user=$1; shift; [ "$(id -un)" = "$user" ] || set -- sudo -n -H -u "$user" -- "$@"; exec "$@"'


def source_bytes(program: Program) -> bytes:
    """What has to be sent first on stdin."""
    return program.source.encode("utf-8")


def python_argv(program: Program) -> tuple[str, ...]:
    """Python, reading its source from stdin."""
    loader = _LOADER.format(length=len(source_bytes(program)))
    return (program.python, *(("-I",) if program.isolated else ()), "-c", loader)


def host_argv(program: Program, *, sudo: bool) -> tuple[str, ...]:
    """The whole command as argv. `sudo`: become root where the program names no user of its own.

    Whether sudo is needed is asked on the host (`id`): only there it is certain who logged in.
    """
    argv = python_argv(program)
    if program.setup:
        argv = ("sh", "-c", _WITH_SETUP, "preflight", program.setup, *argv)
    argv = (*program.wrapper, *argv)
    if program.user:
        return ("sh", "-c", _AS_USER, "preflight", program.user, *argv)
    if sudo:
        return ("sh", "-c", _AS_ROOT, "preflight", *argv)
    return argv


def command_line(program: Program, *, sudo: bool) -> str:
    """The command for sshd, which hands it to the user's login shell, whichever that is.

    A single `exec sh -c '…'` with everything else inside the quotes is read alike by sh, bash, zsh, fish and csh, and
    gives exit code 127 where python is missing.
    """
    script = "exec " + shlex.join(host_argv(program, sudo=sudo))
    if "!" in script or "\n" in script:
        # csh replaces the one by its history and does not take the other, even between quotes.
        script = f'eval "$(printf "{_octal(script)}")"'
    return f"exec sh -c {shlex.quote(script)}"


def _octal(text: str) -> str:
    """All but letters, digits and blanks as the `\\ooo` of printf(1)."""
    return re.sub(rb"[^A-Za-z0-9 ]", lambda char: b"\\%03o" % char[0][0], text.encode()).decode()


def becomes(program: Program, *, sudo: bool) -> str:
    """The user whom sudo is asked for; empty if it is not."""
    return program.user or ("root" if sudo else "")


_SUDO_MISSING = re.compile(rb"\bsudo: (command )?not found|not found: sudo\b", re.MULTILINE)
_SUDO_CANNOT_FIND = re.compile(rb"^sudo: \S+: command not found", re.MULTILINE)
_SUDO_REFUSES = re.compile(
    rb"is not in the sudoers|may not run sudo|is not allowed to (execute|run sudo)|must have a tty", re.MULTILINE
)
# sudo translates its messages, but not its name in front. The one exception is a mere warning.
_SUDO_SAYS = re.compile(rb"^sudo: (?!unable to resolve host)", re.MULTILINE)


def not_started(
    place: Place, program: Program, *, sudo: bool, status: int, stdout: bytes, stderr: bytes
) -> TransportError | None:
    """Whether the program never ran, told from how its command line ended; None if it ran.

    126 and 127 are the shell's (and docker's) "cannot execute" and "not found"; sudo ends with 1.
    """
    user = becomes(program, sudo=sudo)
    if status in (126, 127):
        if user and _SUDO_MISSING.search(stderr):
            return troubles.sudo_refused(place, user, stderr)
        return troubles.no_python(place, program.python, stderr)
    if user and status == 1:
        if _SUDO_CANNOT_FIND.search(stderr):
            return troubles.no_python(place, program.python, stderr)
        if _SUDO_REFUSES.search(stderr) or (not stdout and _SUDO_SAYS.search(stderr)):
            return troubles.sudo_refused(place, user, stderr)
    return None
