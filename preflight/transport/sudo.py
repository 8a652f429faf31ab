"""What is said with sudo on a host before the program's source is sent, and what sudo's own words mean.

sudo reads a password from its stdin (`-S`), which is the program's stdin, too. So that neither is ever taken for the
other, nothing is sent unasked: the password only after sudo's prompt, which holds a word made up for this one run; the
source only after Python, which is the other user by then, has said that it is ready. Where sudo wants no password
(NOPASSWD, a ticket that still holds, root already), no prompt comes and the password stays here.

Texts of sudo 1.8 and 1.9: plugins/sudoers/{check,logging,sudoers}.c, plugins/sudoers/auth/sudo_auth.c, src/tgetpass.c.
"""

import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack
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
    """The two words on stderr by which a run is steered, and how the command line spells them.

    Neither stands in the command line as it is waited for. A login shell under `set -x` and a ForceCommand that prints
    what it runs show the command line on stderr, and that must be taken for neither sudo nor Python.
    """

    nonce: str

    @property
    def prompt_argument(self) -> str:
        """What `sudo -p` is given; sudo makes one `%` of two."""
        return f"preflight-{self.nonce}%%-password:"

    @property
    def prompt(self) -> str:
        """What sudo asks with."""
        return f"preflight-{self.nonce}%-password:"

    @property
    def ready_expression(self) -> str:
        """`ready` in Python."""
        return f'"preflight-{self.nonce}-"+"ready"'

    @property
    def ready(self) -> str:
        """What Python says, in a line of its own, before it reads its source."""
        return f"preflight-{self.nonce}-ready"


class SudoDialogue:
    """The conversation of one run on one host."""

    def __init__(self, target: Target, user: str, password: Password) -> None:
        """`user`: whom sudo is to become."""
        self._place = target
        self._user = user
        self._password = password
        self.marks = SudoMarkers(secrets.token_hex(8))
        self.through = False  # Python is there and waits for its source

    def become(self, chunks: Iterator[Chunk], send: Callable[[bytes], None], deadline: float) -> tuple[Chunk, ...]:
        """Read until Python is ready, or to the end where it never starts; return what came, without the marks.

        `send` writes to stdin. Raises TransportError(SUDO) where the password is refused or not sent, and TimeoutError
        where `deadline` (time.monotonic()) passes while another host tries the password.
        """
        prompt, ready = self.marks.prompt.encode(), self.marks.ready.encode() + b"\n"
        stdout, before, said = Tail(_NOISE_KEPT), b"", b""
        trial: PasswordTrial | None = None
        waiting_for("sudo, or the program to begin")
        with ExitStack() as stack:
            for is_stderr, data in chunks:
                if not is_stderr:
                    stdout.add(data)
                    continue
                said = (said + data)[-STDERR_KEPT:]
                if ready in said:
                    if trial:
                        trial.took = True
                    self.through = True
                    said = said.replace(ready, b"", 1)
                    break
                if prompt not in said:
                    continue
                said = said.replace(prompt, b"", 1)
                if trial:
                    # Asked once more. Sent again, the password would count as a second wrong one.
                    trial.took = False
                    raise self._asked_again(said)
                try:
                    trial = stack.enter_context(self._password.trial(self._place.host, deadline))
                except NotSentError as error:
                    raise errors.sudo_password_not_sent(self._place, error.by) from None
                send(trial.line)
                waiting_for("sudo's answer to the password")
                before, said = said, b""
            else:
                if trial:
                    trial.took = _was_right(said)
        waiting_for("the program")
        return (False, bytes(stdout)), (True, before + said)

    def _asked_again(self, said: bytes) -> TransportError:
        """`said`: sudo's words between the two questions. Who got the password wrong is told so."""
        if said.strip():
            return errors.sudo_password_refused(self._place, said)
        return errors.sudo_wants_more(self._place, self._user)


# sudo translates its messages, but not its name in front. The one exception is a mere warning.
_SAYS = re.compile(rb"^sudo: (?!unable to resolve host)", re.MULTILINE)
_MISSING = re.compile(rb"\bsudo: (command )?not found|not found: sudo\b")
_CANNOT_FIND = re.compile(rb"^sudo: \S+: command not found", re.MULTILINE)
_NO_TERMINAL = re.compile(rb"must have a tty")
_FORBIDS = re.compile(rb"is not in the sudoers|may not run sudo|is not allowed to (execute|run sudo)")
_WRONG = re.compile(rb"\d+ incorrect password attempt")


def _was_right(said: bytes) -> bool | None:
    """What the words after which sudo ended say of the password that it was sent; None if nothing."""
    if _FORBIDS.search(said) or _CANNOT_FIND.search(said):
        return True  # only those who have shown who they are are told
    return False if _SAYS.search(said) else None


def not_started(
    target: Target, program: Program, user: str, *, status: int, stdout: bytes, stderr: bytes
) -> TransportError | None:
    """Whether sudo, asked to become `user`, ended without starting the program; None if it did start it."""
    if status in (126, 127):
        return errors.sudo_missing(target) if _MISSING.search(stderr) else None
    if status != 1:
        return None
    if _CANNOT_FIND.search(stderr):
        return errors.no_python(target, program, stderr)
    if _NO_TERMINAL.search(stderr):
        return errors.sudo_wants_terminal(target)
    if _FORBIDS.search(stderr):
        return errors.sudo_forbids(target, user, stderr)
    if _WRONG.search(stderr):
        return errors.sudo_password_refused(target, stderr)
    if not stdout and _SAYS.search(stderr):
        return errors.sudo_refused(target, user, stderr)
    return None
