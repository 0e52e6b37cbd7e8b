"""The page on architecture: what it draws and names is what the code has."""

import re
from pathlib import Path

import architecture
import flows

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_every_path_on_the_page_exists() -> None:
    places = re.findall(r"`((?:docs|tests|[a-z]+)/[\w/.]*)`", PAGE)
    assert len(places) > 15
    for place in places:
        assert any((base / place).exists() for base in (ROOT, ROOT / "src" / "powermark")), place


def test_packages_are_drawn_above_what_they_import() -> None:
    graph = architecture.package_graph()
    depth = architecture.levels(graph)
    assert all(depth[name] > depth[each] for name in graph for each in graph[name])
    assert depth["theory"] == 1
    assert max(depth, key=depth.__getitem__) == "interfaces"


def test_only_the_command_line_imports_paper() -> None:
    graph = architecture.module_graph()
    importers = {
        name
        for name, imported in graph.items()
        if any(each.startswith("powermark.paper") for each in imported)
    }
    outside = {name for name in importers if not name.startswith("powermark.paper")}
    assert outside == {"powermark.interfaces.cli.reproduce"}


def test_nodes_that_import_each_other_are_equally_deep() -> None:
    graph = {"a": {"b", "c"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}
    assert architecture.levels(graph) == {"a": 3, "b": 2, "c": 2, "d": 1}


def test_a_flow_lists_modules_once_in_order() -> None:
    """Functions that run while a module is imported do not count."""
    modules = flows.measure("detect").modules
    assert modules[:2] == ["interfaces.cli", "interfaces.cli.detect"]
    assert len(set(modules)) == len(modules)
    assert not {"errors", "checks", "files", "version"} & set(modules)
    assert "interfaces.cli.plan" not in modules  # imported only
    assert f"**detect**, {len(modules)} modules" in PAGE
