"""Declarative changes, written by compare-and-set. A finding's fix is one of them."""

from dataclasses import dataclass
from enum import StrEnum


class Area(StrEnum):
    """Area of changes. Each has its own `configure-*` command."""

    PORTS = "ports"
    ADDRESSES = "device-ips"
    FIREWALL = "firewall"
    ENVIRONMENT = "environment"


class Risk(StrEnum):
    SAFE = "safe"
    DISTURBING = "disturbing"  # may disturb something that runs on the host now
    NEEDS_REBOOT = "needs-reboot"  # is written now and takes effect at the next boot


class Kind(StrEnum):
    """Kind of a change's target. Its value is text, or `None` if the target is absent.

    A module of `preflight/remote/apply` reads and writes each kind. A host's changes of one phase are applied in this
    order.
    """

    FILE = "file"  # target: absolute path; value: the whole content
    # target: absolute path; value: the whole content of a file with owner root and mode 0755. For another owner or
    # mode, a line "MODE UID:GID" is before it, as in "0644 1000:1000".
    PROGRAM = "program"
    SYSCTL = "sysctl"  # target: key; value: what the kernel prints for it
    NFT_RULES = "nft-rules"  # target: "FAMILY TABLE CHAIN"; value: our tagged rules in that chain, a line each
    NFT_INPUT = "nft-input"  # target: "FAMILY TABLE CHAIN"; value: "present", or None to delete the base chain
    IPTABLES_RULES = "iptables-rules"  # target: program, as iptables-nft; value: our tagged rules in INPUT, a line each
    IPTABLES_INPUT = "iptables-input"  # target: program; value: "present", or None to empty INPUT and accept by default
    FIREWALLD_RULES = "firewalld-rules"  # target: zone; value: our rich rules at run time, a line each
    FIREWALLD_PERMANENT = "firewalld-permanent"  # target: zone; value: our rich rules in its file, a line each
    UFW_RULES = "ufw-rules"  # target: "ufw"; value: our tagged rules, a line each
    UFW_ENABLED = "ufw-enabled"  # target: "ufw"; value: "yes" or "no"
    SERVICE = "service"  # target: a unit of systemd; value: "active" or "inactive"
    SERVICE_AT_BOOT = "service-at-boot"  # target: a unit of systemd; value: "enabled" or "disabled"
    DEVICE_ADDRESS = "device-address"  # target: device index; value: "A/PREFIX"
    DEVICE_GATEWAY = "device-gateway"  # target: device index; value: "A"
    DEVICE_DETECT = "device-detect"  # target: device index; value: "A"
    DEVICE_MTU = "device-mtu"  # target: device index; value: bytes
    # The target of the last two is "INDEX KEY …" (address, gateway, netdetect, mtu), their value "KEY VALUE …" in that
    # order, as in "address 10.0.0.1/24 gateway none".
    DEVICE_SAVED = "device-saved"  # value: of /etc/hccn.conf; written by setting again the value that the device has
    DEVICE_RECOVERY = "device-recovery"  # value: of the device; written by restoring it from /etc/hccn.conf


DEVICE_KINDS = frozenset(kind for kind in Kind if kind.value.startswith("device-"))


class ChangePhase(StrEnum):
    """Phase of a host's run in which a change is made, in this order."""

    PLAIN = "plain"
    GUARDED = "guarded"  # of the live firewall: the host takes it back unless a new connection confirms it
    KEPT = "kept"  # makes the firewall's changes permanent, once they are confirmed


# Kinds that change the live firewall, and kinds that make it permanent, whatever area a change claims.
_GUARDED = frozenset(
    {
        Kind.NFT_RULES,
        Kind.NFT_INPUT,
        Kind.IPTABLES_RULES,
        Kind.IPTABLES_INPUT,
        Kind.FIREWALLD_RULES,
        Kind.UFW_RULES,
        Kind.UFW_ENABLED,
        Kind.SERVICE,
    }
)
_KEPT = frozenset({Kind.FIREWALLD_PERMANENT, Kind.SERVICE_AT_BOOT})


@dataclass(frozen=True)
class Change:
    """Set `target` of `kind` on `host` from `before` to `after`.

    If the host's value equals `after`, there is nothing to do. If it is neither, another program has moved it, and the
    run stops. Otherwise the host writes the value, reads it back, and reports whether it stuck. Undoing is the same
    change with `before` and `after` exchanged.
    """

    host: str
    area: Area
    kind: Kind
    target: str
    before: str | None
    after: str | None
    why: str  # id of the check that proposed it
    risk: Risk = Risk.SAFE
    note: str = ""  # parts that cannot be taken back, and other remarks

    @property
    def device(self) -> int | None:
        """The index of the device that is changed, None if none is."""
        return int(self.target.split()[0]) if self.kind in DEVICE_KINDS else None

    @property
    def phase(self) -> ChangePhase:
        if self.kind in _GUARDED:
            return ChangePhase.GUARDED
        boot_file = self.kind is Kind.FILE and self.area is Area.FIREWALL
        return ChangePhase.KEPT if boot_file or self.kind in _KEPT else ChangePhase.PLAIN


class StepState(StrEnum):
    """End of one change on its host."""

    PENDING = "pending"  # would be written: the host has the value `before`
    DONE = "done"
    ALREADY = "already"
    MOVED = "moved"  # the host's value was neither `before` nor `after`: not changed
    DID_NOT_STICK = "did-not-stick"
    FAILED = "failed"  # the write itself failed
    NOT_RUN = "not-run"  # an earlier step of this host stopped the rest
    REVERTED = "reverted"  # taken back by the host, because no connection confirmed it


@dataclass(frozen=True)
class StepResult:
    change: Change
    state: StepState
    found: str | None = None  # the host's value, if it is not the expected one
    message: str = ""
    maybe: bool = False  # not done as far as is known, but it may have changed something

    @property
    def touched(self) -> bool:
        """True if the host may differ because of it."""
        return self.state is StepState.DONE or self.maybe


@dataclass(frozen=True)
class Plan:
    """All changes of one run, host by host in the order they are applied."""

    changes: tuple[Change, ...] = ()

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(change.host for change in self.changes))

    def of_host(self, name: str) -> tuple[Change, ...]:
        return tuple(change for change in self.changes if change.host == name)
