"""The sampling settings that a profile is recorded at, and that plans made with it are for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# with the values at which profiles that lack them were recorded
SETTINGS = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "repetition_penalty": 1.0}


def settings_of(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings in a profile's metadata; empty if it has none."""
    if "temperature" not in about:
        return {}
    return {name: about.get(name, usual) for name, usual in SETTINGS.items()}


def unplanned(about: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the settings that differ from those of a plan's profile: (planned, given) by name."""
    planned = settings_of(about)
    return {
        name: (planned[name], value)
        for name, value in given.items()
        if value is not None and name in planned and planned[name] != value
    }
