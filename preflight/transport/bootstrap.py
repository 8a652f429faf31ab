"""From a program to the command line that runs it on a host, and what the host's shell says when it cannot. Pure.

The source goes over stdin, never into an argument: arguments are seen by every user of the host. Each layer below
becomes argv in front of the next, so that nothing is quoted twice by hand:

    sudo  →  wrapper (docker exec -i …)  →  shell that runs the setup line  →  python reading its source
"""

import re
import secrets
import shlex

from preflight.transport import errors
from preflight.transport import sudo as sudos
from preflight.transport.errors import Target
from preflight.transport.password import Password
from preflight.transport.sudo import SudoDialogue, SudoMarkers
from preflight.transport.types import Program, TransportError

# Names the run in the command line of each of its programs, so that the collector knows them (collect/own.py).
RUN = secrets.token_hex(4)

# Reads exactly the source, then runs it as __main__; what follows on stdin is the program's. A source cut short by a
# broken connection must not run as far as it came. Without -I the current directory is taken off the module path: a
# file named like a library module in a home directory would be imported.
_LOADER = (
    "import sys;"
    'sys.path[:1] == [""] and sys.path.pop(0);'
    "{greeting}"
    "source=sys.stdin.buffer.read({length});"
    "len(source) == {length} or sys.exit(70);"
    'exec(compile(source,"preflight {run}","exec"))'
)


def without_run(command: str) -> str:
    """Return a command line without the name of its run, as a list of allowed commands has it."""
    return command.replace(f"preflight {RUN}", "preflight")


_GREETING = 'sys.stderr.write({ready}+"\\n");sys.stderr.flush();'

# $1 is the setup line. It must not eat the source on stdin, nor write into the program's stdout. Setup lines say
# `source`, which not every sh knows.
_SETUP = 'eval "$1" </dev/null >&2; shift; exec "$@"'
_WITH_SETUP = f"""command -v bash >/dev/null 2>&1 && exec bash -c '{_SETUP}' preflight "$@"; {_SETUP}"""

_AS_ROOT = '[ "$(id -u)" = 0 ] || set -- {sudo} -- "$@"; exec "$@"'
_AS_USER = 'user=$1; shift; [ "$(id -un)" = "$user" ] || set -- {sudo} -H -u "$user" -- "$@"; exec "$@"'


def source_bytes(program: Program) -> bytes:
    """What has to be sent first on stdin."""
    return program.source.encode("utf-8")


def python_argv(program: Program, marks: SudoMarkers | None = None) -> tuple[str, ...]:
    """Python, reading its source from stdin; with `marks` it says first that it is there."""
    greeting = _GREETING.format(ready=marks.ready_expression) if marks else ""
    loader = _LOADER.format(length=len(source_bytes(program)), greeting=greeting, run=RUN)
    return (program.python, *(("-I",) if program.isolated else ()), "-c", loader)


def host_argv(program: Program, *, sudo: bool, marks: SudoMarkers | None = None) -> tuple[str, ...]:
    """The whole command as argv. `sudo`: become root where the program names no user of its own; `marks`: sudo may ask
    for a password, see `preflight.transport.sudo`.

    Whether sudo is needed is asked on the host (`id`): only there it is certain who logged in.
    """
    how = f"sudo -S -p {marks.prompt_argument}" if marks else "sudo -n"
    argv = python_argv(program, marks)
    if program.setup:
        argv = ("sh", "-c", _WITH_SETUP, "preflight", program.setup, *argv)
    argv = (*program.wrapper, *argv)
    if program.user:
        return ("sh", "-c", _AS_USER.format(sudo=how), "preflight", program.user, *argv)
    if sudo:
        return ("sh", "-c", _AS_ROOT.format(sudo=how), "preflight", *argv)
    return argv


def command_line(program: Program, *, sudo: bool, marks: SudoMarkers | None = None) -> str:
    """The command for sshd, which hands it to the user's login shell, whichever that is.

    A single `exec sh -c '…'` with everything else inside the quotes is read alike by sh, bash, zsh, fish and csh, and
    gives exit code 127 where python is missing.
    """
    script = "exec " + shlex.join(host_argv(program, sudo=sudo, marks=marks))
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


def not_started(
    target: Target, program: Program, *, sudo: bool, status: int, stdout: bytes, stderr: bytes
) -> TransportError | None:
    """Whether the program never ran, told from how its command line ended; None if it ran.

    126 and 127 are the shell's (and docker's) "cannot execute" and "not found"; sudo ends with 1.
    """
    user = becomes(program, sudo=sudo)
    if user:
        error = sudos.not_started(target, program, user, status=status, stdout=stdout, stderr=stderr)
        if error:
            return error
    return errors.no_python(target, program, stderr) if status in (126, 127) else None


class Call:
    """One run of a program on one host: what is executed, said and sent, and what its end means."""

    def __init__(self, target: Target, program: Program, *, sudo: bool, password: Password | None) -> None:
        self.target = target
        self._program = program
        self._sudo = sudo
        user = becomes(program, sudo=sudo)
        self.talk = (
            SudoDialogue(target, user, password) if user and password else None
        )  # None: nothing to say before `data`
        self.command = command_line(program, sudo=sudo, marks=self.talk.marks if self.talk else None)
        self.data = source_bytes(program) + program.payload

    def error(self, status: int, stdout: bytes, stderr: bytes) -> TransportError | None:
        """Why the program never ran; None if it did."""
        return not_started(self.target, self._program, sudo=self._sudo, status=status, stdout=stdout, stderr=stderr)
