"""What the fuzz draws for the interfaces: arguments, token ids, texts; web.py has requests."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, get_args
from unittest.mock import patch

from hypothesis import strategies as st

from powermark.detection.detector import Detector, Kind
from powermark.detection.stream import StreamDetector
from powermark.interfaces.cli import app, main
from powermark.models.tokenizer import FileTokenizer
from powermark.watermark.keys import load_key
from powermark.watermark.spec import WatermarkSpec
from proof.inputs import TARGETS as FILES
from proof.inputs import Said, Target, mostly
from proof.loopback import loopback_only
from proof.shop import Shop, words
from proof.web import rest

# servers that are not there, at this machine's own address or at none
ADDRESSES = ("http://[", "http://127.0.0.1:x/v1", "http://127.0.0.1:1/v1", "http:// x")


@contextlib.contextmanager
def _cli(shop: Shop, place: Path) -> Iterator[Target]:
    """Arguments and stdin: every command on the small model, with its own options and others'."""
    shelf = shutil.copytree(shop.shelf, place / "shelf", dirs_exist_ok=True)  # may be overwritten
    spec, key, model = str(shelf / shop.spec.name), str(shelf / shop.key.name), str(shop.model)
    mark = ("--spec", spec, "--key", key)
    values = st.one_of(
        st.sampled_from(["50", ".05", ".5", "2", "0", "-1", "nan", "inf", "1e9", "", "-", "x"]),
        st.sampled_from([spec, key, model, str(shop.data), "f", "."]),
        st.sampled_from(ADDRESSES),
        st.sampled_from(["count", "winmax", "evalue", "exact", "paper", "pm1", "kl", "power"]),
        st.text(max_size=6),
    )
    few = ("--model", model, "--texts", "2")
    profile = ("profile", *few, "--n-tokens", "3", "-o", "p.npz")
    verify = ("verify", *mark, *few)
    near = st.sampled_from([
        ("plan", "--n-tokens", "50", "--alpha", ".05", "--power", ".9"),
        ("power", "--gamma", ".5", "--delta", "2", "--n-tokens", "50", "--alpha", ".05"),
        ("curve", "--over", "power", "--points", "3", "--n-tokens", "50", "--alpha", ".05"),
        ("detect", *mark, "--model", model),
        ("detect", *mark, "--model", model, "--tokens", key),
        ("detect", *mark, "--ids"),
        ("audit", *mark, "--model", model),
        profile,
        verify,
        *((*asking, "--endpoint", url) for asking in (profile, verify) for url in ADDRESSES),
        ("demo", "--help"),
        *(("reproduce", name, "-o", "figures") for name in ("fig-roots", "table-hypergeometric")),
        ("greenlist", *mark),
        ("scan", *mark, "--ids", "-o", "out"),
        ("generate", *mark, "--model", model, "--n-tokens", "3"),
        ("generate", *mark, "--model", model, "--n-tokens", "3", "--json", "--prompts", key),
        ("spec", "show", spec),
        ("spec", "new"),
        ("key", "fingerprint"),
        ("key", "new"),
        ("key", "import"),
        ("serve", str(shelf), "--port", "0", "--tokenizer", model),
        ("token", "tokens.txt"),
    ])  # fmt: skip

    def extended(first: tuple[str, ...]) -> st.SearchStrategy[list[str]]:
        options = st.sampled_from(_options(first))
        one = st.tuples(options, values) | st.tuples(values) | st.tuples(options)
        return st.lists(one, max_size=3).map(lambda rest: [*first, *sum(rest, ())])

    def take(value: tuple[list[str], bytes], said: Said) -> bool:
        arguments, given = value
        out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace")
        stdin = io.TextIOWrapper(io.BytesIO(given), encoding="utf-8")
        code: Any = 0
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(out),
            patch("sys.stdin", stdin),
        ):
            try:
                main([argument.replace("\0", "") for argument in arguments])  # no shell can pass it
            except SystemExit as end:
                code = end.code
        out.flush()
        said(out.buffer.getvalue().decode())
        known = (0, 1, 2, 3) if arguments[0:1] == ["verify"] else (0, 1, 2)  # 3: too few texts
        assert code in known, f"exit code {code}"
        return bool(code == 0)

    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.chdir(place))
        stack.enter_context(loopback_only())
        stack.enter_context(patch.dict(os.environ, shop.environment()))
        stack.enter_context(patch("huggingface_hub.constants.HF_HUB_OFFLINE", True))
        serving = "powermark.interfaces.server.run.run"
        stack.enter_context(patch(serving, lambda _, listener, *__: listener.close()))
        stack.enter_context(patch("webbrowser.open"))
        texts = [b"", b"3 4 5 6", b'{"text": "w3 w4"}\n', words([5] * 60).encode()]
        stdin = st.binary(max_size=40) | st.sampled_from([*texts, shop.key.read_bytes()])
        arguments = mostly(near.flatmap(extended), st.lists(values, max_size=6))
        yield Target(st.tuples(arguments, stdin), take)


def _options(words_so_far: tuple[str, ...]) -> list[str]:
    """Return the options of a command, but not those that would start a cluster."""
    from typer.main import get_command

    command: Any = get_command(app)
    for word in words_so_far[:2]:
        command = getattr(command, "commands", {}).get(word, command)
    found = {option for parameter in command.params for option in parameter.opts}
    return sorted(o for o in {*found, "--help"} if o.startswith("-") and o != "--engine")


def _detectors(shop: Shop) -> list[Detector]:
    spec, key = WatermarkSpec.load(shop.spec), load_key(shop.key)
    tokenizer = FileTokenizer(shop.model / "tokenizer.json")
    new = partial(Detector, spec, key, tokenizer=tokenizer, alpha=0.01)
    kinds: tuple[Kind, ...] = get_args(Kind)
    return [*(new(detector=kind) for kind in kinds), new(normalise_text=True)]


@contextlib.contextmanager
def _tokens(shop: Shop, place: Path) -> Iterator[Target]:
    """Token ids, in every shape and kind."""
    del place
    detectors = _detectors(shop)
    mark = detectors[0].watermarks[""]
    ids = st.lists(st.integers(0, 199) | st.sampled_from([200, -1, 2**24, 2**63, 2**64]))
    odd = st.sampled_from([[[1, 2], [3, 4]], 5, [1.5, 2.0], ["w3"], [None], [True, False], [[]]])
    good = st.lists(st.integers(0, 199), min_size=40, max_size=120)

    def take(value: Any, said: Said) -> bool:
        for detector in detectors:
            said(f"{detector.detect(value)}\n")
        stream = StreamDetector(mark, alpha=0.01).feed(value)
        again = StreamDetector.from_dict(stream.to_dict(), mark)
        assert again.log_e == stream.log_e
        said(json.dumps(stream.to_dict()))
        return True

    yield Target(st.one_of(ids, odd, good), take)


@contextlib.contextmanager
def _text(shop: Shop, place: Path) -> Iterator[Target]:
    """Any text, surrogates and all."""
    del place
    detectors = _detectors(shop)
    near = st.lists(st.sampled_from(["w3", "w17", "wх5", "\u200b", "<b>", "&", "\ud800", " "]))

    def take(value: str, said: Said) -> bool:
        for detector in detectors:
            said(detector.inspect(value).html())
        return True

    yield Target(st.text() | near.map(" ".join), take)


TARGETS: dict[str, Any] = {
    **FILES,
    "cli": _cli,
    "rest": rest,
    "tokens": _tokens,
    "text": _text,
}
