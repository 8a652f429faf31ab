"""Checks of programs that ssh starts: the same mpirun everywhere, and the environment of a login."""

import re
import shlex
from collections.abc import Iterator, Mapping

from preflight.checks.engine.registry import All, Here, cluster_check, host_check
from preflight.checks.shared.majority import odd_ones
from preflight.facts.sections.shells import Shells, ShellView
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome
from preflight.model.text import quote

_MISSING_LIBRARY = re.compile(r"error while loading shared libraries: ([^\s:]+)")
_NOT_READ = "~/.bashrc returns early in non-interactive shells, or only a login profile sets the variable"


@cluster_check("HST122", "MPI launcher version", several=False, blocks=False)
def same_mpirun(scribe: All, shells: Mapping[str, Shells]) -> Iterator[Finding]:
    """Why: Over ssh, mpirun starts its daemon (orted or prted) on every host and finds it through PATH. The shell on
    the host is neither a login shell nor interactive. If the daemon is not on that PATH, the job fails with "orted:
    command not found". If the daemon has another version, the job hangs or ends in the middle of MPI_Init.

    Result: FAIL if mpirun is missing or has a different version. WARN if the same version is in a different folder.

    Check manually: Replace HOST with the host's name. The quotes make sure that no login shell is used.
      ssh HOST 'command -v mpirun; mpirun --version'

    Fix: Install the same MPI in the same folder on every host. In ~/.bashrc, set PATH and LD_LIBRARY_PATH above the
    line that returns for non-interactive shells. Or use mpirun --prefix.
    """
    if scribe.cluster.job.launcher != "mpirun":
        yield scribe.skip("the inventory's launcher is not mpirun")
        return
    with_mpirun = {
        host: shells_of_host.over_ssh
        for host, shells_of_host in shells.items()
        if shells_of_host.over_ssh.programs.get("mpirun")
    }
    for host, shells_of_host in shells.items():
        if host not in with_mpirun:
            yield _without_mpirun(scribe, host, shells_of_host.login)
    starting = {}
    for host, way in with_mpirun.items():
        if library := _MISSING_LIBRARY.search(way.mpi or ""):
            yield _without_library(scribe, host, library[1])
        else:
            starting[host] = way.mpi
    for odd in odd_ones(starting):
        yield scribe.bad(
            f"{odd.host}: mpirun --version prints {quote(odd.value)}, but {quote(odd.usual)} on {odd.elsewhere}",
            host=odd.host,
            peer=odd.others[0],
            remedy="install the same Open MPI release on every host",
        )
    yield from _other_folders(scribe, with_mpirun)


def _without_mpirun(scribe: All, host: str, login: ShellView | None) -> Finding:
    login_path = login.programs.get("mpirun") if login else ""
    return scribe.bad(
        f"{host}: mpirun is not on the PATH of commands run over ssh"
        + (f", but a login shell finds {login_path}" if login_path else ""),
        host=host,
        cause=_NOT_READ if login_path else "",
        remedy="set PATH at the top of ~/.bashrc, or use mpirun --prefix" if login_path else "install mpirun",
    )


def _without_library(scribe: All, host: str, library: str) -> Finding:
    return scribe.bad(
        f"{host}: mpirun does not start: {library} is missing",
        host=host,
        expected="the version of Open MPI",
        cause="LD_LIBRARY_PATH of ssh commands lacks the library's folder, or Open MPI is incomplete",
        remedy="add the library's folder to LD_LIBRARY_PATH at the top of ~/.bashrc. If the library is not found, "
        "reinstall Open MPI",
        commands=(scribe.on(host, f"find / -xdev -name {shlex.quote(library)}"),),
    )


def _other_folders(scribe: All, with_mpirun: Mapping[str, ShellView]) -> Iterator[Finding]:
    """Yield the hosts with the same mpirun in another folder."""
    for odd in odd_ones({host: way.programs["mpirun"] for host, way in with_mpirun.items()}):
        if with_mpirun[odd.host].mpi == with_mpirun[odd.others[0]].mpi:
            yield scribe.warn(
                f"{odd.host}: mpirun is {odd.value}, but {odd.usual} on {odd.elsewhere}",
                host=odd.host,
                peer=odd.others[0],
                evidence=(
                    "if mpirun is started by its full path, it expects its daemon in the same folder on all hosts",
                ),
                remedy="install mpirun in the same folder on every host, or start it without a path",
            )


@host_check("ENV112", "Environment of ssh commands", severity=Outcome.WARN)
def like_a_login(scribe: Here, shells: Shells) -> Iterator[Finding]:
    """Why: A command that works in a terminal may fail when a launcher runs it. For a remote command, sshd starts a
    shell that does not read a profile. The shell reads ~/.bashrc, which often returns in its first lines if the shell
    is not interactive.

    Result: WARN if the environment of a login differs from that of an ssh command. The check compares the
    programs found on PATH and the value of LD_LIBRARY_PATH. It also compares the environment variables of CANN, HCCL,
    NCCL, CUDA, gloo and Open MPI. It cannot see variables that the launcher passes on (mpirun -x, .deepspeed_env).

    Check manually: Replace HOST with the host's name.
      ssh HOST env | sort
    In a login on that host:
      env | sort

    Fix: In ~/.bashrc, set the variable above the line that returns for non-interactive shells. Or set it in
    /etc/environment or on the launcher's command line.
    """
    if shells.login is None:
        yield scribe.unknown(f"{scribe.host.name}: a login shell of {shells.user} could not be checked: {shells.error}")
        return
    differences = [
        *_missing_programs(shells.over_ssh, shells.login),
        *_missing_variables(shells.over_ssh, shells.login),
    ]
    if differences:
        yield scribe.bad(
            f"{scribe.host.name}: ssh commands of {shells.user} differ from a login shell: {differences[0]}"
            + (f", and {len(differences) - 1} more" if len(differences) > 1 else ""),
            evidence=tuple(differences),
            cause=_NOT_READ,
            remedy="move these settings to the top of ~/.bashrc, or to /etc/environment",
        )


def _missing_programs(over_ssh: ShellView, login: ShellView) -> Iterator[str]:
    for name, path in login.programs.items():
        ssh_path = over_ssh.programs.get(name, "")
        if path and path != ssh_path:
            yield f"{name} is {path} in a login shell and {ssh_path or 'not on PATH'} over ssh"


def _missing_variables(over_ssh: ShellView, login: ShellView) -> Iterator[str]:
    for name, value in sorted(login.variables.items()):
        ssh_value = over_ssh.variables.get(name)
        if name == "LD_LIBRARY_PATH":
            missing = [folder for folder in value.split(":") if folder and folder not in (ssh_value or "").split(":")]
            if missing:
                yield f"{name} does not contain {quote(':'.join(missing))} over ssh"
        elif ssh_value is None:
            yield f"{name} is {quote(value)} in a login shell and not set over ssh"
        elif ssh_value != value:
            yield f"{name} is {quote(value)} in a login shell and {quote(ssh_value)} over ssh"
