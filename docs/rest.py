"""What cog calls to put the REST interface into the docs, from the application's own schema."""

from __future__ import annotations

import json
from typing import Any

import cog
from fastapi import FastAPI

from powermark.interfaces.server import routes


def _kind(field: dict[str, Any]) -> str:
    """Return a field's type in few words, with its bounds; that it may be null is not said."""
    if "$ref" in field:
        return field["$ref"].rsplit("/", 1)[1]
    if "anyOf" in field:
        return " or ".join(_kind(one) for one in field["anyOf"] if one.get("type") != "null")
    if "enum" in field:
        return ", ".join(f"`{one}`" for one in field["enum"])
    if field.get("type") == "array":
        return f"list of {_kind(field['items'])}"
    bounds = [("from", field.get("minimum")), ("to", field.get("maximum"))]
    if field.get("type") == "integer" and "exclusiveMaximum" in field:
        bounds[1] = ("to", field["exclusiveMaximum"] - 1)
    ends = [f"{word} {end:,.10g}" for word, end in bounds if end is not None]
    return " ".join([str(field.get("type", "any")), *ends])


def _table(schema: dict[str, Any]) -> None:
    cog.outl("\n| field | type | default | |\n|---|---|---|---|")
    for name, field in schema["properties"].items():
        default = "" if field.get("default") is None else f"`{json.dumps(field['default'])}`"
        default = "required" if name in schema.get("required", ()) else default
        cog.outl(f"| `{name}` | {_kind(field)} | {default} | {field['description']} |")


def rest() -> None:
    """Write each route with its fields, then the statuses of errors."""
    app = FastAPI()
    for router in (routes.api, routes.generating, routes.health, routes.monitoring):
        app.include_router(router)
    schema = app.openapi()
    models = schema["components"]["schemas"]
    errors: dict[str, str] = {}
    for path, methods in schema["paths"].items():
        for method, route in methods.items():
            answers = route["responses"]
            said = answers["200"]["description"].rstrip(".")
            cog.outl(f"\n## {method.upper()} {path}\n\n{route['description']}")
            if said != "Successful Response":
                cog.outl(f"\nAnswer: {said[0].lower()}{said[1:]}.")
            errors |= {code: a["description"] for code, a in answers.items() if code > "200"}
            if "requestBody" in route:
                name = _kind(route["requestBody"]["content"]["application/json"]["schema"])
                _table(models[name])
    cog.outl(f"\n## TextInput\n\n{models['TextInput']['description']}")
    _table(models["TextInput"])
    cog.outl("\n## Errors\n\n| status | when |\n|---|---|")
    for code, words in sorted(errors.items()):
        cog.outl(f"| {code} | {words} |")
