"""What a reader of a plan's numbers must know, in words."""

from __future__ import annotations

from typing import Any

import numpy as np

from powermark.calibration.design import Design


def notes_on(design: Design, precision: float) -> tuple[str, ...]:
    """Say where a design promises less than it seems to."""
    notes = []
    if design.profile is not None:
        notes += _doubts(design, design.profile, precision)
    if design.size > design.alpha:
        notes.append(
            f"the z-test has exact size {design.size:.4f}, which exceeds alpha = {design.alpha:g}: "
            f"it accuses more often than promised."
        )
    if design.critical_count == design.n_tokens:
        notes.append(
            f"all {design.n_tokens} scored tokens must be green: one edited token can undo the "
            f"mark, and a shorter text cannot be detected at all. Plan with an edit rate if "
            f"texts may be edited or cut."
        )
    return tuple(notes)


def _doubts(design: Design, profile: dict[str, Any], precision: float) -> list[str]:
    """Say how sure the power is that a profile foretells, where that is less than was asked."""
    texts, steps = int(profile.get("texts", 1)), int(profile.get("steps", 1))
    if design.standard_errors is None:
        return ["the profile is of one text, which says nothing about others: record more of them."]
    error = 1.96 * max(v for name, v in design.standard_errors.items() if "power" in name)
    if error <= precision:
        return []
    needed = int(np.ceil(texts * (error / precision) ** 2))
    return [
        f"the profile's {texts} texts leave the power uncertain by {error:.3f}; for {precision:g} "
        f"record {needed} texts, about {-(-needed * steps // texts):,} positions."
    ]
