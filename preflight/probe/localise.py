"""The localiser, at the place that docs/contracts.md promises; it lives in `preflight.localiser`, where the checks of
pings use it, too."""

from preflight.localiser.localise import Localiser
from preflight.localiser.types import GroupOutcome, Test, Verdict

__all__ = ["GroupOutcome", "Localiser", "Test", "Verdict"]
