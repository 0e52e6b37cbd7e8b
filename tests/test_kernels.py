"""Kernels that Python calls work without the interpreter's lock: a server has other requests."""

import importlib
from pathlib import Path

import powermark

PLACE = Path(powermark.__file__).parent


def test_kernels_release_the_interpreters_lock() -> None:
    held, seen = [], 0
    for path in sorted(PLACE.rglob("*.py")):
        if "from numba import" not in path.read_text():
            continue
        name = ".".join(path.relative_to(PLACE.parent).with_suffix("").parts)
        for kernel, found in vars(importlib.import_module(name)).items():
            options = getattr(found, "targetoptions", None)
            if options is not None and not kernel.startswith("_"):  # others are called by kernels
                seen += 1
                held += [] if options.get("nogil") else [f"{name}.{kernel}"]
    assert held == []
    assert seen > 20
