"""Refusals: a product, or this release of its tool, does not support a query. This is an answer, not a failure."""

import re

NOT_LISTED = "its help (-h) does not list this query"  # so the collector does not send it

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
    """Return whether the error of a reading, which quotes the tool, is a refusal instead of a failure."""
    return bool(_WORDS.search(error))
