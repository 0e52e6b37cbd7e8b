"""The packages as they import each other: the picture and lists of architecture.md.

``python docs/architecture.py`` prints modules, lines, depth of imports and public names, of any
version of the code that PYTHONPATH points to.
"""

from __future__ import annotations

import importlib
import inspect
import shlex
import sys
import tomllib
from functools import cache
from pathlib import Path

import flows
import grimp
import numpy as np
from scipy.sparse.csgraph import connected_components

ROOT = "powermark"
Graph = dict[str, set[str]]
_BOX, _GAP, _ROW = (112, 26), 14, 62  # size of a box, space beside it, and height of a row
_STYLE = "font:12px sans-serif;fill:currentColor;stroke:currentColor"


def module_graph() -> Graph:
    """Return what each module imports.

    Imports for type checkers are left out, and the exceptions that the contract of imports names.
    """
    graph = grimp.build_graph(ROOT, cache_dir=None, exclude_type_checking_imports=True)
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
    exceptions = {
        exception
        for contract in project["tool"]["importlinter"]["contracts"]
        for exception in contract.get("ignore_imports", [])
    }
    return {
        name: {
            each
            for each in graph.find_modules_directly_imported_by(name)
            if f"{name} -> {each}" not in exceptions
        }
        for name in sorted(graph.modules)
    }


def package_graph() -> Graph:
    """Return what each package imports; modules outside of packages are left out."""
    modules = module_graph()
    packages = {_package(name) for name in modules if name.count(".") > 1}
    found: Graph = {name: set() for name in sorted(packages)}
    for name, imported in modules.items():
        if (mine := _package(name)) in packages:
            found[mine] |= {_package(each) for each in imported} & packages - {mine}
    return found


def _package(module: str) -> str:
    return ".".join(module.split(".")[1:2])


def levels(graph: Graph) -> dict[str, int]:
    """Return how many imports deep each node is; nodes that import each other are equally deep."""
    names = list(graph)
    matrix = np.array([[other in graph[name] for other in names] for name in names])
    groups = dict(zip(names, connected_components(matrix, connection="strong")[1], strict=True))

    @cache
    def depth(group: int) -> int:
        below = {groups[each] for name in names if groups[name] == group for each in graph[name]}
        return 1 + max(map(depth, below - {group}), default=0)

    return {name: depth(groups[name]) for name in names}


def _direct(graph: Graph) -> list[tuple[str, str]]:
    """Return the imports that are not implied by others."""

    @cache
    def reached(name: str) -> frozenset[str]:
        return frozenset(graph[name]).union(*map(reached, graph[name]))

    return [
        (name, each)
        for name in graph
        for each in sorted(graph[name])
        if not any(each in reached(other) for other in graph[name])
    ]


def picture() -> str:
    """Return the packages as SVG on one line: each is above those it imports."""
    graph = package_graph()
    depth = levels(graph)
    rows = [sorted(n for n in graph if depth[n] == d) for d in range(max(depth.values()), 0, -1)]
    width = max(map(len, rows)) * (_BOX[0] + _GAP)
    place = {
        name: (
            width / 2 + (index - (len(row) - 1) / 2) * (_BOX[0] + _GAP),
            (number + 0.5) * _ROW,
        )
        for number, row in enumerate(rows)
        for index, name in enumerate(row)
    }
    lines = "".join(
        f'<line x1="{place[a][0]:g}" y1="{place[a][1]:g}" x2="{place[b][0]:g}" '
        f'y2="{place[b][1]:g}" opacity=".45"/>'
        for a, b in _direct(graph)
    )
    boxes = "".join(
        f'<rect x="{x - _BOX[0] / 2:g}" y="{y - _BOX[1] / 2:g}" width="{_BOX[0]}" '
        f'height="{_BOX[1]}" rx="5" style="fill:var(--md-default-bg-color,#fff)"/>'
        f'<text x="{x:g}" y="{y + 4:g}" text-anchor="middle" stroke="none">{name}</text>'
        for name, (x, y) in place.items()
    )
    return (
        f'<figure><svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="Packages; each '
        f'imports those below that it is joined to" viewBox="0 0 {width} {len(rows) * _ROW}" '
        f'style="{_STYLE};width:100%;max-width:{width}px">{lines}{boxes}</svg></figure>'
    )


def packages() -> str:
    """Return a table: each package, what it is for, and what it imports."""
    graph = package_graph()
    depth = levels(graph)
    rows = ["| package | for | imports |", "|---|---|---|"]
    for name in sorted(graph, key=lambda each: (-depth[each], each)):
        imported = ", ".join(sorted(graph[name])) or "none"
        rows.append(f"| `{name}` | {_sentence(name)} | {imported} |")
    return "\n".join(rows)


def shared_modules() -> str:
    """Return a list of the modules outside of packages, and what they are for."""
    packages = package_graph()
    names = sorted({_package(name) for name in module_graph()} - {*packages, "", "__main__"})
    return "\n".join(f"- `{name}`: {_sentence(name)}" for name in names)


def maps() -> str:
    """Return the map of files that each package has in its docstring."""
    graph = package_graph()
    depth = levels(graph)
    parts = []
    inner = {"interfaces": ("interfaces", "interfaces.cli", "interfaces.server")}
    outer = sorted(graph, key=lambda each: (-depth[each], each))
    for name in (each for package in outer for each in inner.get(package, (package,))):
        _, _, files = _docstring(name).partition("\n\n")
        if files:
            parts.append(f"`{name}`\n\n```text\n{files.rstrip()}\n```")
    return "\n\n".join(parts)


def _docstring(name: str) -> str:
    said = importlib.import_module(f"{ROOT}.{name}").__doc__ or ""
    return inspect.cleandoc(said).replace("``", "`")


def _sentence(name: str) -> str:
    """Return the first paragraph of a docstring."""
    return " ".join(_docstring(name).partition("\n\n")[0].split())


def hops() -> str:
    """Return the command of each flow and the modules that it passes through."""
    parts = []
    for each in flows.measure_all():
        shown = " → ".join(f"`{module}`" for module in each.modules)
        command = f"`powermark {shlex.join(each.command)}`"
        parts.append(f"**{each.name}**, {len(each.modules)} modules: {command}\n\n{shown}.")
    return "\n\n".join(parts)


def report() -> str:
    """Return modules and lines of each package, the depth of imports, and the public names."""
    package = importlib.import_module(ROOT)
    root = Path(str(package.__file__)).parent
    counts: dict[str, list[int]] = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).parts
        counts.setdefault(parts[0] if len(parts) > 1 else "(root)", []).append(
            len(path.read_text(encoding="utf-8").splitlines())
        )
    rows = [f"{name:12} {len(n):4} modules {sum(n):6} lines" for name, n in counts.items()]
    every = [lines for each in counts.values() for lines in each]
    rows.append(f"{'all':12} {len(every):4} modules {sum(every):6} lines")
    for what, graph in (("modules", module_graph()), ("packages", package_graph())):
        rows.append(f"longest chain of {what}: {max(levels(graph).values())}")
    names = [name for name in package.__all__ if not name.startswith("__")]
    return "\n".join([*rows, f"public names: {len(names)}"])


if __name__ == "__main__":
    sys.stdout.write(report() + "\n")
