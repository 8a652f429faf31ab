"""hosts.toml → `preflight.model.cluster.Cluster`. pydantic and ClusterShell are loaded when an inventory is."""

from preflight.inventory.dump import dump
from preflight.inventory.errors import InventoryError
from preflight.inventory.hostset import fold, limit
from preflight.inventory.load import load, parse, tables
from preflight.inventory.written_out import written_out

__all__ = ["InventoryError", "dump", "fold", "limit", "load", "parse", "tables", "written_out"]
