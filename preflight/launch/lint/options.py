"""Options of the launchers, each with the number of its values. Pure.

They are from `--help` of torch 2.13, Open MPI 4.1 and 5.0, and from the documents of the others.
"""

import difflib
from collections.abc import Mapping

_TORCH = {
    1: "nnodes nproc-per-node node-rank master-addr master-port local-addr rdzv-backend rdzv-endpoint rdzv-id "
    "rdzv-conf max-restarts monitor-interval start-method role log-dir redirects tee local-ranks-filter "
    "numa-binding logs-specs event-log-handler duplicate-stdout-filters duplicate-stderr-filters "
    "enable-tiered-parallel-tcpstore",
    0: "standalone module m no-python run-path use-env virtual-local-rank signals-to-handle help h",
}
_MPI = {
    1: "np n c H host hostfile machinefile default-hostfile x npernode N npersocket bind-to map-by rank-by prefix wdir "
    "wd path ppn f iface hosts launcher output-filename rankfile rf report-pid timeout app am tune",
    2: "mca gmca pmixmca prtemca genv env",
    0: "allow-run-as-root oversubscribe nooversubscribe tag-output timestamp-output display-map display-allocation "
    "report-bindings bynode byslot bind-to-core bind-to-none nolocal quiet q verbose v version V help h do-not-launch "
    "enable-recovery disable-recovery genvall show-progress merge-stderr-to-stdout",
}
_PERSEUS = {
    1: "np num-proc H hosts hostfile p ssh-port i ssh-identity-file network-interface start-timeout output-filename "
    "min-np max-np log-level config-file",
    0: "mpi gloo mpi-args verbose disable-cache version v help h check-build",
}
_SRUN = {
    1: "N nodes n ntasks ntasks-per-node w nodelist p partition c cpus-per-task G gpus gpus-per-node gres m "
    "distribution export jobid x exclude t time J job-name o output e error A account mpi kill-on-bad-exit mem",
    0: "exclusive overlap unbuffered u l label help h",
}
_DEEPSPEED = {
    1: "hostfile H include i exclude e num-nodes num-gpus master-port master-addr node-rank launcher launcher-args "
    "ssh-port min-elastic-nodes max-elastic-nodes autotuning bind-core-list save-pid",
    0: "module no-python no-local-rank no-ssh-check no-ssh force-multi elastic-training enable-each-rank-log "
    "bind-cores-to-rank help h",
}
_MSRUN = {
    1: "worker-num local-worker-num master-addr master-port node-rank log-dir join cluster-time-out bind-core "
    "sim-level sim-rank-id rank-table-file worker-log-name tail-worker-log",
    0: "help h",
}


def _counts(names_by_count: Mapping[int, str]) -> dict[str, int]:
    return {name: count for count, names in names_by_count.items() for name in names.split()}


OPTIONS = {
    "torch": _counts(_TORCH),
    "mpi": _counts(_MPI),
    "perseus": _counts(_PERSEUS),
    "srun": _counts(_SRUN),
    "deepspeed": _counts(_DEEPSPEED),
    "msrun": _counts(_MSRUN),
}
PROGRAMS = {
    "torchrun": "torch",
    "torch_npu_run": "torch",
    "mpirun": "mpi",
    "mpiexec": "mpi",
    "orterun": "mpi",
    "perseusrun": "perseus",
    "horovodrun": "perseus",
    "srun": "srun",
    "deepspeed": "deepspeed",
    "msrun": "msrun",
}
MODULES = {
    "torch.distributed.run": "torch",
    "torch.distributed.launch": "torch",
    "torch_npu.distributed.run": "torch",
    "deepspeed.launcher.runner": "deepspeed",
}
_ARGPARSE = {"torch", "deepspeed", "msrun"}  # families that take any unambiguous beginning of an option


def plain(option: str) -> str:
    """Return an option without dashes in front and underscores: `--node_rank` → `node-rank`."""
    return option.lstrip("-").replace("_", "-")


def known(family: str, option: str) -> str | None:
    """Return an option's whole name, None where the family has no such option."""
    name, table = plain(option), OPTIONS[family]
    if name in table:
        return name
    longer = [entry for entry in table if entry.startswith(name)] if family in _ARGPARSE and len(name) > 2 else []
    return longer[0] if len(longer) == 1 else None


def slip(family: str, option: str) -> str | None:
    """Return the option that an unknown one is most likely a misspelling of."""
    names = [name for name in OPTIONS[family] if len(name) > 3]
    return next(iter(difflib.get_close_matches(plain(option)[:60], names, 1, 0.8)), None)


def spelled(family: str, name: str, like: str = "--") -> str:
    """Return an option as users write it: one dash for MPI's short options, underscores for torch."""
    if family == "mpi" and name in ("np", "n", "H", "x", "N", "c", "v", "q", "h", "f", "ppn"):
        return f"-{name}"
    dashes = "-" if len(name) == 1 else like
    return dashes + (name.replace("-", "_") if family in _ARGPARSE else name)
