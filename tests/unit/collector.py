"""The collector for tests: run as it runs on a host, its source and the request over stdin; or one section of it in
this process, its source edited so that it looks where a test wants it to."""

import json
import os
import re
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from preflight.transport.programs import source

REMOTE = Path(__file__).parents[2] / "preflight" / "remote"
COLLECT = REMOTE / "collect"
SOURCE, JOB_VIEW = source("collect"), source("job_view")
LOADER = "import sys; exec(compile(sys.stdin.buffer.read({}), 'collect', 'exec'))"


def answer(
    *sections: str, path: str = "", deadline: float = 10.0, source: str = SOURCE, **request: Any
) -> dict[str, Any]:
    """What the collector answers. `path`: a directory of tools that goes in front of PATH."""
    deadlines = dict.fromkeys(sections, deadline)
    words = {
        "marker": "mark-1",
        "deadlines": deadlines,
        "ports": [],
        "names": {},
        "called": ["node01", "10.1.0.1"],
        **request,
    }
    program = source.encode()
    done = subprocess.run(
        ["/usr/bin/env", "python3", "-I", "-c", LOADER.format(len(program))],
        input=program + json.dumps(words).encode(),
        capture_output=True,
        timeout=30,
        env={**os.environ, "PATH": f"{path}:{os.environ['PATH']}" if path else os.environ["PATH"]},
        check=True,
    )
    head, size, document = done.stdout.decode("ascii").lstrip("\n").split(maxsplit=2)
    assert head == "mark-1"
    assert len(document.rstrip("\n")) == int(size)
    found: dict[str, Any] = json.loads(document)
    return found


def tool(directory: Path, name: str, script: str) -> str:
    """A shell script named `name` on a PATH of its own."""
    file = directory / name
    file.write_text("#!/bin/sh\n" + script, encoding="utf-8")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return str(directory)


def job(python: str, *argv: str, elsewhere: bool = False, deep: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"source": JOB_VIEW, "python": python, "argv": argv, "elsewhere": elsewhere,
            "wanted": {"npu": False, "deep": deep}}  # fmt: skip


def section(module: str, name: str, edit: Callable[[str], str]) -> Callable[..., Any]:
    """`look_<name>` of a module of preflight/remote/collect, whose text and that of its tools went through `edit`."""
    scope: dict[str, Any] = {"__name__": "collect"}
    for part in ("tools", "own", module):
        text = edit((COLLECT / f"{part}.py").read_text(encoding="utf-8"))
        exec(compile(re.sub(r"(?m)^from collect\..*$", "", text), part, "exec"), scope)
    found: Callable[..., Any] = scope[f"look_{name}"]
    return found
