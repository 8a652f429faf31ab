"""That a product, or this release of its tool, does not have what it is asked for: an answer, too, and no trouble."""

import re

NOT_LISTED = "its help (-h) does not list this query"  # so the collector does not ask it

_WORDS = re.compile(
    "|".join(
        map(
            re.escape,
            (
                # hccn_tool
                NOT_LISTED,
                "Get invalid major cmd.",
                "not supported on this product",
                "not supported on this optical media",
                "unsupported on this optical module",
                "The VM does not support this command",
                # npu-smi
                "Error parameter of -t",
                "This device does not support",
                "NPU can not query topo",
                'Failed to query "topo"',
            ),
        )
    )
)


def refused(error: str) -> bool:
    """Return whether the error of a reading, which quotes the tool, is a refusal and not a failure."""
    return bool(_WORDS.search(error))
