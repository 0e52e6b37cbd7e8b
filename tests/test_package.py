import io
import re
import runpy
import subprocess
import sys
from contextlib import redirect_stdout

import pytest

import powermark
from powermark import theory
from powermark.interfaces.cli import main
from powermark.signature import signature


def test_all_names_are_sorted_and_real() -> None:
    for module in (powermark, theory):
        assert module.__all__ == sorted(module.__all__)
        for name in module.__all__:
            assert getattr(module, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = powermark.nothing


def test_dir_lists_the_public_names() -> None:
    assert dir(powermark) == powermark.__all__


_EXTRAS = (
    "accelerate bert_score confusable_homoglyphs datasets fastapi fastapi_offline filelock fsspec "
    "gguf matplotlib nltk prometheus_client pyarrow ray rouge_score tenacity tokenizers torch "
    "transformers uvicorn"
)
_WITHOUT_EXTRAS = f"""
import sys
sys.modules.update(dict.fromkeys("{_EXTRAS}".split()))  # importing one of them fails
from powermark import *
import powermark
assert set(powermark.__all__) <= set(globals()), "a name is missing"
assert dir(powermark) == powermark.__all__
spec = WatermarkSpec(gamma=0.5, delta=2.0, context_width=2, vocab_size=100)
try:
    scan(["corpus"], ScanJob(specs=(spec,)), "out")
except MissingExtra as error:
    print(error, error.hint)
"""


def test_without_extras_all_names_can_be_imported() -> None:
    """They raise when they are called."""
    command = [sys.executable, "-c", _WITHOUT_EXTRAS]
    shown = subprocess.run(command, capture_output=True, text=True, check=False)
    assert shown.stderr == ""
    expected = r"scanning needs \w+, which is not installed\. pip install 'powermark\[corpus\]'\n"
    assert re.fullmatch(expected, shown.stdout)


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


def test_the_command_prints_to_any_stream() -> None:
    """Such as a notebook's, which is no TextIOWrapper."""
    with redirect_stdout(io.StringIO()) as shown, pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert shown.getvalue() == f"powermark {powermark.__version__}\n"


def test_detectors_are_public_and_where_they_were() -> None:
    from powermark.detection.detector import Detection, Detector
    from powermark.detection.stream import StreamDetector

    assert powermark.Detector is Detector
    assert powermark.Detection is Detection
    assert powermark.StreamDetector is StreamDetector


def test_signatures_leave_out_what_was_not_used() -> None:
    line = signature("plan", method="exact", n=50, a=1e-5, kl=None)
    assert line == f"powermark|plan|method:exact|n:50|a:1e-05|v:{powermark.__version__}"


def test_empty_input_passes_through() -> None:
    assert theory.gamma_prime([], 1.0).shape == (0,)
    assert theory.critical_count([], 0.5, 0.05).shape == (0,)
