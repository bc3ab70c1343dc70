"""The JSON schema of a case, for editors: ``cases/schema.json``."""

from __future__ import annotations

import json

from harness.case import Case


def schema_text() -> str:
    """The schema as it is committed; ``harness check --schema`` prints it."""
    schema = Case.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "A case of the compile repro harness"
    return json.dumps(schema, indent=1, sort_keys=True) + "\n"
