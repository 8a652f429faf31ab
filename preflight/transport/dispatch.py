"""One transport for a cluster with hosts of several transports."""

from types import TracebackType

from preflight.model.cluster import Cluster, Host
from preflight.transport.types import Answer, Channel, Options, Program, Transport


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
        return self._transports[host.ssh.transport].run(host, program, timeout=timeout, limit=limit)

    def start(self, host: Host, program: Program, *, timeout: float) -> Channel:
        return self._transports[host.ssh.transport].start(host, program, timeout=timeout)

    def close(self) -> None:
        for transport in self._transports.values():
            transport.close()

    def __enter__(self) -> "Dispatch":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
