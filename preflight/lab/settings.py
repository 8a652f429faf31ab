"""Settings of a running lab's stand-ins: `preflight lab set`.

The values are in every host's state, where the stand-ins read them at each call.
"""

from dataclasses import dataclass
from pathlib import Path

from preflight.lab import host_state, state
from preflight.lab.lifecycle import hosts_of, require_root
from preflight.model.errors import UsageError


@dataclass(frozen=True)
class StandInSetting:
    """A setting. `key` is its name in the file `settings`, which the stand-ins read."""

    key: str
    usual: int
    most: int
    what: str


SETTINGS = {
    "call-ms": StandInSetting(
        "call_ms", 0, 60_000, "ms that every call of hccn_tool, npu-smi and lspci takes at least"
    ),
    "linger-s": StandInSetting(
        "linger_s", 10, 600, "seconds that a device stays busy after a process with HCCL was killed"
    ),
}


def change(name: str, value: str, directory: Path) -> str:
    """Set one setting on all hosts and return one sentence. Raise UsageError for an unknown name or a wrong value."""
    require_root()
    if name not in SETTINGS:
        raise UsageError(f"there is no setting {name!r}. The settings are {', '.join(SETTINGS)}.")
    setting = SETTINGS[name]
    if not (value.isascii() and value.isdigit() and int(value) <= setting.most):
        raise UsageError(f"{name} must be a number from 0 to {setting.most}, not {value!r}.")
    directory = directory.resolve()
    state.load(directory)
    with state.locked(directory):
        for host in hosts_of(state.load(directory), directory):
            host_state.replace(host.directory / "state" / "settings", {setting.key: str(int(value))})
    return f"{name} is {int(value)} ({setting.what})."
