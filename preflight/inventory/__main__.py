"""`python -m preflight.inventory` prints the JSON schema of hosts.toml, for editors."""

import json

from preflight.inventory.schema import Document

if __name__ == "__main__":
    print(json.dumps(Document.model_json_schema(), indent=2))
