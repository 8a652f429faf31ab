"""Command line that runs a program on a host, and the error if it does not start. Pure.

The source goes over stdin, never into an argument: arguments are visible to every user of the host.
Each layer becomes argv in front of the next, so that nothing is quoted twice:

    sudo  →  wrapper (docker exec -i …)  →  shell that runs the setup line  →  python reading its source
"""

import re
import secrets
import shlex

from preflight.transport import errors
from preflight.transport.errors import Target
from preflight.transport.password import Password
from preflight.transport.sudo import SudoDialogue, SudoEnding, SudoMarkers, not_started
from preflight.transport.types import Program, TransportError

# Marks the programs of this run in their command lines, so that the collector recognises them (collect/own.py).
RUN = secrets.token_hex(4)

# Reads exactly the source and runs it as __main__; the program reads the rest of stdin.
# A source that a broken connection cut short must not run.
# Without -I the current directory is removed from the module path. A file in a home directory that has the name of a
# library module would be imported otherwise.
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

# $1 is the setup line. It must neither read the source on stdin nor write into the program's stdout.
# Setup lines use `source`, which not every sh knows.
_SETUP = 'eval "$1" </dev/null >&2; shift; exec "$@"'
_WITH_SETUP = f"""command -v bash >/dev/null 2>&1 && exec bash -c '{_SETUP}' preflight "$@"; {_SETUP}"""

_AS_ROOT = '[ "$(id -u)" = 0 ] || set -- {sudo} -- "$@"; exec "$@"'
_AS_USER = 'user=$1; shift; [ "$(id -un)" = "$user" ] || set -- {sudo} -H -u "$user" -- "$@"; exec "$@"'


def source_bytes(program: Program) -> bytes:
    """Return the bytes that are sent first on stdin."""
    return program.source.encode("utf-8")


def python_argv(program: Program, marks: SudoMarkers | None = None) -> tuple[str, ...]:
    """Return the command of Python that reads its source from stdin. With `marks` it first prints the ready mark."""
    greeting = _GREETING.format(ready=marks.ready_expression) if marks else ""
    loader = _LOADER.format(length=len(source_bytes(program)), greeting=greeting, run=RUN)
    return (program.python, *(("-I",) if program.isolated else ()), "-c", loader)


def host_argv(program: Program, *, sudo: bool, marks: SudoMarkers | None = None) -> tuple[str, ...]:
    """Return the whole command as argv.

    `sudo` makes it run as root unless the program has a user. `marks` are for a sudo that may ask for a password.
    The command itself finds out on the host (`id`) if sudo is needed: only there the login user is certain.
    """
    sudo_command = f"sudo -S -p {marks.prompt_argument}" if marks else "sudo -n"
    argv = python_argv(program, marks)
    if program.setup:
        argv = ("sh", "-c", _WITH_SETUP, "preflight", program.setup, *argv)
    argv = (*program.wrapper, *argv)
    if program.user:
        return ("sh", "-c", _AS_USER.format(sudo=sudo_command), "preflight", program.user, *argv)
    if sudo:
        return ("sh", "-c", _AS_ROOT.format(sudo=sudo_command), "preflight", *argv)
    return argv


def command_line(program: Program, *, sudo: bool, marks: SudoMarkers | None = None) -> str:
    """Return the command for sshd, which passes it to the user's login shell.

    sh, bash, zsh, fish and csh all read a single `exec sh -c '…'` alike, and exit with 127 if python is missing.
    """
    script = "exec " + shlex.join(host_argv(program, sudo=sudo, marks=marks))
    if "!" in script or "\n" in script:
        # csh expands "!" from its history and rejects newlines, even between quotes.
        script = f'eval "$(printf "{_octal(script)}")"'
    return f"exec sh -c {shlex.quote(script)}"


def _octal(text: str) -> str:
    """Return the text with all but letters, digits and blanks as the `\\ooo` of printf(1)."""
    return re.sub(rb"[^A-Za-z0-9 ]", lambda char: b"\\%03o" % char[0][0], text.encode()).decode()


class Call:
    """One run of a program on one host: its command line, its stdin, and the meaning of its exit code."""

    def __init__(self, target: Target, program: Program, *, sudo: bool, password: Password | None) -> None:
        self.target = target
        self._program = program
        self._sudo_user = user = program.user or ("root" if sudo else "")
        self.dialogue = SudoDialogue(target, user, password) if user and password else None
        self.command = command_line(program, sudo=sudo, marks=self.dialogue.marks if self.dialogue else None)
        self.data = source_bytes(program) + program.payload

    def error(self, status: int, stdout: bytes, stderr: bytes) -> TransportError | None:
        """Return why the program never ran, from the end of its command line; None if it ran.

        126 and 127 are "cannot execute" and "not found" of a shell and of docker. sudo ends with 1.
        """
        if self._sudo_user:
            error = not_started(self.target, self._program, self._sudo_user, SudoEnding(status, stdout, stderr))
            if error:
                return error
        return errors.no_python(self.target, self._program, stderr) if status in (126, 127) else None
