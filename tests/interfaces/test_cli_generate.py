"""``powermark generate`` on a small random model: what it reads, writes, resumes and refuses."""

import io
import json
import sys
from pathlib import Path

import pytest

from powermark.generation.records import Records
from powermark.models import LanguageModel
from powermark.watermark.keys import PREFIX, save_hash_key
from tests.conftest import Run


@pytest.fixture
def options(
    tiny_folder: Path, tiny_model: LanguageModel, tmp_path: Path, run: Run
) -> tuple[str, ...]:
    key, spec = str(tmp_path / "k.key"), str(tmp_path / "s.json")
    (tmp_path / "k.key").write_text(PREFIX + bytes(range(32)).hex())  # the same texts every time
    (tmp_path / "k.key").chmod(0o600)
    code, _, err = run(
        "spec", "new", spec, "--gamma", ".5", "--delta", "4", "--model", str(tiny_folder)
    )
    assert (code, err) == (0, "")
    del tiny_model
    return (
        "generate", "--model", str(tiny_folder), "--spec", spec, "--key", key, "--n-tokens", "12",
    )  # fmt: skip


def test_one_prompt(run: Run, options: tuple[str, ...]) -> None:
    code, out, err = run(*options, "a b", "--seed", "2")
    assert (code, err) == (0, "")
    assert out.strip()
    assert run(*options, "a b", "--seed", "2")[1] == out
    plain = run(*options, "a b", "--seed", "2", "--no-watermark")[1]
    assert plain != out
    _, text, _ = run(*options, "a b", "--seed", "2", "--json")
    record = json.loads(text)
    assert record["text"] + "\n" == out
    assert (record["prompt_ids"], record["index"], record["seed"]) == ([2, 3], 0, 2)
    assert "<s>" not in out
    assert record["lost_ids"] == record["token_ids"].count(0) == 1  # special tokens are not text
    assert "|spec:" in record["signature"]
    assert run(*options, "a b")[0] in (0, 1)  # a seed of its own; 1 for an empty text


def test_prompts_from_files_and_stdin(
    run: Run, options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "p.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"prompt": "a"}\n\nb c\r\n{"prompt": "d\xe2\x80\xa8e"}\n')
    _, out, _ = run(*options, "--prompts", str(path), "--json")
    assert [json.loads(line)["prompt"] for line in out.splitlines()] == ["a", "b c", "d\u2028e"]
    monkeypatch.setattr("sys.stdin", io.StringIO("d\ne\n"))
    _, out, _ = run(*options, "--prompts", "-", "--record-kl", "--json")
    records = [json.loads(line) for line in out.splitlines()]
    assert [record["prompt"] for record in records] == ["d", "e"]
    assert all(len(record["kl"]) == len(record["token_ids"]) for record in records)


def test_a_stopped_job_is_resumed(run: Run, options: tuple[str, ...], tmp_path: Path) -> None:
    prompts, out = tmp_path / "p.txt", tmp_path / "o.jsonl"
    prompts.write_text("\n".join("abcdefg"))
    job = (*options, "--prompts", str(prompts), "--batch", "2", "-o", str(out))
    assert run(*job, "--seed", "7")[0] == 0
    whole = out.read_bytes()
    lines = whole.splitlines(keepends=True)
    assert len(lines) == 7
    for kept in (b"", b"".join(lines[:3]) + lines[3][:20], b"".join(lines[:6])):
        out.write_bytes(kept)
        # what an interrupted run says of its seed is taken up; an empty file has none to tell
        assert run(*job, *(() if kept else ("--seed", "7")))[0] == 0
        assert out.read_bytes() == whole
    assert "already complete" in run(*job)[2]
    assert out.read_bytes() == whole
    assert "holds no records of these settings" in run(*job, "--seed", "8")[2]
    assert out.read_bytes() == whole
    out.write_text("not ours\n")
    assert "holds no records of these settings" in run(*job)[2]
    out.unlink()
    out.mkdir()
    assert "cannot write" in run(*job, "--seed", "2")[2]
    assert "cannot write" in run(*job)[2]


def test_a_full_disk_keeps_what_is_finished(
    run: Run, options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    code, _, err = run(*options, "a", "-o", str(tmp_path / "o.jsonl"))
    assert code == 2
    assert "No space left on device" in err
    assert "run the command again; finished batches are kept" in err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ((), "give either a prompt or --prompts"),
        (("a", "--prompts", "x"), "give either a prompt or --prompts"),
        (("--prompts", "/none"), "cannot read '/none'"),
        (("a", "--batch", "0"), "--batch must be at least 1"),
        (("a", "--n-tokens", "0"), "--n-tokens must be in"),
        (("a", "--temperature", "-1"), "temperature must be in"),
        (("a", "--temperature", "1e-45"), "temperature must be in"),
        (("a", "--top-k", "-1"), "--top-k must be in"),
        (("a", "--top-p", "2"), "--top-p must be in"),
        (("a", "--top-p", "nan"), "--top-p must be in"),
        (("a", "--seed", "-1"), "--seed must be 0 or more"),
        (("a", "--no-watermark", "--record-kl"), "--record-kl needs a mark"),
        (("a", "--n-tokens", "900"), "may have 64 tokens"),
    ],
)
def test_what_is_refused(
    run: Run, options: tuple[str, ...], change: tuple[str, ...], message: str
) -> None:
    code, out, err = run(*options, *change)
    assert (code, out) == (2, "")
    assert message in err


def test_wrong_prompt_files_and_missing_specs(
    run: Run, options: tuple[str, ...], tmp_path: Path
) -> None:
    path = tmp_path / "p.txt"
    for content, message in (
        (b"\n \n", "contains no prompts"),
        (b"\xff\xfe", "is not UTF-8"),
        (b'ok\n{"other": "x"}\n', 'line 2 has no "prompt", "messages" or "text"'),
        (b"ok\n{broken\n", 'line 2 starts with "{" but is not valid JSON'),
        (b'{"prompt": "\\ud800"}\n', "characters that are not Unicode"),
    ):
        path.write_bytes(content)
        assert message in run(*options, "--prompts", str(path))[2]
    assert "marked text needs --spec" in run("generate", "a")[2]


def test_a_spec_of_another_tokenizer(run: Run, options: tuple[str, ...], tmp_path: Path) -> None:
    other = str(tmp_path / "other.json")
    run("spec", "new", other, "--gamma", ".5", "--delta", "4", "--vocab-size", "9")
    assert "vocabulary of 9; the tokenizer has 8" in run(*options, "a", "--spec", other)[2]
    small = ("spec", "new", other, "--gamma", ".5", "--delta", "4", "--vocab-size", "7")
    assert "--vocab-size must be 8" in run(*small, "--model", options[2])[2]
    wide = ("--scheme", "hf-lefthash", "--model", options[2])
    assert "--vocab-size must be at least 8" in run(*small, *wide)[2]
    assert "needs --vocab-size" in run(*small[:-2], *wide)[2]
    assert run(*small[:-1], "10", *wide)[0] == 0


@pytest.mark.parametrize(
    "content",
    [
        b'{"precious": 1}',
        b"notes",
        b'{"index": 1, "prompt": "a"',
        b'{"seed": Infinity}\n',
        b'{"index": 0, "signature": "other"}\n',
    ],
)
def test_other_files_are_not_changed(
    run: Run, options: tuple[str, ...], tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "o.jsonl"
    path.write_bytes(content)
    code, _, err = run(*options, "a", "-o", str(path))
    assert code == 2
    assert "it was not changed" in err
    assert path.read_bytes() == content


def test_a_missing_record_is_noticed(run: Run, options: tuple[str, ...], tmp_path: Path) -> None:
    prompts, out = tmp_path / "p.txt", tmp_path / "o.jsonl"
    prompts.write_text("a\nb\nc\nd")
    job = (*options, "--prompts", str(prompts), "--batch", "1", "--seed", "2", "-o", str(out))
    assert run(*job)[0] == 0
    lines = out.read_text().splitlines(keepends=True)
    out.write_text("".join([lines[0], *lines[2:]]))
    assert "it was not changed" in run(*job)[2]


def test_two_runs_do_not_share_a_file(run: Run, options: tuple[str, ...], tmp_path: Path) -> None:
    out = tmp_path / "o.jsonl"
    with Records(out, "x", 1, 1):
        assert "another process is writing" in run(*options, "a", "-o", str(out))[2]
    assert run(*options, "a", "-o", str(out), "--seed", "2")[0] == 0


def test_records_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)  # as on Windows
    with Records(tmp_path / "o.jsonl", "x", 1, 1) as one, Records(tmp_path / "o.jsonl", "x", 1, 1):
        assert one.done == 0


def test_neighbouring_seeds_and_batches_share_nothing(
    run: Run, options: tuple[str, ...], tmp_path: Path
) -> None:
    prompts = tmp_path / "p.txt"
    prompts.write_text("a\na\na\na")
    job = (*options, "--prompts", str(prompts), "--batch", "1", "--no-watermark", "--json",
           "--temperature", ".8")  # fmt: skip
    one, two = (
        [json.loads(line)["text"] for line in run(*job, "--seed", seed)[1].splitlines()]
        for seed in ("1", "2")
    )
    assert one[1:] != two[:-1]
    assert len(set(one)) == len(set(two)) == 4


def test_another_tools_secret_key_cannot_be_resumed(
    run: Run, options: tuple[str, ...], tmp_path: Path
) -> None:
    spec, key, prompts = tmp_path / "hf.json", tmp_path / "hf.key", tmp_path / "p.txt"
    save_hash_key(key, 77)
    prompts.write_text("a\nb")
    run("spec", "new", str(spec), "--scheme", "hf-lefthash", "--gamma", ".5", "--delta", "2",
        "--vocab-size", "10")  # fmt: skip
    job = (*options, "--spec", str(spec), "--key", str(key), "--prompts", str(prompts))
    job += ("--batch", "1", "--seed", "2", "-o", str(tmp_path / "o.jsonl"))
    assert run(*job)[0] == 0
    lines = (tmp_path / "o.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "o.jsonl").write_text(lines[0])
    assert "it does not show that its hash key was this one" in run(*job)[2]


def test_a_plans_settings_are_kept_to(run: Run, options: tuple[str, ...], tmp_path: Path) -> None:
    """A plan made with a profile says at which settings it holds; other settings get a note."""
    profile, spec = str(tmp_path / "p.npz"), str(tmp_path / "planned.json")
    model = options[1:3]
    cool = ("--texts", "12", "--n-tokens", "12", "--temperature", ".9", "--top-k", "6")
    assert run("profile", *model, "-o", profile, *cool)[0] == 0
    request = ("--n-tokens", "12", "--alpha", ".2", "--power", ".4", "--profile", profile)
    code, _, err = run("plan", *request, *model, "-o", spec)
    assert code == 0, err
    planned = (*options, "--spec", spec, "a b", "--seed", "2", "--json")
    _, out, err = run(*planned)
    assert err == ""
    assert "|temperature:0.9|top_k:6|" in json.loads(out)["signature"]
    _, out, err = run(*planned, "--temperature", "1")
    assert "the plan is for temperature 0.9; at 1 its promises do not hold" in err
    assert "|temperature:1|top_k:6|" in json.loads(out)["signature"]
