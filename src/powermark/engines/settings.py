"""Environment variables and request fields.

This module imports nothing heavy: vLLM's CPU workers do not start in a process that has loaded
Numba.
"""

from __future__ import annotations

import os

FIELD = "powermark"  # of a request
OFF = "off"
CONFIG = "POWERMARK_CONFIG"
SETTINGS = {name: f"POWERMARK_{name.upper()}" for name in ("specs", "keys", "default", "opt_out")}


def is_configured() -> bool:
    """Whether the environment configures any mark."""
    return any(name in os.environ for name in (CONFIG, *SETTINGS.values()))
