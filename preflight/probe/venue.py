"""Meeting place of the ranks of a group: the store of the first rank's agent, or that of jobs. Pure."""

import secrets
from dataclasses import dataclass, field
from typing import cast

from preflight.model.cluster import Cluster
from preflight.model.measure import Scope
from preflight.probe.rounds import RankGroup


def _token() -> str:
    return secrets.token_hex(4)


@dataclass(frozen=True)
class Venue:
    """Meeting place of a run. `init`: store | env | tcp | file, as `[probe] init`.

    A job meets once, all its ranks together. So do all ranks here. Smaller groups, several at a time, always meet at a
    store of the agents, since there is only one master port.
    """

    init: str = "store"
    port: int = 0  # of the job's master
    folder: str = ""  # shared by all hosts
    token: str = field(default_factory=_token)  # no two runs use one file

    @classmethod
    def of(cls, cluster: Cluster) -> "Venue":
        return cls(cluster.probe.init, next(iter(cluster.port_names), 0), cluster.probe.shared_dir)

    def parameters(self, group: RankGroup, address: str, store: int) -> dict[str, object]:
        """Return the meeting place in the form that is sent to workers.

        `address`, `store`: of rank 0's host, and the port of its agent's store.
        """
        if group.scope is not Scope.ALL or self.init == "store":
            return {"init": "store", "store": [address, store]}
        if self.init == "file":
            path = f"{self.folder}/preflight-{self.token}-{group.name}"
            return {"init": "file", "file": path, "store": [address, store]}
        return {"init": self.init, "store": [address, self.port]}


def place(parameters: dict[str, object]) -> str:
    """Return the meeting place in a word: address:port, or a path."""
    if parameters["init"] == "file":
        return str(parameters["file"])
    address, port = cast("list[object]", parameters["store"])
    return f"{address}:{port}"
