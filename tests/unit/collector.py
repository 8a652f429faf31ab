"""One section of the collector at work in this process, its source edited so that it looks where a test wants it to."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

COLLECT = Path(__file__).parents[2] / "preflight" / "remote" / "collect"


def section(module: str, name: str, edit: Callable[[str], str]) -> Callable[..., Any]:
    """`look_<name>` of a module of preflight/remote/collect, whose text and that of its tools went through `edit`."""
    scope: dict[str, Any] = {"__name__": "collect"}
    for part in ("tools", module):
        text = edit((COLLECT / f"{part}.py").read_text(encoding="utf-8"))
        exec(compile(re.sub(r"(?m)^from collect\..*$", "", text), part, "exec"), scope)
    found: Callable[..., Any] = scope[f"look_{name}"]
    return found
