"""hosts.toml → `preflight.model.cluster.Cluster`. pydantic and ClusterShell are loaded when an inventory is."""

from preflight.inventory.dump import dump
from preflight.inventory.errors import InventoryError
from preflight.inventory.explicit import written_out
from preflight.inventory.hostset import fold, limit
from preflight.inventory.load import load, parse, tables

__all__ = ["InventoryError", "dump", "fold", "limit", "load", "parse", "tables", "written_out"]
