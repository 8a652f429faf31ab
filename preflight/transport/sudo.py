"""Dialogue with sudo before the program's source is sent, and the meaning of sudo's messages.

sudo reads a password from its stdin (`-S`), which is the program's stdin, too. So nothing is sent unasked.
The password is sent only after sudo's prompt, which holds a random word of this run. The source is sent only after
Python, which runs as the other user by then, has printed that it is ready. If sudo needs no password (NOPASSWD, a
valid ticket, root already), no prompt comes and the password is not sent.

Texts of sudo 1.8 and 1.9: plugins/sudoers/{check,logging,sudoers}.c, plugins/sudoers/auth/sudo_auth.c, src/tgetpass.c.
"""

import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from preflight.transport import errors
from preflight.transport.attempt import waiting_for
from preflight.transport.errors import Target
from preflight.transport.password import NotSentError, Password, PasswordTrial
from preflight.transport.streams import STDERR_KEPT, Chunk, Tail
from preflight.transport.types import Program, TransportError

_NOISE_KEPT = 64 << 10  # bytes of what a login shell prints before the program begins, the last ones


@dataclass(frozen=True)
class SudoMarkers:
    """Marks on stderr of sudo's prompt and of Python's start, and their spelling in the command line.

    The command line spells both differently. A login shell under `set -x` and a ForceCommand that prints its command
    show the command line on stderr, and that must be mistaken for neither sudo nor Python.
    """

    nonce: str

    @property
    def prompt_argument(self) -> str:
        """Return the argument of `sudo -p`; sudo prints one `%` for two."""
        return f"preflight-{self.nonce}%%-password:"

    @property
    def prompt(self) -> str:
        """Return the prompt that sudo prints."""
        return f"preflight-{self.nonce}%-password:"

    @property
    def ready_expression(self) -> str:
        """Return a Python expression for `ready`."""
        return f'"preflight-{self.nonce}-"+"ready"'

    @property
    def ready(self) -> str:
        """Return the line that Python prints before it reads its source."""
        return f"preflight-{self.nonce}-ready"


class SudoDialogue:
    """Dialogue of one run on one host. `user` is the user that sudo should become."""

    def __init__(self, target: Target, user: str, password: Password) -> None:
        self._target = target
        self._user = user
        self._password = password
        self.marks = SudoMarkers(secrets.token_hex(8))
        self.python_ready = False  # Python waits for its source

    def become(self, chunks: Iterator[Chunk], send: Callable[[bytes], None], deadline: float) -> tuple[Chunk, ...]:
        """Read until Python is ready, or to the end if it never starts. Return the output without the marks.

        `send` writes to stdin. Raises TransportError(SUDO) if the password is refused or not sent.
        Raises TimeoutError if `deadline` (time.monotonic()) passes while another host tries the password.
        """
        prompt, ready = self.marks.prompt.encode(), self.marks.ready.encode() + b"\n"
        stdout, before_prompt, stderr = Tail(_NOISE_KEPT), b"", b""
        trial: PasswordTrial | None = None
        waiting_for("sudo, or the start of the program")
        with ExitStack() as stack:
            for is_stderr, data in chunks:
                if not is_stderr:
                    stdout.add(data)
                    continue
                stderr = (stderr + data)[-STDERR_KEPT:]
                if ready in stderr:
                    self.python_ready = True
                    stderr = stderr.replace(ready, b"", 1)
                    break
                if prompt not in stderr:
                    continue
                stderr = stderr.replace(prompt, b"", 1)
                if trial:
                    # Sent again, the password would count as a second wrong one.
                    trial.accepted = False
                    raise self._prompted_again(stderr)
                trial = stack.enter_context(self._trial(deadline))
                send(trial.line)
                waiting_for("sudo's answer to the password")
                before_prompt, stderr = stderr, b""
            if trial:
                trial.accepted = True if self.python_ready else _password_accepted(stderr)
        waiting_for("the program")
        return (False, bytes(stdout)), (True, before_prompt + stderr)

    @contextmanager
    def _trial(self, deadline: float) -> Iterator[PasswordTrial]:
        try:
            with self._password.trial(self._target.host, deadline) as trial:
                yield trial
        except NotSentError as error:
            raise errors.sudo_password_not_sent(self._target, error.by) from None

    def _prompted_again(self, stderr: bytes) -> TransportError:
        """Return the error for a second prompt. `stderr` is sudo's text between both prompts."""
        if stderr.strip():
            return errors.sudo_password_refused(self._target, stderr)
        return errors.sudo_wants_second_factor(self._target, self._user)


# sudo translates its messages, but not the name in front. The excluded message is only a warning.
_MESSAGE = re.compile(rb"^sudo: (?!unable to resolve host)", re.MULTILINE)
_MISSING = re.compile(rb"\bsudo: (command )?not found|not found: sudo\b")
_CANNOT_FIND = re.compile(rb"^sudo: \S+: command not found", re.MULTILINE)
_NO_TERMINAL = re.compile(rb"must have a tty")
_FORBIDS = re.compile(rb"is not in the sudoers|may not run sudo|is not allowed to (execute|run sudo)")
_WRONG = re.compile(rb"\d+ incorrect password attempt")


def _password_accepted(stderr: bytes) -> bool | None:
    """Return true if sudo accepted the password, false if it refused it, None if its last text shows neither."""
    if _FORBIDS.search(stderr) or _CANNOT_FIND.search(stderr):
        return True  # sudo prints these only after authentication
    return False if _MESSAGE.search(stderr) else None


@dataclass(frozen=True)
class SudoEnding:
    """End of a command line on a host: its exit code and its output."""

    status: int
    stdout: bytes
    stderr: bytes


def not_started(target: Target, program: Program, user: str, ending: SudoEnding) -> TransportError | None:
    """Return why sudo to `user` ended without starting the program; None if it started the program."""
    stderr = ending.stderr
    if ending.status in (126, 127):
        return errors.sudo_missing(target) if _MISSING.search(stderr) else None
    if ending.status != 1:
        return None
    if _CANNOT_FIND.search(stderr):
        return errors.no_python(target, program, stderr)
    if _NO_TERMINAL.search(stderr):
        return errors.sudo_wants_terminal(target)
    if _FORBIDS.search(stderr):
        return errors.sudo_forbids(target, user, stderr)
    if _WRONG.search(stderr):
        return errors.sudo_password_refused(target, stderr)
    if not ending.stdout and _MESSAGE.search(stderr):
        return errors.sudo_refused(target, user, stderr)
    return None
