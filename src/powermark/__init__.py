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
    from powermark.corpus.job import ScanJob
    from powermark.corpus.scan import scan
    from powermark.detection.detector import Detection, Detector
    from powermark.detection.stream import StreamDetector
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
    from powermark.generation.writing import Sampling
    from powermark.measuring.audit import audit
    from powermark.measuring.record_profile import record_profile
    from powermark.measuring.verify import verify
    from powermark.models.language_model import LanguageModel, load_model
    from powermark.planning.curve import frontier
    from powermark.planning.design import Design, evaluate
    from powermark.planning.lengths import Lengths
    from powermark.planning.paper_method import branch_intersection
    from powermark.planning.plan import Plan, plan
    from powermark.planning.request import Steering
    from powermark.signals.edits import Edits
    from powermark.signals.priors import BetaMixture, Dirichlet, TopicMixture
    from powermark.signals.profile import Profile
    from powermark.signals.profile_file import load_profile
    from powermark.signals.references import reference_profile
    from powermark.signals.signal import PlugIn, SignalModel
    from powermark.watermark.keys import SecretKey, load_key, load_ring, new_key
    from powermark.watermark.spec import WatermarkSpec
    from powermark.watermark.watermark import Watermark

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
    "Lengths",
    "MissingExtra",
    "Plan",
    "PlugIn",
    "PowermarkError",
    "Profile",
    "Sampling",
    "ScanJob",
    "SecretKey",
    "SignalModel",
    "SpecCorrupt",
    "SpecMismatch",
    "SpecTooNew",
    "Steering",
    "StreamDetector",
    "TopicMixture",
    "Watermark",
    "WatermarkSpec",
    "__version__",
    "audit",
    "branch_intersection",
    "evaluate",
    "frontier",
    "load_key",
    "load_model",
    "load_profile",
    "load_ring",
    "new_key",
    "plan",
    "record_profile",
    "reference_profile",
    "scan",
    "verify",
]

_HOME = {
    "powermark.planning.design": ("Design", "evaluate"),
    "powermark.signals.edits": ("Edits",),
    "powermark.planning.curve": ("frontier",),
    "powermark.planning.lengths": ("Lengths",),
    "powermark.planning.paper_method": ("branch_intersection",),
    "powermark.planning.request": ("Steering",),
    "powermark.planning.plan": ("Plan", "plan"),
    "powermark.signals.profile": ("Profile",),
    "powermark.signals.profile_file": ("load_profile",),
    "powermark.signals.references": ("reference_profile",),
    "powermark.signals.priors": ("BetaMixture", "Dirichlet", "TopicMixture"),
    "powermark.signals.signal": ("PlugIn", "SignalModel"),
    "powermark.corpus.job": ("ScanJob",),
    "powermark.corpus.scan": ("scan",),
    "powermark.detection.detector": ("Detection", "Detector"),
    "powermark.detection.stream": ("StreamDetector",),
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
    "powermark.measuring.audit": ("audit",),
    "powermark.measuring.record_profile": ("record_profile",),
    "powermark.measuring.verify": ("verify",),
    "powermark.generation.writing": ("Sampling",),
    "powermark.models.language_model": ("LanguageModel", "load_model"),
    "powermark.watermark.keys": ("SecretKey", "load_key", "load_ring", "new_key"),
    "powermark.watermark.watermark": ("Watermark",),
    "powermark.watermark.spec": ("WatermarkSpec",),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOME.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'powermark' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
