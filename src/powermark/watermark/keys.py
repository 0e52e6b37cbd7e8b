"""Secret keys: made by the operating system, kept in a file of mode 0600 or in the environment.

A key never appears in a repr, an error, a log or a spec; its fingerprint, a keyed digest, may.
Everything a scheme needs is derived from the 32 secret bytes by BLAKE2b with a purpose of its own.
"""

from __future__ import annotations

import hmac
import os
import secrets
import stat
from hashlib import blake2b
from pathlib import Path

from powermark.errors import FileProblem, InvalidInput

KEY_BYTES = 32
PREFIX = "powermark-key-1:"  # kind and format version, before 64 hexadecimal digits
ENVIRONMENT = "POWERMARK_KEY"
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


def new_key(path: Path) -> SecretKey:
    """Make a key and write it to a new file that only its owner can read; never overwrites."""
    secret = secrets.token_bytes(KEY_BYTES)
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
            stream.write(f"{PREFIX}{secret.hex()}\n")
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        path.unlink(missing_ok=True)
        raise FileProblem(f"cannot write {str(path)!r}: {error.strerror}.") from None
    return SecretKey(secret)


def load_key(path: Path | None = None) -> SecretKey:
    """Return the key in a file, or without one the key in the environment (POWERMARK_KEY)."""
    if path is None:
        text = os.environ.get(ENVIRONMENT)
        if text is None:
            raise FileProblem(
                f"no key: neither a key file nor the environment variable {ENVIRONMENT}.",
                hint=_HOW_TO_MAKE,
            )
        return _parse(text, f"the environment variable {ENVIRONMENT}")
    try:
        mode = path.stat().st_mode
        text = path.read_text(encoding="utf-8")
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
    return _parse(text, f"the key file {str(path)!r}")


def load_ring(folder: Path) -> dict[str, SecretKey]:
    """Return the keys of a folder by name: ``2026-11.key`` is the key ``2026-11``."""
    files = sorted(folder.glob("*.key"))
    if not files:
        raise FileProblem(f"no file named *.key in {str(folder)!r}.", hint=_HOW_TO_MAKE)
    return {file.stem: load_key(file) for file in files}


def _parse(text: str, source: str) -> SecretKey:
    """Read a key's text; an error names the source, never what it holds."""
    digits = text.strip().removeprefix(PREFIX)
    if not text.strip().startswith(PREFIX):
        raise FileProblem(f"{source} does not hold a powermark key.", hint=_HOW_TO_MAKE)
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
