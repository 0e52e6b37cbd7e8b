"""A real vLLM server on loopback: marked and unmarked requests side by side; run by make test-vllm.

Takes a few minutes on a CPU. `-s` shows the counts.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest

from powermark.detection.detector import Detector
from powermark.models.catalog import DEFAULT_MODEL
from powermark.models.language_model import load_tokenizer
from powermark.models.store import model_folder
from powermark.watermark.keys import SecretKey, new_key
from powermark.watermark.spec import WatermarkSpec, digest_of

PORT = int(os.environ.get("POWERMARK_TEST_PORT", "18999"))
URL = f"http://127.0.0.1:{PORT}"
TEXTS = int(os.environ.get("POWERMARK_TEST_TEXTS", "8"))  # of each kind
START = float(os.environ.get("POWERMARK_TEST_START", "900"))  # seconds to wait for the server
N_TOKENS, GAMMA, DELTA, ALPHA = 48, 0.25, 4.0, 1e-3
PROMPTS = ["The city council met on Tuesday", "My favourite recipe begins with", "In 1905 a clerk",
           "Dear neighbours, please remember that", "The second law says"]  # fmt: skip


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return load_tokenizer(DEFAULT_MODEL)


@pytest.fixture(scope="module")
def served(tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The server's specs by name and its key, while it runs."""
    home = tmp_path_factory.mktemp("server")
    key = new_key(home / "k.key")
    (home / "specs").mkdir()
    specs = {}
    for h in (1, 4):
        specs[f"h{h}"] = WatermarkSpec(
            gamma=GAMMA, delta=DELTA, context_width=h, vocab_size=len(tokenizer),
            tokenizer_digest=digest_of(tokenizer), key_fingerprint=key.fingerprint,
        )  # fmt: skip
        specs[f"h{h}"].save(home / "specs" / f"h{h}.json")
    environment = os.environ | {
        "HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1",
        "POWERMARK_SPECS": str(home / "specs"), "POWERMARK_KEYS": str(home / "k.key"),
        "POWERMARK_DEFAULT": "h1", "POWERMARK_OPT_OUT": "yes",
    }  # fmt: skip
    # the entry point is installed too: with the flag it must still mark once
    command = [
        sys.executable, "-m", "vllm.entrypoints.openai.api_server",
        "--model", str(model_folder(DEFAULT_MODEL)), "--served-model-name", "m",
        "--dtype", "float32", "--enforce-eager", "--max-model-len", "512", "--max-num-seqs", "16",
        "--host", "127.0.0.1", "--port", str(PORT),
        "--logits-processors", "powermark.engines.vllm:Watermark",
    ]  # fmt: skip
    log = home / "log"
    with log.open("wb") as stream:
        process = subprocess.Popen(command, env=environment, stdout=stream, stderr=stream)
        try:
            _wait(process, log)
            yield specs, key
        finally:
            process.terminate()
            process.wait(60)


def _wait(process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + START
    while time.monotonic() < end:
        if process.poll() is not None:
            break
        try:
            urlopen(f"{URL}/health", timeout=5)
        except (URLError, OSError):
            time.sleep(2)
        else:
            return
    raise AssertionError(log.read_text(errors="replace")[-4000:])


def post(path: str, body: dict[str, Any]) -> Any:
    body = {"model": "m", "temperature": 1.0, "max_tokens": N_TOKENS, **body}
    data = json.dumps({"return_token_ids": True, **body}).encode()
    request = Request(f"{URL}/v1/{path}", data, {"Content-Type": "application/json"})
    return urlopen(request, timeout=1800)


def complete(index: int, mark: str, **more: Any) -> list[dict[str, Any]]:
    body = {"prompt": PROMPTS[index % len(PROMPTS)], "seed": index, **more}
    with post("completions", {**body, "vllm_xargs": {"powermark": mark}}) as answer:
        found: list[dict[str, Any]] = json.load(answer)["choices"]
    return found


def report(
    what: str, texts: list[dict[str, Any]], spec: WatermarkSpec, key: SecretKey, tokenizer: Any
) -> int:
    detector = Detector(spec, key, tokenizer=tokenizer, alpha=ALPHA)
    by_ids = [detector.detect(text["token_ids"]) for text in texts]
    by_text = [detector.detect(text["text"]) for text in texts]
    hits = [sum(one.verdict == "watermarked" for one in part) for part in (by_ids, by_text)]
    green, scored = sum(one.green for one in by_ids), sum(one.scored for one in by_ids)
    print(f"\n{what}: {hits[0]} of {len(texts)} by ids, {hits[1]} by text; "
          f"{green} of {scored} green ({green / max(scored, 1):.3f})")  # fmt: skip
    return hits[0]


def test_mixed_requests(served: Any, tokenizer: Any) -> None:
    specs, key = served
    jobs = [(i, mark) for i in range(TEXTS) for mark in ("h1", "h4", "off")]
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda job: complete(*job)[0], jobs))
    by_mark = {mark: [t for (_, m), t in zip(jobs, found, strict=True) if m == mark]
               for mark in ("h1", "h4", "off")}  # fmt: skip
    for name in ("h1", "h4"):
        assert report(name, by_mark[name], specs[name], key, tokenizer) >= 0.7 * TEXTS
        others = report(f"unmarked, sought as {name}", by_mark["off"], specs[name], key, tokenizer)
        assert others <= 1
    assert report("h4, sought as h1", by_mark["h4"], specs["h1"], key, tokenizer) <= 1


def test_several_streamed_and_chat(served: Any, tokenizer: Any) -> None:
    specs, key = served
    three = complete(0, "h4", n=3)
    assert len({tuple(text["token_ids"]) for text in three}) == 3
    assert report("n=3", three, specs["h4"], key, tokenizer) >= 2
    ids: list[int] = []
    text = ""
    body = {"prompt": PROMPTS[0], "stream": True, "vllm_xargs": {"powermark": "h1"}}
    with post("completions", body) as answer:
        for line in answer:
            if line.startswith(b"data:") and b"[DONE]" not in line:
                for choice in json.loads(line[5:])["choices"]:
                    ids += choice.get("token_ids") or []
                    text += choice["text"]
    streamed = [{"token_ids": ids, "text": text}]
    assert report("streamed", streamed, specs["h1"], key, tokenizer) == 1
    messages = [{"role": "user", "content": "Tell me a long story about the sea."}]
    with post("chat/completions", {"messages": messages}) as answer:  # the default mark
        choice = json.load(answer)["choices"][0]
    told = [{"token_ids": choice["token_ids"], "text": choice["message"]["content"]}]
    assert report("chat", told, specs["h1"], key, tokenizer) == 1


@pytest.mark.parametrize(
    ("asked", "words"), [("h9", "no mark named 'h9' here"), (3, "no mark named 3 here")]
)
@pytest.mark.usefixtures("served")
def test_unknown_marks_are_refused(asked: Any, words: str) -> None:
    with pytest.raises(HTTPError) as error:
        complete(0, asked)
    assert error.value.code == 400
    assert words in error.value.read().decode()


@pytest.mark.parametrize("path", ["completions", "chat/completions"])
@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"use_beam_search": True, "n": 2, "temperature": 0.0}, "leave use_beam_search out"),
        ({"powermark": "h4"}, "names its mark in vllm_xargs"),
        ({"extra_body": {"powermark": "h4"}}, "names its mark in vllm_xargs"),
    ],
)
@pytest.mark.usefixtures("served")
def test_what_vllm_would_leave_unmarked_is_refused(
    path: str, body: dict[str, Any], words: str
) -> None:
    chat = path.startswith("chat")
    prompt = {"messages": [{"role": "user", "content": "Hello"}]} if chat else {"prompt": "Hello"}
    with pytest.raises(HTTPError) as error:
        post(path, {**prompt, **body, "max_tokens": 4})
    assert error.value.code == 400
    assert words in error.value.read().decode()
    assert json.load(post("completions", {"prompt": "Hello", "max_tokens": 2}))["choices"]


def test_speculative_decoding_that_drops_processors_does_not_start(tmp_path: Path) -> None:
    """By the entry point alone: with the flag vLLM itself refuses."""
    key, tokens = new_key(tmp_path / "k.key"), load_tokenizer(DEFAULT_MODEL)
    WatermarkSpec(
        gamma=GAMMA, delta=DELTA, context_width=1, vocab_size=len(tokens),
        tokenizer_digest=digest_of(tokens), key_fingerprint=key.fingerprint,
    ).save(tmp_path / "s.json")  # fmt: skip
    program = f"""if __name__ == "__main__":
        from vllm import LLM
        LLM({str(model_folder(DEFAULT_MODEL))!r}, dtype="float32", enforce_eager=True,
            max_model_len=256, speculative_config={{"method": "ngram", "num_speculative_tokens": 2,
            "prompt_lookup_max": 2, "prompt_lookup_min": 1}})"""
    environment = os.environ | {
        "HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1",
        "POWERMARK_SPECS": str(tmp_path / "s.json"), "POWERMARK_KEYS": str(tmp_path / "k.key"),
    }  # fmt: skip
    found = subprocess.run(
        [sys.executable, "-c", program],
        env=environment, capture_output=True, text=True, check=False, timeout=START,
    )  # fmt: skip
    assert found.returncode != 0
    assert "leaves logits processors out" in found.stderr


def command(
    specs: dict[str, WatermarkSpec], key: SecretKey, folder: Path, *words: str
) -> subprocess.CompletedProcess[str]:
    """Run a subcommand of powermark with the mark h1 and its key."""
    specs["h1"].save(folder / "s.json")
    keys = folder / "k.key"
    keys.write_text("powermark-key-1:" + key._secret.hex())
    keys.chmod(0o600)
    given = [words[0], "--spec", str(folder / "s.json"), "--key", str(keys), *words[1:]]
    return subprocess.run(
        [sys.executable, "-m", "powermark", *given], capture_output=True, text=True, check=False
    )


def test_the_command_finds_the_mark_in_the_text_alone(served: Any, tmp_path: Path) -> None:
    specs, key = served
    for mark in ("h1", "off"):
        (tmp_path / "text.txt").write_text(complete(3, mark, max_tokens=96)[0]["text"])
        words = ("detect", "--alpha", "1e-3", "--json", str(tmp_path / "text.txt"))
        found = command(specs, key, tmp_path, *words)
        print(found.stdout)
        assert (json.loads(found.stdout)["verdict"] == "watermarked") == (mark == "h1")


def test_the_command_verifies_the_server(served: Any, tmp_path: Path) -> None:
    specs, key = served
    found = command(
        specs, key, tmp_path, "verify", "--endpoint", f"{URL}/v1", "--mark", "h1",
        "--n-tokens", "32", "--alpha", "1e-3", "--texts", str(TEXTS), "--batch", "8",
    )  # fmt: skip
    print(found.stdout, found.stderr)
    assert found.returncode in (0, 1)  # the plug-in's promise is not this model's
    assert "tokens/s marked" in found.stdout
