"""Secret keys: made by the operating system, kept in a file of mode 0600 or in the environment.

A key never appears in a repr, an error, a log or a spec; its fingerprint, a keyed digest, may.
Everything a scheme needs is derived from the 32 secret bytes by BLAKE2b with a purpose of its own.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
import stat
from hashlib import blake2b
from pathlib import Path

from powermark.errors import FileProblem, InvalidInput
from powermark.files import read_file

KEY_BYTES = 32
PREFIX = "powermark-key-1:"  # kind and format version, before 64 hexadecimal digits
HASH_PREFIX = "powermark-hash-key-1:"  # before a whole number
_KEY = re.compile(r"powermark-(hash-)?key-\d+:")  # of any kind and version
_LARGEST = 2**16  # bytes of a file that is read as a key
ENVIRONMENT = "POWERMARK_KEY"
PUBLIC_HASH_KEY = 15_485_863  # the millionth prime, default of lm-watermarking and transformers
HASH_KEY_LIMIT = 2**43  # key times token id stays within 63 bits
_HOW_TO_MAKE = "make one with `powermark key new FILE`"


class SecretKey:
    """32 secret bytes that print as their fingerprint and compare in constant time."""

    __slots__ = ("_secret",)

    def __init__(self, secret: bytes) -> None:
        if len(secret) != KEY_BYTES:
            raise InvalidInput(f"a key must be {KEY_BYTES} bytes long; got {len(secret)}.")
        self._secret = bytes(secret)

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits that identify the key and tell nothing else about it."""
        return self.derive(b"fingerprint", 8).hex()

    @property
    def siphash_key(self) -> tuple[int, int]:
        """The two 64-bit halves that scheme ``pm1`` keys SipHash with."""
        material = self.derive(b"pm1", 16)
        return int.from_bytes(material[:8], "little"), int.from_bytes(material[8:], "little")

    def derive(self, purpose: bytes, size: int) -> bytes:
        """Return ``size`` bytes for one purpose; different purposes share nothing."""
        return blake2b(key=self._secret, person=purpose, digest_size=size).digest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SecretKey) and hmac.compare_digest(self._secret, other._secret)

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return f"SecretKey(fingerprint={self.fingerprint!r})"

    def __reduce__(self) -> str:
        raise InvalidInput(
            "a secret key is not pickled, so that it cannot reach a file or a log by accident.",
            hint="load it where it is needed, from its file or from the environment.",
        )


class HashKey:
    """The whole number that seeds another tool's green lists; prints as nothing but its kind.

    The lists of lm-watermarking and transformers see at most 32 bits of it, and both ship the same
    public default. So it has no fingerprint: a digest would give the number away.
    """

    __slots__ = ("value",)

    def __init__(self, value: int = PUBLIC_HASH_KEY) -> None:
        if type(value) is not int or not 0 < value < HASH_KEY_LIMIT:
            raise InvalidInput("a hash key must be a whole number from 1 to 2^43 - 1.")
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HashKey) and self.value == other.value

    def __hash__(self) -> int:
        return hash(HashKey)

    def __repr__(self) -> str:
        return f"HashKey({'public' if self.value == PUBLIC_HASH_KEY else 'secret'})"

    __reduce__ = SecretKey.__reduce__


def new_key(path: str | Path) -> SecretKey:
    """Make a key and write it to a new file that only its owner can read; never overwrites."""
    secret = secrets.token_bytes(KEY_BYTES)
    _write(path, PREFIX + secret.hex())
    return SecretKey(secret)


def save_hash_key(path: str | Path, value: int) -> HashKey:
    """Write another tool's hash key to a new file that only its owner can read."""
    key = HashKey(value)
    _write(path, f"{HASH_PREFIX}{value}")
    return key


def load_key(path: str | Path | None = None) -> SecretKey:
    """Return the key in a file, or without one the key in the environment (POWERMARK_KEY)."""
    found = _read(path)
    if found is None:
        raise FileProblem(
            f"no key: neither a key file nor the environment variable {ENVIRONMENT}.",
            hint=_HOW_TO_MAKE,
        )
    digits, source = _digits(found, PREFIX, "a powermark key", _HOW_TO_MAKE)
    try:
        secret = bytes.fromhex(digits)
    except ValueError:
        secret = b""
    if len(secret) != KEY_BYTES:
        raise FileProblem(
            f"{source} is damaged: a key has {2 * KEY_BYTES} hexadecimal digits.",
            hint="restore it from a backup; a key cannot be made again.",
        )
    return SecretKey(secret)


def load_hash_key(path: str | Path | None = None) -> HashKey:
    """Return another tool's hash key from a file or the environment; without either, the public."""
    found = _read(path)
    if found is None:
        return HashKey()
    how = "keep it with `powermark key import FILE`"
    digits, source = _digits(found, HASH_PREFIX, "another tool's hash key", how)
    try:
        return HashKey(int(digits))
    except ValueError:
        raise FileProblem(
            f"{source} is damaged: a hash key is a whole number from 1 to 2^43 - 1.", hint=how
        ) from None


def refuse_key(text: str, source: str) -> None:
    """Refuse a key file where a text or prompts are expected: they would be shown."""
    if _KEY.match(text.lstrip()):
        raise FileProblem(
            f"{source} is a key file, not a text.", hint="a key is given with --key, and not shown."
        )


def holds_a_key(text: str) -> bool:
    """Whether a text contains the prefix of a key file."""
    return _KEY.search(text) is not None


def load_ring(folder: str | Path) -> dict[str, SecretKey]:
    """Return the keys of a folder by name: ``2026-11.key`` is the key ``2026-11``."""
    _refuse_secret(folder)
    files = sorted(Path(folder).glob("*.key"))
    if not files:
        raise FileProblem(f"no file named *.key in {str(folder)!r}.", hint=_HOW_TO_MAKE)
    return {file.stem: load_key(file) for file in files}


def _refuse_secret(path: str | Path) -> None:
    """Refuse a key where the name of its file is expected, before a message can show it."""
    if holds_a_key(str(path)):
        raise FileProblem(
            "a key was given where the name of a key file belongs.",
            hint=f"keep it in a file, or in the environment variable {ENVIRONMENT}.",
        )


def _write(path: str | Path, text: str) -> None:
    _refuse_secret(path)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise FileProblem(
            f"{str(path)!r} exists already and is left alone.",
            hint="a lost key cannot be made again; choose another name.",
        ) from None
    except OSError as error:
        raise FileProblem(f"cannot write {str(path)!r}: {error.strerror}.") from None
    try:
        with os.fdopen(handle, "w", encoding="ascii") as stream:
            stream.write(f"{text}\n")
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        Path(path).unlink(missing_ok=True)
        raise FileProblem(f"cannot write {str(path)!r}: {error.strerror}.") from None


def _read(path: str | Path | None) -> tuple[str, str] | None:
    """Return a key's text and where it was, from a private file or the environment."""
    if path is None:
        text = os.environ.get(ENVIRONMENT)
        return None if text is None else (text, f"the environment variable {ENVIRONMENT}")
    _refuse_secret(path)
    try:
        mode = Path(path).stat().st_mode
        text = read_file(path, _LARGEST).decode()
    except FileProblem:
        raise
    except OSError as error:
        raise FileProblem(
            f"cannot read the key file {str(path)!r}: {error.strerror}.", hint=_HOW_TO_MAKE
        ) from None
    except UnicodeDecodeError:
        text = ""
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise FileProblem(
            f"the key file {str(path)!r} can be read by others (mode {stat.S_IMODE(mode):04o}).",
            hint=f"chmod 600 {path}, and make a new key if someone may have read it.",
        )
    return text, f"the key file {str(path)!r}"


def _digits(found: tuple[str, str], prefix: str, kind: str, hint: str) -> tuple[str, str]:
    """Return the digits after the prefix; errors name the source, never its content."""
    text, source = found
    if not text.strip().startswith(prefix):
        raise FileProblem(f"{source} does not hold {kind}.", hint=hint)
    return text.strip().removeprefix(prefix), source
