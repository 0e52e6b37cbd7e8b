import copy
import json
import pickle
from pathlib import Path

import pytest

from powermark.errors import FileProblem, InvalidInput
from powermark.watermark.keys import (
    ENVIRONMENT,
    HASH_PREFIX,
    PREFIX,
    PUBLIC_HASH_KEY,
    HashKey,
    SecretKey,
    load_hash_key,
    load_key,
    load_ring,
    new_key,
    save_hash_key,
)

SECRET = bytes(range(32))


def test_a_new_key_is_private_and_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "k.key"
    key = new_key(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert load_key(path) == key
    assert new_key(tmp_path / "other.key") != key
    assert len({key, load_key(path)}) == 1
    assert load_key(str(path)) == load_ring(str(tmp_path))["k"] == key


def test_an_existing_file_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "k.key"
    new_key(path)
    before = path.read_bytes()
    with pytest.raises(FileProblem, match="exists already and is left alone"):
        new_key(path)
    assert path.read_bytes() == before


def test_the_secret_shows_nowhere(tmp_path: Path) -> None:
    key = SecretKey(SECRET)
    shown = f"{key!r} {key} {key.fingerprint} {json.dumps(str(key))}"
    path = tmp_path / "k.key"
    for text in (f"{PREFIX}{SECRET.hex()[:-1]}", f"{PREFIX}{SECRET.hex()}zz", SECRET.hex()):
        path.write_text(text)
        path.chmod(0o600)
        with pytest.raises(FileProblem) as caught:
            load_key(path)
        shown += str(caught.value) + str(caught.value.hint)
    for part in (SECRET.hex()[:8], SECRET.hex()[16:24], SECRET.hex()[-8:]):
        assert part not in shown


def test_a_key_is_not_pickled_by_accident() -> None:
    key = SecretKey(SECRET)
    with pytest.raises(InvalidInput, match="not pickled"):
        pickle.dumps(key)
    with pytest.raises(InvalidInput, match="not pickled"):
        copy.deepcopy(key)


def test_purposes_share_nothing() -> None:
    key = SecretKey(SECRET)
    assert key.derive(b"a", 16) != key.derive(b"b", 16)
    assert key.fingerprint not in f"{key.siphash_key[0]:x}{key.siphash_key[1]:x}"
    assert key != "a string"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_a_key_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "k.key"
    new_key(path)
    path.chmod(mode)
    with pytest.raises(FileProblem, match=rf"can be read by others \(mode {mode:04o}\)"):
        load_key(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "does not hold a powermark key"),
        (b"\xff\xfe\x00", "does not hold a powermark key"),
        (PREFIX.encode() + b"00" * 31, "is damaged"),
        (PREFIX.encode() + b"xy" * 32, "is damaged"),
    ],
)
def test_broken_key_files(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "k.key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(FileProblem, match=message):
        load_key(path)


def test_missing_files_and_folders(tmp_path: Path) -> None:
    with pytest.raises(FileProblem, match="cannot read the key file"):
        load_key(tmp_path / "nowhere.key")
    with pytest.raises(FileProblem, match="cannot write"):
        new_key(tmp_path / "nowhere" / "k.key")


def test_a_full_disk_leaves_no_half_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(FileProblem, match="No space left on device"):
        new_key(tmp_path / "k.key")
    assert list(tmp_path.iterdir()) == []


def test_the_environment_holds_a_key_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENVIRONMENT, raising=False)
    with pytest.raises(FileProblem, match=f"nor the environment variable {ENVIRONMENT}"):
        load_key()
    monkeypatch.setenv(ENVIRONMENT, f"{PREFIX}{SECRET.hex()}")
    assert load_key() == SecretKey(SECRET)
    monkeypatch.setenv(ENVIRONMENT, SECRET.hex())
    with pytest.raises(FileProblem, match=f"environment variable {ENVIRONMENT} does not hold"):
        load_key()


def test_a_ring_is_a_folder_of_keys(tmp_path: Path) -> None:
    with pytest.raises(FileProblem, match=r"no file named \*.key"):
        load_ring(tmp_path)
    keys = {name: new_key(tmp_path / f"{name}.key") for name in ("2026-11", "2026-10")}
    assert load_ring(tmp_path) == keys


def test_a_key_has_32_bytes() -> None:
    with pytest.raises(InvalidInput, match="32 bytes long; got 16"):
        SecretKey(b"0" * 16)


def test_another_tools_key_is_kept_as_carefully(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(ENVIRONMENT, raising=False)
    assert load_hash_key() == HashKey(PUBLIC_HASH_KEY)
    path = tmp_path / "kgw.key"
    key = save_hash_key(path, 987_654_321)
    assert path.stat().st_mode & 0o777 == 0o600
    assert load_hash_key(path) == key != HashKey()
    assert len({key, load_hash_key(path)}) == 1
    assert (repr(key), repr(HashKey())) == ("HashKey(secret)", "HashKey(public)")
    with pytest.raises(InvalidInput, match="not pickled"):
        pickle.dumps(key)
    with pytest.raises(FileProblem, match="does not hold a powermark key"):
        load_key(path)
    with pytest.raises(FileProblem, match="exists already"):
        save_hash_key(path, 5)
    monkeypatch.setenv(ENVIRONMENT, f"{HASH_PREFIX}77")
    assert load_hash_key() == HashKey(77)


@pytest.mark.parametrize("text", ["12a", "0", "-4", str(2**43), ""])
def test_wrong_hash_keys(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kgw.key"
    path.write_text(HASH_PREFIX + text)
    path.chmod(0o600)
    with pytest.raises(FileProblem, match="is damaged") as caught:
        load_hash_key(path)
    assert "12a" not in str(caught.value).replace(str(path), "")


@pytest.mark.parametrize("value", [0, 2**43, True, 1.5])
def test_hash_keys_are_whole_numbers(value: int) -> None:
    with pytest.raises(InvalidInput, match="from 1 to 2\\^43 - 1"):
        HashKey(value)


def test_a_key_given_for_a_file_s_name_is_not_shown(tmp_path: Path) -> None:
    for key in (PREFIX + "ab" * 32, HASH_PREFIX + "77"):
        for take in (load_key, load_hash_key, load_ring, new_key):
            for name in (key, str(tmp_path / key)):
                with pytest.raises(FileProblem, match="a key was given where") as caught:
                    take(name)
                assert key[-4:] not in f"{caught.value} {caught.value.hint}"


def test_a_file_that_is_too_large_is_no_key(tmp_path: Path) -> None:
    path = tmp_path / "k.key"
    path.touch(0o600)
    path.write_bytes(b" " * 70_000)
    with pytest.raises(FileProblem, match="has more than 65536 bytes"):
        load_key(path)
