"""Phases of changes on this host, decided by the kind of a change alone, whatever a request says.

The live firewall is changed only under a guardian, and made permanent only once that is confirmed. The rules are those
of `Change.phase` in preflight/model/change.py.
"""

from apply.allowed import FIREWALL_FILES
from apply.tools import StepError

PHASES = ("plain", "guarded", "kept")  # in this order
GUARDED = {
    "nft-rules",
    "nft-input",
    "iptables-rules",
    "iptables-input",
    "firewalld-rules",
    "ufw-rules",
    "ufw-enabled",
    "service",
}
KEPT = {"firewalld-permanent", "service-at-boot"}


def phase_of(change):
    kind = change["kind"]
    if kind in GUARDED:
        return "guarded"
    boot_file = kind == "file" and FIREWALL_FILES.fullmatch(change["target"])
    return "kept" if boot_file or kind in KEPT else "plain"


def by_phase(request):
    """Return the request with each change of the firewall in its own phase. A permanent change sent as guarded stays
    there, and is taken back unless confirmed. Raise StepError for a confirmation that would change the live firewall.
    """
    sorted_ = {phase: [] for phase in PHASES}
    for sent_phase in PHASES:
        for change in request.get(sent_phase, ()):
            own_phase = phase_of(change)
            stays = own_phase == "plain" or (own_phase == "kept" and sent_phase == "guarded")
            sorted_[sent_phase if stays else own_phase].append(change)
    if request["action"] == "confirm" and sorted_["guarded"]:
        raise StepError("a confirmation may make changes permanent, but not change the live firewall")
    return dict(request, **sorted_)
