"""The localiser, where docs/contracts.md promises it.

The checks of pings use it, too, so it is in `preflight.attribution.localiser`.
"""

from preflight.attribution.localiser.localise import Localiser
from preflight.attribution.localiser.types import GroupOutcome, Test, Verdict

__all__ = ["GroupOutcome", "Localiser", "Test", "Verdict"]
