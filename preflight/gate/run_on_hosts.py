"""One of the gate's programs, run on many hosts in one round trip each."""

import json
import secrets
from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from preflight.facts import answer_frame as framed
from preflight.facts.decode import decode
from preflight.facts.documents.refused_document import json_error
from preflight.model.cluster import Host
from preflight.provision.apply import Way
from preflight.transport import FanOutLimits, fan_out
from preflight.transport.types import Program, TransportError

T = TypeVar("T")

_SECONDS = 60.0  # for a busy host with a slow disk, and the way there


def ask(way: Way, source: str, request: Callable[[Host], Mapping[str, object]], type_: type[T]) -> dict[str, T | str]:
    """Return for each host the answer of the program `source` to its request, or a sentence why there is no answer.

    Raises nothing that a host could cause.
    """

    def ask_host(host: Host) -> T | str:
        marker = secrets.token_hex(16)
        program = Program(source, json.dumps({"marker": marker, **request(host)}).encode())
        answer = way.transport.run(host, program, timeout=_SECONDS)
        try:
            return decode(framed.document(answer, marker), type_)
        except framed.NoAnswer as error:
            return str(error)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            return f"the host's response is invalid: {json_error(error)}"

    answers = fan_out(way.hosts, ask_host, FanOutLimits(way.pool, _SECONDS), progress=way.progress, phase="gate")
    return {
        name: answer.summary.removeprefix(f"{name}: ") if isinstance(answer, TransportError) else answer
        for name, answer in answers.items()
    }
