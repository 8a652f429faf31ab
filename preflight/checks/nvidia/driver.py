"""The NVIDIA driver: the same everywhere, with the libraries of the loaded module."""

from collections import Counter
from collections.abc import Iterator, Mapping

from preflight.checks.engine.registry import All, Here, cluster_check, host_check
from preflight.checks.shared.majority import odd_ones
from preflight.checks.versions.equal_versions import differing
from preflight.facts.sections.nvidia import Nvidia
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome
from preflight.rules.gpus import GPU, gpus


@cluster_check("GPU119", "NVIDIA driver version", products=GPU)
def driver(scribe: All, nvidia: Mapping[str, Nvidia]) -> Iterator[Finding]:
    """Why: The driver determines which CUDA release a job can use and how NCCL reaches GPU memory. If releases differ,
    one host reports "invalid usage" or uses slower paths, and the other hosts wait.

    Result: FAIL if hosts have different releases. WARN if hosts with the same release use different kernel modules,
    open and proprietary. These work together.

    Check manually:
      cat /proc/driver/nvidia/version

    Fix: Install the same release and the same kind of kernel module on every host, then reboot.
    """
    versions = {
        name: nvidia_of_host.module.version if nvidia_of_host.module else None
        for name, nvidia_of_host in nvidia.items()
    }
    yield from differing(scribe, "the NVIDIA driver", versions)
    for version in dict.fromkeys(versions.values()):
        kinds = {
            name: "open" if nvidia_of_host.module.is_open else "proprietary"
            for name, nvidia_of_host in nvidia.items()
            if nvidia_of_host.module and nvidia_of_host.module.version == version
        }
        yield from _different_modules(scribe, version, kinds)


def _different_modules(scribe: All, version: str | None, kinds: Mapping[str, str]) -> Iterator[Finding]:
    """Yield the hosts with another kind of kernel module than other hosts with the same release."""
    counts = Counter(kinds.values())
    for odd in odd_ones(kinds):
        has_majority = counts[odd.usual] > counts[odd.value]
        yield scribe.warn(
            f"{odd.host}: the NVIDIA kernel module is {odd.value}, but {odd.usual} on {odd.elsewhere}",
            host=odd.host,
            peer=odd.others[0],
            expected=f"{odd.usual}, as on most hosts" if has_majority else "the same on all hosts",
            found=odd.value,
            remedy=f"install the {odd.usual} kernel module {version} on {odd.host}, then reboot {odd.host}"
            if has_majority
            else f"choose one kind of kernel module {version}, because as many hosts have the open one as the "
            "proprietary one. Install it on the other hosts, then reboot them",
            retest=scribe.on(odd.host, "cat /proc/driver/nvidia/version"),
        )


@cluster_check("GPU120", "GPU VBIOS version", severity=Outcome.WARN, products=GPU)
def vbios(scribe: All, nvidia: Mapping[str, Nvidia]) -> Iterator[Finding]:
    """Why: VBIOS releases differ in their power and clock limits, and in the faults that they fix. A replacement GPU
    often has a different release.

    Result: WARN if GPUs of the same model have different VBIOS releases on different hosts.

    Check manually:
      nvidia-smi -q | grep VBIOS

    Fix: Update the firmware of the server's GPU board with the vendor's tool.
    """
    models: dict[tuple[str, ...], dict[str, str | None]] = {}
    for name, nvidia_of_host in nvidia.items():
        answering = gpus(nvidia_of_host)
        releases = sorted({gpu.vbios for gpu in answering if gpu.vbios})
        if releases:
            model = tuple(sorted({gpu.product or "" for gpu in answering}))
            models.setdefault(model, {})[name] = " and ".join(releases)
        elif answering:
            yield scribe.skip("nvidia-smi reported no VBIOS version", host=name)
    for versions in models.values():
        yield from differing(scribe, "the GPUs' VBIOS", versions)


@host_check("GPU121", "NVIDIA driver library version", products=GPU)
def libraries(scribe: Here, nvidia: Nvidia) -> Iterator[Finding]:
    """Why: A background update installs new libraries while the old kernel module is still loaded. Every new program
    then fails with "Driver/library version mismatch" (NVML) or 803 (CUDA), while running programs continue.

    Result: FAIL if the libraries and the module have different versions. WARN if nvidia-smi still works, because it
    found its library in another place. CUDA may still load the wrong library.

    Check manually:
      cat /proc/driver/nvidia/version
      ls /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.*

    Fix: Reboot the host, or end all jobs and reload the nvidia modules. Exclude the driver's packages from automatic
    updates.
    """
    if nvidia.module is None:
        yield scribe.skip("no NVIDIA driver is loaded, see GPU101")
    elif not nvidia.libraries:
        yield scribe.skip("no driver libraries in the usual directories")
    elif nvidia.module.version not in nvidia.libraries:
        answers = nvidia.gpus.value is not None
        report = scribe.warn if answers else scribe.bad
        yield report(
            f"{scribe.host.name}: the loaded NVIDIA driver has version {nvidia.module.version}, but the installed "
            f"libraries have version {', '.join(nvidia.libraries)}",
            expected=nvidia.module.version,
            found=", ".join(nvidia.libraries),
            remedy=f"reboot {scribe.host.name} if the driver was updated. Otherwise remove the other libraries"
            if answers
            else f"reboot {scribe.host.name}, or unload and reload the nvidia kernel modules",
        )
