"""Reader of hosts.toml, which returns a `preflight.model.cluster.Cluster`; and its inverse.

pydantic and ClusterShell are imported only when an inventory is read.
"""

from preflight.inventory.dump import dump
from preflight.inventory.errors import InventoryError
from preflight.inventory.explicit import explicit_document
from preflight.inventory.hostset import fold, limit
from preflight.inventory.load import load, parse, tables, toml_of

__all__ = ["InventoryError", "dump", "explicit_document", "fold", "limit", "load", "parse", "tables", "toml_of"]
