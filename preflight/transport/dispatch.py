"""One transport for a cluster with hosts of several transports."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from preflight.model.cluster import Cluster, Host
from preflight.transport.types import Answer, Channel, Options, Program, Transport, TransportError

_LOG = logging.getLogger(__name__)


def open_transport(cluster: Cluster, options: Options) -> "Dispatch":
    """Return a transport to all hosts of the cluster, each by its `ssh.transport`. Nothing is contacted yet."""
    return Dispatch({kind: _open(kind, options) for kind in {host.ssh.transport for host in cluster.hosts}})


def _open(kind: str, options: Options) -> Transport:
    match kind:
        case "fabric":
            from preflight.transport.fabric_ssh import FabricTransport

            return FabricTransport(options)
        case "openssh":
            from preflight.transport.openssh import OpensshTransport

            return OpensshTransport(options)
        case "local":
            from preflight.transport.local import LocalTransport

            return LocalTransport(options)
    raise ValueError(f"no transport is called {kind!r}: fabric, openssh or local")


class Dispatch:
    """`Transport` that passes each host to its own transport. Also a context manager that closes them."""

    def __init__(self, transports: dict[str, Transport]) -> None:
        self._transports = transports

    def run(self, host: Host, program: Program, *, timeout: float, limit: int = 8 << 20) -> Answer:
        with _logged(host, "connecting"):
            answer = self._transports[host.ssh.transport].run(host, program, timeout=timeout, limit=limit)
        _LOG.info("%s: program ended with exit code %d after %.2f s", host.name, answer.exit, answer.seconds)
        return answer

    def start(self, host: Host, program: Program, *, timeout: float) -> Channel:
        with _logged(host, "connecting, to start an agent"):
            return self._transports[host.ssh.transport].start(host, program, timeout=timeout)

    def close(self) -> None:
        for transport in self._transports.values():
            transport.close()

    def __enter__(self) -> "Dispatch":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


@contextmanager
def _logged(host: Host, step: str) -> Iterator[None]:
    """Log a step on a host: its beginning and, with the time that it took, its end or error."""
    _LOG.info("%s: %s over %s to %s", host.name, step, host.ssh.transport, host.address)
    start = time.monotonic()
    try:
        yield
    except TransportError as error:
        _LOG.info("%s: failed after %.2f s: %s", host.name, time.monotonic() - start, error.summary)
        raise
    _LOG.info("%s: done after %.2f s", host.name, time.monotonic() - start)
