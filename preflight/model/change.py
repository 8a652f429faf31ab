"""Declarative changes: what a finding's fix would write, by compare-and-set."""

from dataclasses import dataclass, field
from enum import StrEnum


class Area(StrEnum):
    """What a `configure-*` command limits itself to."""

    PORTS = "ports"
    ADDRESSES = "device-ips"
    FIREWALL = "firewall"
    ENVIRONMENT = "environment"


class Risk(StrEnum):
    SAFE = "safe"
    DISTURBING = "disturbing"  # may disturb something that runs on the host now
    NEEDS_REBOOT = "needs-reboot"  # is written now and counts from the next boot on


class Kind(StrEnum):
    """What is written. The value of each kind is text; `None` means absent. A module of `preflight/remote/apply` reads
    and writes each kind; the order here is the order in which a host's changes of one phase are applied."""

    FILE = "file"  # target: absolute path; value: the whole content
    # target: absolute path; value: the whole content of a file that is root's and has mode 0755. Of another one,
    # "MODE UID:GID" stands on a line before it, as in "0644 1000:1000".
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
    # Of the last two, the target is "INDEX KEY …" (address, gateway, netdetect, mtu), the value "KEY VALUE …" in that
    # order, as in "address 10.0.0.1/24 gateway none".
    DEVICE_SAVED = "device-saved"  # value: what /etc/hccn.conf says; written by setting again what the device has
    DEVICE_RECOVERY = "device-recovery"  # value: what the device has; written by restoring it from /etc/hccn.conf


DEVICE_KINDS = frozenset(kind for kind in Kind if kind.value.startswith("device-"))


class Phase(StrEnum):
    """When on its host a change is made; in this order."""

    PLAIN = "plain"
    GUARDED = "guarded"  # of the live firewall: taken back by the host itself unless a new connection confirms it
    KEPT = "kept"  # makes the firewall's changes permanent, once they are confirmed


# Kinds that change the live firewall, and kinds that make it permanent, whatever else a change says of itself.
_GUARDED = frozenset({Kind.NFT_RULES, Kind.NFT_INPUT, Kind.IPTABLES_RULES, Kind.IPTABLES_INPUT, Kind.FIREWALLD_RULES,
                      Kind.UFW_RULES, Kind.UFW_ENABLED, Kind.SERVICE})  # fmt: skip
_KEPT = frozenset({Kind.FIREWALLD_PERMANENT, Kind.SERVICE_AT_BOOT})


@dataclass(frozen=True)
class Change:
    """Set `target` of `kind` on `host` from `before` to `after`.

    On the host: equal to `after` already → nothing to do; neither → somebody else moved it, stop; otherwise write,
    read back, and say so if it did not stick. Undoing it is the same change with `before` and `after` exchanged.
    """

    host: str
    area: Area
    kind: Kind
    target: str
    before: str | None
    after: str | None
    why: str  # the check whose finding carries it
    risk: Risk = Risk.SAFE
    note: str = ""  # what cannot be taken back, what else to know

    @property
    def device(self) -> int | None:
        """The index of the device that is touched, None where none is."""
        return int(self.target.split()[0]) if self.kind in DEVICE_KINDS else None

    @property
    def phase(self) -> Phase:
        if self.kind in _GUARDED:
            return Phase.GUARDED
        boot_file = self.kind is Kind.FILE and self.area is Area.FIREWALL
        return Phase.KEPT if boot_file or self.kind in _KEPT else Phase.PLAIN


class StepState(StrEnum):
    """How one change ended on its host."""

    PENDING = "pending"  # would be written: the host is as it was seen
    DONE = "done"
    ALREADY = "already"
    MOVED = "moved"  # the value found was neither `before` nor `after`: left alone
    DID_NOT_STICK = "did-not-stick"
    FAILED = "failed"  # the write itself failed
    NOT_RUN = "not-run"  # an earlier step of this host stopped the rest
    REVERTED = "reverted"  # the dead man's switch took it back


@dataclass(frozen=True)
class StepResult:
    change: Change
    state: StepState
    found: str | None = None  # the value found, where it is not what was hoped for
    message: str = ""
    maybe: bool = False  # not done, as far as is known, and yet it may have changed something

    @property
    def touched(self) -> bool:
        """Whether the host may be otherwise than before because of it."""
        return self.state is StepState.DONE or self.maybe


@dataclass(frozen=True)
class Plan:
    """All changes of one run, host by host in the order they are applied."""

    changes: tuple[Change, ...] = field(default=())

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(change.host for change in self.changes))

    def of_host(self, name: str) -> tuple[Change, ...]:
        return tuple(change for change in self.changes if change.host == name)
