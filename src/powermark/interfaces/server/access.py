"""Access tokens: a file of names, scopes and digests, compared in constant time; rate limits.

The scope ``detect`` gives a verdict and rounded evidence. ``inspect`` gives every token's colour
and the exact p-value. That helps to remove a mark, so give it only to people who must explain a
verdict. The file holds digests, not tokens.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from powermark.errors import FileProblem, InvalidInput
from powermark.files import holds_key

Scope = Literal["detect", "inspect"]
_LINE = "a line is: name scope digest"


@dataclass(frozen=True, slots=True)
class Client:
    """A client and its scope."""

    name: str
    scope: Scope

    @property
    def inspects(self) -> bool:
        """Whether the client may get token-level answers."""
        return self.scope == "inspect"


LOCAL = Client("local", "inspect")  # on loopback without tokens: any user of this machine
_PROXIED = ("forwarded", "via", "x-forwarded", "x-real-ip")


def is_forwarded(header_names: Iterable[str]) -> bool:
    """Whether a proxy forwarded the request, so that its client may be anywhere."""
    return any(name.lower().startswith(_PROXIED) for name in header_names)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server at this address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Tokens:
    """The access tokens of all clients."""

    def __init__(self, entries: list[tuple[Client, bytes]]) -> None:
        self._entries = entries

    @classmethod
    def load(cls, path: Path) -> Tokens:
        """Read a file of tokens."""
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            raise FileProblem(
                f"cannot read the tokens in {str(path)!r}.",
                hint="make one with `powermark token FILE NAME`.",
            ) from None
        entries = []
        for number, line in enumerate(lines, 1):
            try:
                name, scope, digest = line.split()
                secret = bytes.fromhex(digest)
            except ValueError:
                scope, secret = "", b""
            if scope not in get_args(Scope) or len(secret) != 32:
                raise FileProblem(f"line {number} of {str(path)!r} is not a token.", hint=_LINE)
            entries.append((Client(name, scope), secret))  # type: ignore[arg-type]
        if not entries:
            raise FileProblem(f"there is no token in {str(path)!r}.", hint=_LINE)
        return cls(entries)

    def client(self, presented: str) -> Client | None:
        """Return the client of a token; compare all tokens, so that timing reveals nothing."""
        digest, found = _digest(presented), None
        for client, known in self._entries:
            if hmac.compare_digest(known, digest):
                found = client
        return found


def new_token(path: Path, name: str, scope: str) -> str:
    """Add a token to a file that only its owner can read; return it, as it cannot be read again."""
    if not (name.isascii() and name.isidentifier()) or scope not in get_args(Scope):
        raise InvalidInput(
            f"a token needs a name of ASCII letters and digits and a scope of {get_args(Scope)}; "
            f"got {name!r} and {scope!r}."
        )
    if holds_key(path):
        raise FileProblem(f"{str(path)!r} holds a key.", hint="choose another name.")
    before = _tokens_in(path)
    token = secrets.token_urlsafe(32)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(handle, "w", encoding="ascii") as stream:
            gap = "" if before.endswith("\n") or not before else "\n"
            stream.write(f"{gap}{name} {scope} {_digest(token).hex()}\n")
    except OSError as error:
        raise FileProblem(f"cannot write {str(path)!r}: {error.strerror}.") from None
    return token


def _tokens_in(path: Path) -> str:
    """Return the content of a file of tokens; refuse to append to any other file."""
    if not path.is_file() or path.stat().st_size == 0:
        return ""
    try:
        Tokens.load(path)
    except FileProblem:
        raise FileProblem(
            f"{str(path)!r} is not a file of tokens.",
            hint="choose another name.",
        ) from None
    return path.read_text(encoding="utf-8")


def _digest(token: str) -> bytes:
    """Return the SHA-256 digest; 256 random bits need no slow hash."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


class Rates:
    """A token bucket for each client: ``rate`` texts a second, twice as many at once.

    Every text of a batch counts. A batch may start when one text may, and may overdraw the bucket:
    the next request waits until it is refilled.
    """

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._clock = rate, clock
        self._buckets: dict[str, tuple[float, float]] = {}

    def charge(self, client: Client, texts: int = 1) -> float:
        """Take texts from the client's bucket; if it is empty, return the seconds to wait."""
        now, most = self._clock(), max(1.0, 2.0 * self._rate)
        level, since = self._buckets.get(client.name, (most, now))
        level = min(most, level + (now - since) * self._rate)
        allowed = level >= 1.0
        self._buckets[client.name] = (level - texts if allowed else level, now)
        return 0.0 if allowed else (1.0 - level) / self._rate
