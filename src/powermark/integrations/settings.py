"""The names that a server is told its marks by, and that requests name them by.

This imports nothing heavy: engines ask in processes of theirs that must not load more (vLLM's CPU
workers do not start once Numba is there).
"""

from __future__ import annotations

import os

FIELD = "powermark"  # of a request
OFF = "off"
CONFIG = "POWERMARK_CONFIG"
SETTINGS = {name: f"POWERMARK_{name.upper()}" for name in ("specs", "keys", "default", "opt_out")}


def told() -> bool:
    """Whether the environment says anything of marks."""
    return any(name in os.environ for name in (CONFIG, *SETTINGS.values()))
