"""Checks of /dev/shm: kept after a logout, open to all users, free of leftovers."""

from collections.abc import Iterator

from preflight.checks.engine.registry import Here, host_check
from preflight.checks.host.container import SHM_ENOUGH
from preflight.facts.sections.job import Job
from preflight.facts.types import Limits, Os
from preflight.model.cluster import Product
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome

NVIDIA = frozenset({Product.NVIDIA})
FIRST_USER = 1000  # logind leaves root and the system's users alone
_EVERYBODY, _STICKY = 0o777, 0o1000


@host_check("HST130", "Shared memory cleanup at logout", severity=Outcome.WARN)
def kept_at_logout(scribe: Here, os: Os, job: Job) -> Iterator[Finding]:
    """Why: RemoveIPC=yes is the default on Debian and Ubuntu. With this setting, systemd-logind removes a user's files
    in /dev/shm when the user's last session ends. Jobs that ssh or mpirun starts, and background jobs, then lose their
    files. The error is "unlink shared memory /dev/shm/nccl-… failed, error: No such file or directory".

    Result: WARN if the setting affects the jobs. Jobs of root, system users and slurmd are not affected.

    Check manually:
      systemd-analyze cat-config systemd/logind.conf | grep RemoveIPC

    Fix: Set RemoveIPC=no under [Login] in a file in /etc/systemd/logind.conf.d, then restart the service.
      systemctl restart systemd-logind
    """
    by_a_scheduler = scribe.cluster.job.launcher == "srun" or job.contained
    if os.remove_ipc and job.uid >= FIRST_USER and not by_a_scheduler:
        yield scribe.bad(
            f"{scribe.host.name}: systemd-logind deletes the files of user {job.user} in /dev/shm at logout",
            expected="RemoveIPC=no",
            found="RemoveIPC=yes",
            remedy="set RemoveIPC=no under [Login] in /etc/systemd/logind.conf.d/90-training.conf, "
            "then restart systemd-logind",
            commands=(scribe.on(scribe.host.name, "systemctl restart systemd-logind"),),
        )


@host_check("HST131", "Shared memory permissions")
def shared_by_all(scribe: Here, limits: Limits, job: Job) -> Iterator[Finding]:
    """Why: The processes on a host exchange data through /dev/shm. After a remount, or in an image, the mode of
    /dev/shm may differ from 1777. Users' jobs then fail with "Call to shm_open failed : Permission denied", but root's
    jobs do not. Without the sticky bit, any user can remove a job's files.

    Result: FAIL if some users cannot write to /dev/shm. If jobs run as root, this is WARN. Also WARN if the sticky bit
    is missing.

    Check manually: Where jobs run:
      stat -c %a /dev/shm

    Fix: Set the mode, and add mode=1777 to the /dev/shm line in /etc/fstab.
      chmod 1777 /dev/shm
    """
    mode = limits.shm.mode if limits.shm else _EVERYBODY | _STICKY
    closed = mode & _EVERYBODY != _EVERYBODY
    if closed or not mode & _STICKY:
        yield (scribe.bad if closed and job.uid else scribe.warn)(
            f"{scribe.host.name}: /dev/shm has mode {mode:o} where jobs run",
            expected="1777",
            found=f"{mode:o}",
            remedy="set mode 1777 now, and add mode=1777 to the /dev/shm line in /etc/fstab",
            commands=(scribe.on(scribe.host.name, "chmod 1777 /dev/shm"),),
        )


@host_check("HST132", "Leftover shared memory files", severity=Outcome.WARN, products=NVIDIA)
def left_in_memory(scribe: Here, limits: Limits) -> Iterator[Finding]:
    """Why: A killed job leaves NCCL files in /dev/shm, and these files use memory. When /dev/shm is full, jobs end with
    "Call to posix_fallocate failed : No space left on device".

    Result: WARN if files that no process has open take up 1 GiB or a tenth of /dev/shm.

    Check manually: The command fuser lists the files that a process has open.
      ls -l /dev/shm/nccl-*
      fuser /dev/shm/nccl-*

    Fix: Remove the files when no job is running.
      rm /dev/shm/nccl-*
    """
    shm = limits.shm
    if shm and shm.left_bytes >= min(SHM_ENOUGH, limits.shm_bytes // 10) and shm.left:
        yield scribe.bad(
            f"{scribe.host.name}: {shm.left} leftover NCCL files use {shm.left_bytes >> 20} MiB of /dev/shm, and "
            "no process has them open",
            remedy="remove the files when no job is running",
            commands=(scribe.on(scribe.host.name, "rm /dev/shm/nccl-*"),),
        )
