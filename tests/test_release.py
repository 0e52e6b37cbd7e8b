"""What `make release-check` tries is what there is."""

import json
import re
import runpy
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

from powermark.signals.references import REFERENCES

ROOT = Path(__file__).parents[1]
SCRIPT = (ROOT / ".ci" / "release-check").read_text(encoding="utf-8")
ELSEWHERE = {"vllm"}  # several GB with CUDA, in an environment of its own


def test_every_extra_is_installed_and_its_modules_loaded() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = set(project["optional-dependencies"]) - ELSEWHERE
    tried = re.findall(r'^EXTRAS=\$\{EXTRAS-"(.*)"\}$', SCRIPT, re.M)[0].split()
    assert sorted(tried) == sorted(extras)
    unlocks = runpy.run_path(str(ROOT / ".ci" / "smoke.py"))["UNLOCKS"]
    assert unlocks.keys() == extras
    ours = [m for names in unlocks.values() for m in names.split() if m.startswith("powermark")]
    assert [name for name in ours if find_spec(name) is None] == []


def test_every_python_that_is_declared_is_tried() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    kinds = [kind.rpartition(":: ")[2] for kind in project["classifiers"]]
    declared = {kind for kind in kinds if re.fullmatch(r"3\.\d+", kind)}
    tried = re.findall(r'^PYTHONS=\$\{PYTHONS-"(.*)"\}$', SCRIPT, re.M)[0].split()
    assert {"python3.11", *tried} == {f"python{version}" for version in declared}


@pytest.mark.parametrize(
    ("name", "found"),
    [("python9.9", "versions/9.9.10/bin/python"), ("python9.8", ""), ("true", "true")],
)
def test_interpreters_are_found_by_name_and_where_pyenv_keeps_them(
    tmp_path: Path, name: str, found: str
) -> None:
    for version in ("9.9.2", "9.9.10", "9.90.1"):
        (tmp_path / "versions" / version / "bin").mkdir(parents=True)
        (tmp_path / "versions" / version / "bin" / "python").touch()
    function = re.findall(r"^interpreter\(\) .*?^}", SCRIPT, re.M | re.S)[0]
    asked = f"set -euo pipefail; {function}\nfound=$(interpreter {name}); echo $found"
    said = subprocess.run(
        ["bash", "-c", asked],
        env={"PATH": "/usr/bin:/bin", "PYENV_ROOT": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.strip().removeprefix(f"{tmp_path}/") == found


@pytest.mark.parametrize(
    ("packages", "code", "words"),
    [
        (None, 1, "audited 0 of 0"),
        ([{"name": "one", "skip_reason": "no answer"}], 1, "audited 0 of 1"),
        ([{"name": "one", "version": "1", "vulns": []}], 0, "audited 1 of 1"),
        ([{"name": "one", "version": "1", "vulns": [{"id": "X-1"}]}], 1, "one 1: X-1"),
    ],
)
def test_an_audit_that_looked_nothing_up_fails(packages: object, code: int, words: str) -> None:
    said = subprocess.run(
        [sys.executable, str(ROOT / ".ci" / "audit.py")],
        input="" if packages is None else json.dumps({"dependencies": packages}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == code, said
    assert words in said.stdout


def test_the_reference_profiles_are_in_the_wheel() -> None:
    """Hatch packs what is in the package's folder and not ignored; the smoke test reads them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    targets = project["tool"]["hatch"]["build"]["targets"]
    assert targets == {"wheel": {"packages": ["src/powermark"]}}
    folder = ROOT / "src" / "powermark" / "signals" / "reference"
    paths = [folder / f"{name}.npz" for name in REFERENCES]
    assert sorted(folder.iterdir()) == sorted(paths)
    ignored = subprocess.run(["git", "check-ignore", *paths], cwd=ROOT, check=False)
    assert ignored.returncode != 0
    assert "plan_on_references()" in (ROOT / ".ci" / "smoke.py").read_text(encoding="utf-8")
