"""Printer of the JSON schema of hosts.toml, for editors: `python -m preflight.inventory`."""

import json

from preflight.inventory.schema import Document

if __name__ == "__main__":
    print(json.dumps(Document.model_json_schema(), indent=2))
