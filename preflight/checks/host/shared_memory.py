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


@host_check("HST130", "What jobs share in memory outlives a logout", severity=Outcome.WARN)
def kept_at_logout(scribe: Here, os: Os, job: Job) -> Iterator[Finding]:
    """Why: with RemoveIPC=yes, which Debian and Ubuntu have unless told otherwise, systemd-logind removes all that a
    user has in /dev/shm when its last session ends. Jobs that are started by ssh or mpirun, or go on in the background,
    then miss their own files: "unlink shared memory /dev/shm/nccl-… failed, error: No such file or directory". root and
    system users are left alone, and so are jobs of slurmd.

    Check manually: systemd-analyze cat-config systemd/logind.conf | grep RemoveIPC

    Fix: RemoveIPC=no under [Login] in a file of /etc/systemd/logind.conf.d, then systemctl restart systemd-logind
    """
    by_a_scheduler = scribe.cluster.job.launcher == "srun" or job.contained
    if os.remove_ipc and job.uid >= FIRST_USER and not by_a_scheduler:
        yield scribe.bad(
            f"{scribe.host.name}: logind removes what {job.user} has in /dev/shm when it logs out",
            expected="RemoveIPC=no",
            found="RemoveIPC=yes",
            remedy="RemoveIPC=no under [Login] in /etc/systemd/logind.conf.d/90-training.conf, then systemctl restart "
            "systemd-logind",
        )


@host_check("HST131", "Everybody may make files in /dev/shm, and nobody remove another's")
def shared_by_all(scribe: Here, limits: Limits, job: Job) -> Iterator[Finding]:
    """Why: the processes of a host hand data over in /dev/shm. Where its mode is not 1777, as after a remount or in an
    image, jobs of users end with "Call to shm_open failed : Permission denied", and those of root do not. Without the
    last bit, the sticky one, anybody can remove a job's files.

    Check manually: stat -c %a /dev/shm   (where jobs run)

    Fix: chmod 1777 /dev/shm, and mode=1777 in its line of /etc/fstab
    """
    mode = limits.shm.mode if limits.shm else _EVERYBODY | _STICKY
    closed = mode & _EVERYBODY != _EVERYBODY
    if closed or not mode & _STICKY:
        yield (scribe.bad if closed and job.uid else scribe.warn)(
            f"{scribe.host.name}: /dev/shm has mode {mode:o} where jobs run",
            expected="1777",
            found=f"{mode:o}",
            remedy="chmod 1777 /dev/shm, and mode=1777 in its line of /etc/fstab",
        )


@host_check("HST132", "No shared memory is left from an earlier job", severity=Outcome.WARN, products=NVIDIA)
def left_in_memory(scribe: Here, limits: Limits) -> Iterator[Finding]:
    """Why: a job that was killed leaves the files of NCCL in /dev/shm, which are memory, until it is full: "Call to
    posix_fallocate failed : No space left on device".

    Check manually: ls -l /dev/shm/nccl-*; fuser /dev/shm/nccl-*   (nobody has them open)

    Fix: rm /dev/shm/nccl-*, when no job runs
    """
    shm = limits.shm
    if shm and shm.left_bytes >= min(SHM_ENOUGH, limits.shm_bytes // 10) and shm.left:
        yield scribe.bad(
            f"{scribe.host.name}: {shm.left} files of NCCL with {shm.left_bytes >> 20} MiB are left in /dev/shm, and "
            "no process has them open",
            found=f"{shm.left_bytes} bytes",
            remedy=f"when no job runs, on {scribe.host.name}: rm /dev/shm/nccl-*",
        )
