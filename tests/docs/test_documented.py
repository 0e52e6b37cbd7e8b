"""Nothing public goes undocumented, and what the pages name exists."""

import dataclasses
import json
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
import yaml
from fastapi import FastAPI

import powermark
from powermark import SecretKey, WatermarkSpec, theory
from powermark.interfaces.cli import app
from powermark.interfaces.server import routes
from powermark.watermark.hashing import mix, siphash

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
REFERENCE = "".join(path.read_text(encoding="utf-8") for path in (DOCS / "reference").glob("*.md"))


@pytest.mark.parametrize(
    "package",
    ["powermark", "powermark.theory", "powermark.models", "powermark.watermark.compat"],
)
def test_every_public_name_is_in_the_reference(package: str) -> None:
    shown = {*re.findall(r"^::: (\S+)$", REFERENCE, re.M), *re.findall(r"`(\S+)`", REFERENCE)}
    for name in import_module(package).__all__:  # under its short name, or under its long one
        assert {f"powermark.{name}", f"{package}.{name}"} & shown, name


def test_what_the_reference_names_exists_and_has_a_docstring() -> None:
    engines = ("powermark.engines.vllm", "powermark.engines.sglang")  # need their engines
    for path in re.findall(r"^::: (\S+)$", REFERENCE, re.M):
        module, name = path.rsplit(".", 1)
        if module not in engines:
            assert getattr(import_module(module), name).__doc__, path


def test_every_command_is_documented() -> None:
    def commands(group: object, path: str) -> list[str]:
        found = getattr(group, "commands", {})
        return [path, *(c for name, sub in found.items() for c in commands(sub, f"{path} {name}"))]

    headings = re.findall(r"^## (powermark.*)$", (DOCS / "cli.md").read_text(), re.M)
    assert sorted(headings) == sorted(commands(typer.main.get_command(app), "powermark"))


def openapi() -> dict[str, Any]:
    """Return the description of all routes."""
    server = FastAPI()
    for router in (routes.api, routes.generating, routes.health, routes.monitoring):
        server.include_router(router)
    return server.openapi()


def test_every_field_of_a_request_is_documented() -> None:
    found = openapi()
    models = found["components"]["schemas"]
    routes_of = [route for methods in found["paths"].values() for route in methods.values()]
    bodies = [route["requestBody"] for route in routes_of if "requestBody" in route]
    names = re.findall(r"schemas/(\w+)", json.dumps(bodies))
    for name in names:
        names += set(re.findall(r"schemas/(\w+)", json.dumps(models[name]))) - {*names}
        for field, about in models[name]["properties"].items():
            assert about.get("description"), f"{name}.{field}"
    assert "TextInput" in names


def test_every_route_is_documented() -> None:
    want = [f"{m.upper()} {p}" for p, methods in openapi()["paths"].items() for m in methods]
    page = (DOCS / "reference" / "rest.md").read_text(encoding="utf-8")
    assert re.findall(r"^## ((?:GET|POST) .*)$", page, re.M) == want
    guide = (DOCS / "serve.md").read_text(encoding="utf-8")
    assert [route for route in want if route.split()[1] not in guide] == []


def test_every_formula_has_its_function() -> None:
    table = (DOCS / "theory.md").read_text(encoding="utf-8").partition("## How an exact plan")[0]
    named = re.findall(r"`([a-z_]+(?:\.[a-z_]+)*)`", table)
    functions = [name for name in named if name != "powermark.theory"]
    for name in functions:
        home, _, last = name.rpartition(".")
        assert callable(getattr(import_module(home) if home else theory, last)), name
    assert len(functions) > 20


def test_the_spec_page_is_the_format() -> None:
    page = (DOCS / "reference" / "spec.md").read_text(encoding="utf-8")
    fields = [field.name for field in dataclasses.fields(WatermarkSpec)]
    spec = page.partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", spec, re.M) == ["format", "version", *fields, "digest"]
    shown = json.loads(re.findall(r"```json\n(.*?)```", page, re.S)[0])
    assert WatermarkSpec.from_dict(shown).to_dict() == shown


def test_the_published_vectors_are_what_the_code_gives() -> None:
    page = (DOCS / "pm1.md").read_text(encoding="utf-8")
    row = r"^\| ([\d ]+|\(empty\)) \| ([0-9a-f]{16}) \| (.*) \| (.*) \| (\d+) \| (\d+) \|$"
    rows = re.findall(row, page, re.M)
    key = SecretKey(bytes(range(32)))
    assert f"fingerprint {key.fingerprint}" in page
    for context, seed, mixed, first, greens, total in rows:
        ids = [[int(i) for i in context.split()] if context[0] != "(" else []]
        seeds = siphash(key.siphash_key, np.array(ids, dtype=np.uint32).reshape(1, -1))
        assert f"{int(seeds[0]):016x}" == seed
        assert [f"{int(x):08x}" for x in mix(seeds, [0, 1, 50256])] == mixed.split()
        green = np.flatnonzero(mix(seeds, np.arange(50257)) < np.uint32(2**30))
        assert green[:8].tolist() == [int(i) for i in first.split()]
        assert (len(green), green.sum()) == (int(greens), int(total))
    assert len(rows) == 5


def test_the_citation_is_valid_and_has_the_version() -> None:
    """What the Citation File Format 1.2.0 requires, and dates that YAML reads as text."""
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= cited.keys()
    assert cited["cff-version"] == "1.2.0"
    assert cited["version"] == powermark.__version__
    assert all(
        {"title", "authors", "type"} <= reference.keys() for reference in cited["references"]
    )


def test_the_site_shows_every_page() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}
    assert set(re.findall(r"[\w/-]+\.md", text.partition("\nnav:")[2])) == pages


def test_the_gallery_shows_every_figure() -> None:
    page = (DOCS / "gallery.md").read_text(encoding="utf-8")
    folders = (DOCS / "figures", *(DOCS / "reproduction").iterdir())
    files = (path for folder in folders for path in folder.iterdir())
    figures = {str(path.relative_to(DOCS)) for path in files if path.suffix in (".svg", ".png")}
    shown = dict(re.findall(r"^!\[.*?\]\((.*)\)\n\n\*(.*)\*$", page, re.M))
    assert shown.keys() == figures
    assert all(len(caption.split()) > 1 for caption in shown.values())
