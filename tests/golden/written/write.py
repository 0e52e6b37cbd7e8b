"""Write the files of this folder with the ``powermark`` on PATH: ``python -m ... FOLDER``.

Run once, by the commit that README.md names. Only the command line is used, so that the same script
runs on any layout of the code. Three jobs are killed with SIGKILL on the way.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from proof.tiny_model import save_tiny_model

WORDS = 200
STAMP = 1_700_000_000  # modification time of the corpus: a resumed scan checks it
BLANKS = 1_000_000  # characters of a document: two fill a batch, 128 a partition
KEY = ("--key", "public.key")
MODEL = ("--model", "model")
SCAN = (
    *("scan", "--spec", "plain.json", *KEY, *MODEL, "--id-field", "id", "--workers", "1"),
    *("corpus.jsonl.zst", "--json"),
)
PROFILE = (
    *("profile", *MODEL, "--prompts", "prompts.txt", "--texts", "12", "--n-tokens", "30"),
    *("--batch", "4", "--seed", "3", "--json"),
)
VERIFY = (
    *("verify", "--spec", "plain.json", *KEY, *MODEL, "--prompts", "prompts.txt"),
    *("--texts", "6", "--batch", "2", "--seed", "4", "--json"),
)
PLANS = {
    "plain": ("--n-tokens", "40", "--alpha", ".01", "--power", ".9", "--edit-rate", ".02"),
    "steered": (
        *("--n-tokens", "30", "--alpha", ".05", "--power", ".9", "--profile", "profile.npz"),
        *("--steer", "--checkpoint", "25"),
    ),
    "winmax-c": (
        *("--n-tokens", "60", "--alpha", ".01", "--power", ".9", "--removal", ".2"),
        *("--detector", "winmax-c"),
    ),
    "evalue": ("--n-tokens", "60", "--alpha", ".01", "--power", ".9", "--detector", "evalue"),
}
DETECTIONS = {
    "plain": ("--spec", "plain.json", *KEY, "texts/plain.txt"),
    "unmarked": ("--spec", "plain.json", *KEY, "texts/unmarked.txt"),
    "steered": ("--spec", "steered.json", *KEY, "texts/steered.txt"),
    "winmax-c": ("--spec", "winmax-c.json", *KEY, "texts/long.txt"),
    "winmax": ("--spec", "winmax-c.json", *KEY, "--detector", "winmax", "texts/long.txt"),
    "evalue": ("--spec", "evalue.json", *KEY, "texts/evalue.txt"),
    "by-hand": ("--spec", "by-hand.json", "--alpha", ".01", "texts/unmarked.txt"),
}
POWER = (
    *("power", "--profile", "profile.npz", "--gamma", ".4", "--delta", "1.5"),
    *("--n-tokens", "40", "--alpha", ".01", "--edit-rate", ".05", "--json"),
)


def main(folder: Path, commit: str) -> None:
    folder.mkdir()
    os.chdir(folder)
    words = ["<s>", "</s>", *(f"w{i}" for i in range(2, WORDS))]
    save_tiny_model(
        Path("model"), words, seed=1, vocab_size=WORDS, max_position_embeddings=4096,
        eos_token_id=None, initializer_range=1.0,
    )  # fmt: skip
    Path("prompts.txt").write_text("".join(f"w{i} w{i + 1} w{i + 2}\n" for i in range(2, 40)))
    run("key", "new", "public.key")
    cut(("-o", "cut.npz"), PROFILE, lambda: Path("cut.npz.part").exists())
    found: dict[str, Any] = {"commit": commit, "version": run("--version").split()[1]}
    found["profile"] = json.loads(run(*PROFILE, "-o", "profile.npz"))
    for name, request in PLANS.items():
        run("plan", *request, *MODEL, *KEY, "-o", f"{name}.json")
    by_hand = ("--gamma", ".25", "--delta", "2", "--scheme", "kgw-lefthash")
    run("spec", "new", "by-hand.json", *by_hand, *MODEL)
    found["plans"] = {
        name: json.loads(run("plan", *request, "--json")) for name, request in PLANS.items()
    }
    found["power"] = json.loads(run(*POWER))
    cut(("-o", "cut.jsonl"), VERIFY, lambda: lines("cut.jsonl") >= 8)
    with Path("cut.jsonl").open("r+b") as stream:  # in the middle of a line
        stream.truncate(stream.seek(0, os.SEEK_END) - 900)
    found["verify"] = json.loads(run(*VERIFY, "-o", "verified.jsonl"))
    write_texts()
    os.environ["POWERMARK_CACHE"] = "tables"
    found["detections"] = {
        name: json.loads(run("detect", *asked, *MODEL, "--json"))
        for name, asked in DETECTIONS.items()
    }
    write_corpus()
    run(*SCAN, "-o", "scanned")
    for sketches in Path("scanned").glob("sketches-*"):
        sketches.unlink()  # large, and not part of the result
    cut_scan()
    Path("written.json").write_text(json.dumps(found, indent=1) + "\n")
    shutil.rmtree(".cache", ignore_errors=True)


def run(*command: str) -> str:
    found = subprocess.run(["powermark", *command], capture_output=True, text=True, check=False)
    if found.returncode not in (0, 1, 3):
        raise SystemExit(f"{command}: {found.stderr}")
    return found.stdout


def write_texts() -> None:
    Path("texts").mkdir()
    for name, spec, tokens in (
        ("plain", "plain", "60"), ("steered", "steered", "60"), ("evalue", "evalue", "90"),
        ("long", "winmax-c", "1000"), ("unmarked", "", "60"),
    ):  # fmt: skip
        how = ("--spec", f"{spec}.json", *KEY) if spec else ("--no-watermark",)
        text = run("generate", *how, *MODEL, "--n-tokens", tokens, "--seed", "5", "w9 w8 w7")
        Path(f"texts/{name}.txt").write_text(text)


def write_corpus() -> None:
    """170 documents of 20 to 50 words, eight marked and five copied, each padded with blanks."""
    with Path("marked.txt").open("w") as stream:
        stream.writelines(f"w{i} w{i + 5}\n" for i in range(50, 58))
    asked = ("--spec", "plain.json", *KEY, *MODEL, "--n-tokens", "60", "--seed", "6", "--json")
    marked = [json.loads(line)["text"] for line in
              run("generate", *asked, "--prompts", "marked.txt").splitlines()]  # fmt: skip
    rng = random.Random(7)
    plain = [" ".join(f"w{rng.randrange(2, WORDS)}" for _ in range(rng.randrange(20, 50)))
             for _ in range(157)]  # fmt: skip
    texts = plain[:40] + marked[:5] + plain[40:] + plain[:5] + marked[5:]
    rows = [json.dumps({"id": f"d{i}", "text": text.ljust(BLANKS)}) for i, text in enumerate(texts)]
    rows.insert(30, '{"id": "no text"}')
    with pa.OSFile("corpus.jsonl.zst", "wb") as file, pa.CompressedOutputStream(file, "zstd") as to:
        for row in rows:
            to.write(f"{row}\n".encode())
    os.utime("corpus.jsonl.zst", (STAMP, STAMP))


def lines(name: str) -> int:
    return Path(name).read_bytes().count(b"\n") if Path(name).exists() else 0


def cut(output: tuple[str, str], command: tuple[str, ...], ready: Callable[[], bool]) -> None:
    """Kill a job once its first batch is written."""
    job = subprocess.Popen(["powermark", *command, *output], stdout=subprocess.DEVNULL)
    while not ready():
        time.sleep(0.001)
    kill(job)
    if Path(output[1]).suffix == ".npz" and Path(output[1]).exists():
        raise SystemExit(f"{output[1]} was finished before it could be cut")


def cut_scan() -> None:
    """Stop a scan in its second partition until its batches are old enough to be kept; kill it."""
    job = subprocess.Popen(["powermark", *SCAN, "-o", "cut-scan"], stdout=subprocess.DEVNULL)
    while not list(Path("cut-scan").glob("part-*")):
        time.sleep(0.001)
    time.sleep(0.1)
    job.send_signal(signal.SIGSTOP)
    time.sleep(6)
    job.send_signal(signal.SIGCONT)
    while not list(Path("cut-scan").glob("kept-*")):
        time.sleep(0.001)
    kill(job)
    if Path("cut-scan/summary.json").exists():
        raise SystemExit("the scan was finished before it could be cut")


def kill(job: subprocess.Popen[bytes]) -> None:
    job.kill()
    job.wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), sys.argv[2])
