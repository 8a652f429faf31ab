"""The JSON schema of the report, made from its types.

python -m tests.report_schema > docs/report.schema.json
"""

import json
from typing import Any

from pydantic import TypeAdapter

from preflight.model.outcome import Outcome
from preflight.model.report import SCHEMA, Report

VERDICTS = [outcome.value for outcome in Outcome if outcome is not Outcome.SKIP]


def schema() -> dict[str, Any]:
    """Return the JSON schema of the report."""
    made = TypeAdapter(Report).json_schema(mode="serialization")
    made["title"] = "The report of preflight check and preflight probe"
    made["description"] = "docs/contracts.md says what the fields mean. Fields may be added."
    made["properties"] |= {
        "schema": {"const": SCHEMA},
        "verdict": {"enum": VERDICTS},
        "exit": {"enum": [0, 1, 3]},
        "checks": {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string"}}},
    }
    made["required"] = list(made["properties"])
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made}


if __name__ == "__main__":
    print(json.dumps(schema(), indent=2))
