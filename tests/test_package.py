import runpy
import subprocess
import sys

import pytest

import powermark
from powermark import theory
from powermark.signature import signature


def test_all_names_are_sorted_and_real() -> None:
    for module in (powermark, theory):
        assert module.__all__ == sorted(module.__all__)
        for name in module.__all__:
            assert getattr(module, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = powermark.nothing


def test_importing_is_light() -> None:
    """``import powermark`` and the command line load neither scipy nor anything heavier."""
    code = (
        "import sys, powermark, powermark.interfaces.cli\n"
        "print([m for m in ('numpy', 'scipy', 'numba', 'matplotlib', 'torch') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_the_package_is_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["powermark", "--version"])
    with pytest.raises(SystemExit, match="0"):
        runpy.run_module("powermark", run_name="__main__")
    assert capsys.readouterr().out == f"powermark {powermark.__version__}\n"


def test_detectors_are_public_and_where_they_were() -> None:
    from powermark.detection.detection import Detection, Detector
    from powermark.detection.evalue import StreamDetector

    assert powermark.Detector is Detector
    assert powermark.Detection is Detection
    assert powermark.StreamDetector is StreamDetector


def test_signatures_leave_out_what_was_not_used() -> None:
    line = signature("plan", method="exact", n=50, a=1e-5, kl=None)
    assert line == f"powermark|plan|method:exact|n:50|a:1e-05|v:{powermark.__version__}"


def test_empty_input_passes_through() -> None:
    assert theory.gamma_prime([], 1.0).shape == (0,)
    assert theory.critical_count([], 0.5, 0.05).shape == (0,)
