"""Power-calibrated LLM text watermarking.

From (how long, how sure, how much editing, how much quality loss) to a watermark design, with
exact statistics. Start with :func:`plan`; every formula of the paper is in :mod:`powermark.theory`.

Names are loaded on first use, so that ``import powermark`` stays fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from powermark.version import __version__

if TYPE_CHECKING:
    from powermark.calibration.design import Design, evaluate
    from powermark.calibration.edits import Edits
    from powermark.calibration.frontier import branch_intersection, frontier
    from powermark.calibration.plan import Plan, plan
    from powermark.calibration.priors import BetaMixture, Dirichlet, TopicMixture
    from powermark.calibration.profile import Profile
    from powermark.calibration.profile_file import load_profile
    from powermark.calibration.signal import PlugIn, SignalModel
    from powermark.detection.detection import Detection, Detector
    from powermark.detection.evalue import StreamDetector
    from powermark.detection.window_plan import WindowPlan, plan_for_windows
    from powermark.errors import (
        EngineProblem,
        FileProblem,
        Infeasible,
        InvalidInput,
        MissingExtra,
        PowermarkError,
        SpecCorrupt,
        SpecMismatch,
        SpecTooNew,
    )
    from powermark.models.language_model import LanguageModel, load_model
    from powermark.watermark.keys import SecretKey, load_key, load_ring, new_key
    from powermark.watermark.spec import WatermarkSpec

__all__ = [
    "BetaMixture",
    "Design",
    "Detection",
    "Detector",
    "Dirichlet",
    "Edits",
    "EngineProblem",
    "FileProblem",
    "Infeasible",
    "InvalidInput",
    "LanguageModel",
    "MissingExtra",
    "Plan",
    "PlugIn",
    "PowermarkError",
    "Profile",
    "SecretKey",
    "SignalModel",
    "SpecCorrupt",
    "SpecMismatch",
    "SpecTooNew",
    "StreamDetector",
    "TopicMixture",
    "WatermarkSpec",
    "WindowPlan",
    "__version__",
    "branch_intersection",
    "evaluate",
    "frontier",
    "load_key",
    "load_model",
    "load_profile",
    "load_ring",
    "new_key",
    "plan",
    "plan_for_windows",
]

_HOME = {
    "powermark.calibration.design": ("Design", "evaluate"),
    "powermark.calibration.edits": ("Edits",),
    "powermark.calibration.frontier": ("branch_intersection", "frontier"),
    "powermark.calibration.plan": ("Plan", "plan"),
    "powermark.calibration.profile": ("Profile",),
    "powermark.calibration.profile_file": ("load_profile",),
    "powermark.calibration.priors": ("BetaMixture", "Dirichlet", "TopicMixture"),
    "powermark.calibration.signal": ("PlugIn", "SignalModel"),
    "powermark.detection.detection": ("Detection", "Detector"),
    "powermark.detection.evalue": ("StreamDetector",),
    "powermark.detection.window_plan": ("WindowPlan", "plan_for_windows"),
    "powermark.errors": (
        "EngineProblem",
        "FileProblem",
        "Infeasible",
        "InvalidInput",
        "MissingExtra",
        "PowermarkError",
        "SpecCorrupt",
        "SpecMismatch",
        "SpecTooNew",
    ),
    "powermark.models.language_model": ("LanguageModel", "load_model"),
    "powermark.watermark.keys": ("SecretKey", "load_key", "load_ring", "new_key"),
    "powermark.watermark.spec": ("WatermarkSpec",),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOME.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'powermark' has no attribute {name!r}")
