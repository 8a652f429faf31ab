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
    """Why: A rank opens a socket for every peer and channel, and data loaders keep files open. In a large job, a rank
    that reaches the limit fails while it connects, with "Too many open files".

    Result: WARN if the soft limit is below 65535.

    Check manually: Run this in the way that jobs start: through sshd, the scheduler or the container.
      ulimit -Sn
      ulimit -Hn

    Fix: Write these lines to /etc/security/limits.d/90-training.conf, then log in again.
      * soft nofile 65535
      * hard nofile 65535
    """
    if 0 <= limits.nofile_soft < OPEN_FILES:
        hard_suffices = not 0 <= limits.nofile_hard < OPEN_FILES
        line = rf'sh -c "echo \* - nofile {OPEN_FILES} >/etc/security/limits.d/90-training.conf"'
        yield scribe.bad(
            f"{scribe.host.name}: the open-file limit is {limits.nofile_soft}",
            expected=f"{OPEN_FILES} or more",
            found=f"soft {limits.nofile_soft}, hard {limits.nofile_hard}",
            remedy="add this line to the job script"
            if hard_suffices
            else f"set the soft and the hard limit to {OPEN_FILES} in limits.d, then log in again",
            commands=(f"ulimit -Sn {OPEN_FILES}" if hard_suffices else scribe.on(scribe.host.name, line),),
        )


@host_check("HST133", "Stack size limit", severity=Outcome.WARN, products=frozenset({Product.NVIDIA}))
def stack(scribe: Here, limits: Limits) -> Iterator[Finding]:
    """Why: If the stack size is unlimited, glibc gives threads a stack of 2 MiB instead of the limit, which is usually
    8 MiB. NCCL's ring search can overflow 2 MiB, and the job then fails with a segmentation fault in libnccl.

    Result: WARN if the stack size is unlimited.

    Check manually: Run this in the way that jobs start: through sshd, the scheduler or the container.
      ulimit -s

    Fix: Set a limit in the job's script. Do not set an unlimited stack size in /etc/security/limits.d, or with
    LimitSTACK in a systemd unit.
      ulimit -s 8192
    """
    if limits.stack_soft == -1:
        yield scribe.bad(
            f"{scribe.host.name}: the stack size is unlimited where jobs run, so threads get 2 MiB",
            expected="8 MiB",
            found="unlimited",
            remedy="limit the stack size in the job script",
            commands=("ulimit -s 8192",),
        )


@host_check("HST134", "System-wide open-file limit", severity=Outcome.WARN)
def file_table(scribe: Here, sysctl: Sysctl) -> Iterator[Finding]:
    """Why: The fs.file-max limit applies to all processes on the host together. When the limit is reached, no process
    can open another file ("Too many open files in system"). The kernel logs "VFS: file-max limit reached". Every rank
    may need 65535 files.

    Result: WARN if the host's ranks may need more files than the limit leaves free.

    Check manually: The three numbers are the open files, the free file handles and the maximum.
      cat /proc/sys/fs/file-nr

    Fix: Write the kernel's default to a file in /etc/sysctl.d.
      fs.file-max = 9223372036854775807
    Then load the file.
      sysctl --system
    """
    wanted = OPEN_FILES * max(1, len(scribe.host.devices))
    free = sysctl.most_files - sysctl.open_files
    if sysctl.most_files and free < wanted:
        yield scribe.bad(
            f"{scribe.host.name}: the host can open only {free} more files, but its ranks may need {wanted}",
            evidence=(f"{sysctl.open_files} of {sysctl.most_files} files are open",),
            remedy="raise fs.file-max now, and set it permanently in a file in /etc/sysctl.d",
            commands=(scribe.on(scribe.host.name, "sysctl -w fs.file-max=9223372036854775807"),),
        )
