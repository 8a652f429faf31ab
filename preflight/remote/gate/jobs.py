"""The job that asks: its devices, and whether a process is of a job that runs."""

# Who has them, the narrowest first: of Slurm's step, of its job (also as GRES with its indices), of a container.
DEVICES = (
    "SLURM_STEP_GPUS",
    "SLURM_JOB_GPUS",
    "SLURM_JOB_GRES",
    "ASCEND_VISIBLE_DEVICES",
    "ASCEND_RT_VISIBLE_DEVICES",
)
DAEMONS = (b"slurmstepd", b"pbs_mom", b"res", b"flux-shell")  # of Slurm, PBS, LSF, Flux: above all that a job runs
ONE_A_JOB = (b"slurmstepd", b"flux-shell")  # those of them that are there only while a job runs
OURS = b"preflight-"  # the probe's and the rehearsal's processes call themselves so
CGROUP = b"/job_"  # of Slurm's cgroup plugins, v1 and v2: "…/job_12/step_0/…"
MOST = 1024  # devices of a host
LONGEST = 4096  # characters of such a list


def job_devices(environment):
    """The device ids of this job; None, which is all of the host, where nobody says, or says something else."""
    for name in DEVICES:
        found = indices(environment.get(name, ""))
        if found is not None:
            return found
    return None


def indices(text):
    """The numbers of "0,2-3", "gpu:a100:3(IDX:0,2-3)" or "Ascend910-0,Ascend910-2"; None where it is anything else, and
    of GRES of several kinds, whose numbers are of different things."""
    if text.count("(IDX:") > 1 or len(text) > LONGEST:
        return None
    if "(" in text:
        text = text.partition("(IDX:")[2].partition(")")[0]
    found = set()
    for part in text.split(","):
        low, _, high = part.strip().partition("-")
        if low.startswith("Ascend"):
            low, high = high, ""
        high = high or low
        if not (low.isdecimal() and high.isdecimal() and int(low) <= int(high) < MOST):
            return None
        found.update(range(int(low), int(high) + 1))
    return found


def runs_in_a_job(proc, pid):
    """Whether a scheduler's daemon is above this process, or the job's cgroup around it (its parent may have ended), or
    preflight itself has started it."""
    try:
        with open("%s/%s/cgroup" % (proc, pid), "rb") as file:
            if CGROUP in file.read(4096):
                return True
    except OSError:
        pass
    for _ in range(64):
        try:
            with open("%s/%s/stat" % (proc, pid), "rb") as file:
                begin, _, rest = file.read(4096).rpartition(b")")
        except OSError:
            return False
        name = begin.partition(b"(")[2]
        if name in DAEMONS or name.startswith(OURS):
            return True
        pid = rest.split()[1].decode()
        if pid in ("0", "1"):
            return False
    return False


def a_job_runs(proc, pids):
    """Whether any job runs here now, as far as its daemon tells."""
    for pid in pids:
        try:
            with open("%s/%s/comm" % (proc, pid), "rb") as file:
                if file.read(64).strip() in ONE_A_JOB:
                    return True
        except OSError:
            continue
    return False
