"""What cog calls to put the REST interface into the docs, from the application's own schema."""

from __future__ import annotations

import json
from typing import Any

import cog
from fastapi import FastAPI

from powermark.interfaces.server import routes


def _kind(field: dict[str, Any]) -> str:
    """Return a field's type in few words, with its bounds."""
    if "$ref" in field:
        return field["$ref"].rsplit("/", 1)[1]
    if "anyOf" in field:
        return " or ".join(dict.fromkeys(_kind(one) for one in field["anyOf"]))
    if "enum" in field:
        return ", ".join(f"`{one}`" for one in field["enum"])
    if field.get("type") == "array":
        return f"list of {_kind(field['items'])}"
    low = field.get("minimum", field.get("exclusiveMinimum"))
    high = field.get("maximum", field.get("exclusiveMaximum"))
    ends = [f"{word} {end:.8g}" for word, end in (("from", low), ("to", high)) if end is not None]
    return " ".join([str(field.get("type", "any")), *ends])


def _table(schema: dict[str, Any]) -> None:
    cog.outl("\n| field | type | default | |\n|---|---|---|---|")
    for name, field in schema["properties"].items():
        needed = name in schema.get("required", ())
        default = "required" if needed else json.dumps(field.get("default"))
        cog.outl(f"| `{name}` | {_kind(field)} | {default} | {field.get('description', '')} |")


def rest() -> None:
    """Write each route with its fields, then the statuses of errors."""
    app = FastAPI()
    for router in (routes.api, routes.generating, routes.health):
        app.include_router(router)
    schema = app.openapi()
    errors: dict[str, str] = {}
    for path, methods in schema["paths"].items():
        for method, route in methods.items():
            cog.outl(f"\n## {method.upper()} {path}\n\n{route['description']}")
            answers = route["responses"]
            cog.outl(f"Answer: {answers['200']['description'].rstrip('.')}.")
            errors |= {code: a["description"] for code, a in answers.items() if code > "200"}
            body = route.get("requestBody")
            if body is not None:
                name = _kind(body["content"]["application/json"]["schema"])
                _table(schema["components"]["schemas"][name])
    _table_of_named(schema, "TextAsked")
    cog.outl("\n## Errors\n\n| status | when |\n|---|---|")
    for code, words in sorted(errors.items()):
        cog.outl(f"| {code} | {words} |")


def _table_of_named(schema: dict[str, Any], name: str) -> None:
    cog.outl(f"\n## {name}\n\n{schema['components']['schemas'][name]['description']}")
    _table(schema["components"]["schemas"][name])
