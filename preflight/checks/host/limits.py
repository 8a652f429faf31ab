"""Checks of limits: open files of a process and of the host, and the stack."""

from collections.abc import Iterator

from preflight.checks.engine.registry import Here, host_check
from preflight.facts.types import Limits, Sysctl
from preflight.model.cluster import Product
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome

OPEN_FILES = 65535  # open files of one rank


@host_check("HST106", "Open-file limit", severity=Outcome.WARN)
def open_files(scribe: Here, limits: Limits) -> Iterator[Finding]:
    """Why: A rank holds a socket for every peer and channel, and data loaders hold files. The first rank of a large job
    runs out first, with "Too many open files" in the middle of the connection phase. The check warns if the soft limit
    is below 65535.

    Check manually: ulimit -Sn; ulimit -Hn (as the job starts: through sshd, the scheduler or the container)

    Fix: Set * soft nofile 65535 and * hard nofile 65535 in /etc/security/limits.d/90-training.conf, then log in again.
    """
    if 0 <= limits.nofile_soft < OPEN_FILES:
        yield scribe.bad(
            f"{scribe.host.name}: the open-file limit is {limits.nofile_soft}",
            expected=f"{OPEN_FILES} or more",
            found=f"soft {limits.nofile_soft}, hard {limits.nofile_hard}",
            remedy="raise the limit in the job's script, or by a line in /etc/security/limits.d",
            commands=(f"ulimit -n {OPEN_FILES}",),
        )


@host_check("HST133", "Stack size limit", severity=Outcome.WARN, products=frozenset({Product.NVIDIA}))
def stack(scribe: Here, limits: Limits) -> Iterator[Finding]:
    """Why: If the stack is unlimited, glibc gives threads 2 MiB instead of the limit, which is usually 8 MiB. NCCL's
    search for rings can overflow 2 MiB, and the job ends with a segmentation fault in libnccl. An unlimited stack is a
    warning.

    Check manually: ulimit -s (as the job starts: through sshd, the scheduler or the container)

    Fix: Run ulimit -s 8192 in the job's script. Do not set an unlimited stack in /etc/security/limits.d, or with
    LimitSTACK in units.
    """
    if limits.stack_soft == -1:
        yield scribe.bad(
            f"{scribe.host.name}: the stack size is unlimited where jobs run, so threads get 2 MiB",
            expected="8 MiB",
            found="unlimited",
            remedy="limit the stack size in the job's script",
            commands=("ulimit -s 8192",),
        )


@host_check("HST134", "System-wide open-file limit", severity=Outcome.WARN)
def file_table(scribe: Here, sysctl: Sysctl) -> Iterator[Finding]:
    """Why: fs.file-max limits the open files of all processes together. When it is reached, no process can open
    anything: "Too many open files in system", and "VFS: file-max limit reached" in the kernel's log. Every rank may
    need 65535 files. The check warns if fewer are free than the host's ranks may need.

    Check manually: cat /proc/sys/fs/file-nr (open, free, maximum)

    Fix: Set fs.file-max = 9223372036854775807, the kernel's own default, in a file of /etc/sysctl.d.
    """
    wanted = OPEN_FILES * max(1, len(scribe.host.devices))
    free = sysctl.most_files - sysctl.open_files
    if sysctl.most_files and free < wanted:
        yield scribe.bad(
            f"{scribe.host.name}: {free} more files can be opened, but its ranks may need {wanted}",
            expected=f"{wanted} or more",
            found=f"{sysctl.open_files} of {sysctl.most_files} are open",
            remedy="raise fs.file-max now, and in a file of /etc/sysctl.d",
            commands=(scribe.on(scribe.host.name, "sysctl -w fs.file-max=9223372036854775807"),),
        )
