"""What can be set about the stand-ins of a lab while it runs: `preflight lab set`.

The values lie in every host's own state, where the stand-ins read them at each call.
"""

from dataclasses import dataclass
from pathlib import Path

from preflight.lab import host_state, state
from preflight.lab.lifecycle import hosts_of, require_root
from preflight.model.errors import UsageError


@dataclass(frozen=True)
class Setting:
    """`key`: its name in the file `settings`, as the stand-ins read it."""

    key: str
    usual: int
    most: int
    what: str


SETTINGS = {
    "call-ms": Setting("call_ms", 0, 60_000, "ms that every call of hccn_tool, npu-smi and lspci takes at least"),
    "linger-s": Setting("linger_s", 10, 600, "seconds that a device stays busy after a process with HCCL was killed"),
}


def change(name: str, value: str, directory: Path) -> str:
    """Set one setting on all hosts; return one sentence. UsageError for a name or a value that there is not."""
    require_root()
    if name not in SETTINGS:
        raise UsageError(f"there is no setting {name!r}; there are {', '.join(SETTINGS)}.")
    setting = SETTINGS[name]
    if not (value.isascii() and value.isdigit() and int(value) <= setting.most):
        raise UsageError(f"{name} is a number from 0 to {setting.most}, not {value!r}.")
    directory = directory.resolve()
    state.load(directory)
    with state.locked(directory):
        for host in hosts_of(state.load(directory), directory):
            host_state.replace(host.directory / "state" / "settings", {setting.key: str(int(value))})
    return f"{name} is {int(value)} ({setting.what})."
