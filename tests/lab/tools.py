"""A vendor's tool on a lab host, replaced by a script for a while."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager

from tests.lab.conftest import LabHandle


@contextmanager
def replaced(lab: LabHandle, host: str, path: str, script: str) -> Iterator[None]:
    """The program at `path` is a shell script; the real one stands beside it as `<path>.real`. An empty script: there
    is a directory in its place."""
    text = shlex.quote(f"#!/bin/sh\n{script}\n")
    there = f"printf %s {text} >{path}; chmod 755 {path}" if script else f"mkdir {path}"
    done = lab.ssh(host, f"mv {path} {path}.real && {there}")
    assert done.returncode == 0, done.stderr
    try:
        yield
    finally:
        lab.ssh(host, f"rm -rf {path}; mv {path}.real {path}")
