"""Jobs: the devices of the asking job, and the processes of running jobs."""

# Variables with a job's devices, the narrowest first: Slurm's step, its job (also as GRES with indices), a container.
DEVICES = (
    "SLURM_STEP_GPUS",
    "SLURM_JOB_GPUS",
    "SLURM_JOB_GRES",
    "ASCEND_VISIBLE_DEVICES",
    "ASCEND_RT_VISIBLE_DEVICES",
)
DAEMONS = (b"slurmstepd", b"pbs_mom", b"res", b"flux-shell")  # of Slurm, PBS, LSF, Flux: ancestors of a job's processes
ONE_A_JOB = (b"slurmstepd", b"flux-shell")  # the daemons that exist only while a job runs
OURS = b"preflight-"  # prefix of the names of the probe's and the rehearsal's processes
CGROUP = b"/job_"  # of Slurm's cgroup plugins, v1 and v2: "…/job_12/step_0/…"
MOST = 1024  # devices of a host
LONGEST = 4096  # characters of such a list


def job_devices(environment):
    """Return the device ids of this job; None, for all of the host, where no variable gives them in a known form."""
    for name in DEVICES:
        devices = indices(environment.get(name, ""))
        if devices is not None:
            return devices
    return None


def indices(text):
    """Return the numbers of "0,2-3", "gpu:a100:3(IDX:0,2-3)" or "Ascend910-0,Ascend910-2". Return None for any other
    form, and for GRES of several kinds, which number different things."""
    if text.count("(IDX:") > 1 or len(text) > LONGEST:
        return None
    if "(" in text:
        text = text.partition("(IDX:")[2].partition(")")[0]
    numbers = set()
    for part in text.split(","):
        low, _, high = part.strip().partition("-")
        if low.startswith("Ascend"):
            low, high = high, ""
        high = high or low
        if not (low.isdecimal() and high.isdecimal() and int(low) <= int(high) < MOST):
            return None
        numbers.update(range(int(low), int(high) + 1))
    return numbers


def runs_in_a_job(proc, pid):
    """Return whether a process is part of a job. It is if a scheduler's daemon is an ancestor, or if the job's cgroup
    holds it, as its parent may have ended. Processes that preflight itself has started count, too."""
    try:
        with open("%s/%s/cgroup" % (proc, pid), "rb") as file:
            if CGROUP in file.read(4096):
                return True
    except OSError:
        pass
    for _ in range(64):
        try:
            with open("%s/%s/stat" % (proc, pid), "rb") as file:
                begin, _, fields = file.read(4096).rpartition(b")")
        except OSError:
            return False
        name = begin.partition(b"(")[2]
        if name in DAEMONS or name.startswith(OURS):
            return True
        pid = fields.split()[1].decode()
        if pid in ("0", "1"):
            return False
    return False


def a_job_runs(proc, pids):
    """Return whether any job runs here now, as far as its daemon shows."""
    for pid in pids:
        try:
            with open("%s/%s/comm" % (proc, pid), "rb") as file:
                if file.read(64).strip() in ONE_A_JOB:
                    return True
        except OSError:
            continue
    return False
