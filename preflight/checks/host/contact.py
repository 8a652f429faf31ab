"""Checks of the way to a host: reachable, Python answers, sudo makes root."""

import re
from collections.abc import Iterator

from preflight.checks.engine.obstacles import no_answer
from preflight.checks.engine.registry import Here, host_check
from preflight.facts.types import HostFacts, Missing, Os, Unreachable
from preflight.model.finding import Finding
from preflight.model.text import quote


@host_check("HST101", "Host reachability")
def reachable(scribe: Here, contact: HostFacts | Unreachable) -> Iterator[Finding]:
    """Why: preflight cannot check an unreachable host. A job that includes the host waits until its connect timeout.

    Result: FAIL if ssh or python3 does not work. WARN if the login shell or python3 prints text before preflight's
    output. UNKNOWN if the time budget ended before the host answered.

    Check manually: Replace HOST with the host's name.
      ssh -o BatchMode=yes HOST python3 --version

    Fix: Apply the fix in the finding. The fix depends on the cause: name, refused connection, timeout, host key,
    authentication or python3. If python3 does not answer, make sure that it runs programs without printing anything
    else.
    """
    if isinstance(contact, HostFacts):
        yield from _python_answers(scribe, contact)
    if isinstance(contact, Unreachable):
        address = scribe.host.address
        # The summary leaves the address out, so that a dead rack reads as one line. It is in `remedy` and `found`.
        summary = contact.summary
        if address != scribe.host.name:
            summary = re.sub(rf"\[?{re.escape(address)}\]?:([0-9]+)", r"port \1 of its address", summary)
            summary = summary.replace(address, "its address")
        # Nothing is known to be wrong with a host that the run had no time for.
        report = scribe.unknown if contact.trouble == "budget" else scribe.bad
        yield report(
            summary,
            found=address,
            remedy=contact.remedy,
            commands=contact.commands,
            evidence=("the connection was refused or closed" if contact.trouble == "refused" else contact.trouble,),
        )


def _python_answers(scribe: Here, facts: HostFacts) -> Iterator[Finding]:
    name, os = scribe.host.name, facts.os
    if isinstance(os, Missing) and no_answer(os.error):
        yield scribe.unknown(f"{name}: could not be checked: {os.error}")
    elif isinstance(os, Os) and os.printed:
        line = quote(os.printed)
        yield scribe.warn(
            f"{name}: the login shell or python3 prints unexpected output: {line}",
            expected="no output",
            found=line,
            remedy="remove the command that prints this from the shell's startup files or Python's sitecustomize",
            retest=scribe.on(name, "python3 -I -c pass"),
        )


@host_check("HST107", "Root access through sudo")
def root_by_sudo(scribe: Here, os: Os) -> Iterator[Finding]:
    """Why: Only root can see firewall rules, device settings and other users' processes. If sudo refuses, preflight
    checks the host as the login user. Checks that need root then report UNKNOWN, and preflight cannot change anything.

    Result: FAIL if sudo refuses.

    Check manually: Replace HOST with the host's name. The command must print 0 and must not show a prompt.
      ssh HOST sudo -n id -u

    Fix: Apply the fix in the finding. With -K (--ask-sudo-password), preflight asks for the sudo password once. If you
    have no sudo rights on the host, set sudo = false under [ssh] in the inventory.
    """
    if os.refused:
        yield scribe.bad(
            f"{os.refused.summary}, so the checks ran without root privileges",
            remedy=os.refused.remedy,
            commands=os.refused.commands,
        )
