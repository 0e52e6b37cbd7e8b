"""``WatermarkSpec``: what embedding and detection share, as frozen and versioned JSON.

Everything a user can do, a spec plus a key can repeat. The key is never in it, only a fingerprint
that tells keys apart. A digest over all fields makes a changed spec known when it is read.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, Self, get_args

import numpy as np

from powermark.checks import count, in_interval, logit_bias, open_unit
from powermark.errors import FileProblem, InvalidInput, SpecCorrupt, SpecMismatch, SpecTooNew
from powermark.files import read_file, write_file
from powermark.planning.design import Design
from powermark.planning.plan import Plan
from powermark.planning.request import Detector as DetectorName
from powermark.steering.schedule import Schedule
from powermark.theory.green_rate import gamma_prime
from powermark.watermark.compat import COMPAT_SCHEMES
from powermark.watermark.keys import HashKey, SecretKey

FORMAT, VERSION = "powermark-spec", 3
STEERED = 2  # the first version that knows schedules; without one, version 1 is written
GROUPED = 3  # the first version whose schedules know groups of texts and skipped tokens
SCHEMES = ("pm1", *COMPAT_SCHEMES)
MAX_CONTEXT = 64  # as many as SGLang's; more would only make marks more fragile
MAX_VOCABULARY = 2**24  # sixty times the largest in use
Place = Literal["before_temperature", "after_temperature"]
_LARGEST = 2**24  # bytes of a spec; one that is steered over 2,000 tokens has a third of that
_REMAKE = "make it anew with `powermark plan -o FILE` or `powermark spec new FILE`"

# Encoded to tell tokenizers apart that share a vocabulary but not their merges or normalisation.
PROBE = (
    "The quick  brown fox\tdidn't pay 1234567890 for 3.14 pies;\n\n it's café, naïve, Straße, "
    "Ελλάδα, мир, 中文, 日本語, عربي, हिन्दी 🙂👩\u200d💻 <b>x</b> f(x)=__init__  \u00a0end "
)


@dataclass(frozen=True, kw_only=True)
class WatermarkSpec:
    """One watermark: its scheme and strength, the tokens it is for, and where it came from.

    Parameters
    ----------
    scheme
        ``"pm1"``, or the scheme of another tool.
    gamma, delta
        Green share and logit bias.
    context_width
        Token ids before a token that choose its green list.
    vocab_size
        Number of token ids that have a colour; logits may be wider.
    tokenizer_digest
        What :func:`tokenizer_digest` says of the tokenizer; None ties the spec to none.
    delta_place
        Where in sampling delta is meant. ``"after_temperature"`` is what plans compute with.
    key_fingerprint
        Of the one key this spec goes with; None allows any.
    design
        The plan it came from as JSON, which the digest is over; ``plan`` is the plan itself. None
        for a mark chosen by hand.
    steering
        A schedule of biases, as its ``to_dict()``; None for a constant one. ``delta`` is then the
        largest.
    """

    scheme: str = "pm1"
    gamma: float
    delta: float
    context_width: int
    vocab_size: int
    tokenizer_digest: str | None = None
    delta_place: Place = "after_temperature"
    key_fingerprint: str | None = None
    design: dict[str, Any] | None = None
    steering: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.scheme not in SCHEMES:
            raise InvalidInput(f"scheme must be one of {', '.join(SCHEMES)}; got {self.scheme!r}.")
        if self.delta_place not in get_args(Place):
            raise InvalidInput(
                f"delta_place must be one of {', '.join(get_args(Place))}; "
                f"got {self.delta_place!r}."
            )
        in_interval("context_width", self.context_width, 0, MAX_CONTEXT, closed="both")
        in_interval("vocab_size", self.vocab_size, 2, MAX_VOCABULARY, closed="both")
        if self.scheme in COMPAT_SCHEMES:
            COMPAT_SCHEMES[self.scheme].check(self.scheme, self.context_width)
        checked = {
            "gamma": float(open_unit("gamma", self.gamma)),
            "delta": float(logit_bias(self.delta)),
            "context_width": int(count("context_width", self.context_width, at_least=0)),
            "vocab_size": int(count("vocab_size", self.vocab_size)),
        }
        for name, value in checked.items():  # 2 and 2.0 are the same delta, and the same digest
            object.__setattr__(self, name, value)
        _ = self.schedule, self.plan  # raise where they are invalid

    @classmethod
    def from_plan(cls, plan: Design, *, vocab_size: int | None = None, **fields: Any) -> Self:
        """Freeze a plan; ``fields`` are those of the spec that a plan does not know.

        A plan made with a profile knows the vocabulary's size and the tokenizer.
        """
        profile = plan.profile or {}
        if vocab_size is None and "vocab_size" not in profile:
            raise InvalidInput(
                "a spec needs to know the vocabulary.",
                hint="give `vocab_size`, or plan with a profile.",
            )
        if vocab_size is None:
            vocab_size = profile["vocab_size"]
            fields = {"tokenizer_digest": profile.get("tokenizer_digest")} | fields
        design = plan.to_dict()
        design.pop("points", None)
        steering = design.pop("steering", None)
        return cls(
            gamma=plan.gamma,
            delta=plan.delta,
            context_width=plan.context_width,
            vocab_size=vocab_size,
            design=design,
            steering=steering,
            **fields,
        )

    @property
    def digest(self) -> str:
        """32 hexadecimal digits over every field: equal specs, and only they, have equal ones."""
        return digest_of_fields(self._fields())

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object that :meth:`save` writes."""
        return {**self._fields(), "digest": self.digest}

    @cached_property
    def schedule(self) -> Schedule | None:
        """The schedule of biases; None where the bias is constant."""
        return None if self.steering is None else Schedule.from_dict(self.steering, self.gamma)

    @cached_property
    def plan(self) -> Plan | None:
        """The plan that the spec came from; None for a mark chosen by hand."""
        return None if self.design is None else Plan.from_dict(self.design, self.steering)

    @property
    def skipped(self) -> int:
        """Tokens at the beginning of a text, beside its first contexts, that the schedule skips."""
        return 0 if self.schedule is None else self.schedule.skipped

    def _fields(self) -> dict[str, Any]:
        fields = {"format": FORMAT, "version": STEERED, **dataclasses.asdict(self)}
        if self.steering is None:  # as older versions write and read it
            fields["version"] = 1
            del fields["steering"]
        elif "skipped" in self.steering:
            fields["version"] = GROUPED
        return fields

    @classmethod
    def from_dict(cls, found: Any, source: str = "the spec") -> Self:
        """Read a JSON object; whatever is amiss is named, with ``source``."""
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise SpecCorrupt(f"{source} is not a watermark spec.", hint=_REMAKE)
        version = found.get("version")
        if type(version) is not int or version < 1:
            raise SpecCorrupt(f"{source} has no valid version; got {version!r}.", hint=_REMAKE)
        if version > VERSION:
            raise SpecTooNew(
                f"{source} has version {version}; this powermark reads up to version {VERSION}.",
                hint="install a newer powermark.",
            )
        names = {field.name for field in dataclasses.fields(cls)}
        names -= {"steering"} if version < STEERED else set()
        known = names | {"format", "version", "digest"}
        for kind, wrong in (
            ("misses", known - found.keys()),
            ("has unknown", found.keys() - known),
        ):
            if wrong:
                raise SpecCorrupt(f"{source} {kind} fields: {', '.join(sorted(wrong))}.")
        for name, kinds in _KINDS.items():
            if name in found and type(found[name]) not in kinds:
                raise SpecCorrupt(
                    f"{name} in {source} must be {' or '.join(k.__name__ for k in kinds)}; "
                    f"got {type(found[name]).__name__}.",
                    hint=_REMAKE,
                )
        try:
            spec = cls(**{name: found[name] for name in names})
            digest = spec.digest
        except InvalidInput as error:
            raise SpecCorrupt(f"in {source}, {error}", hint=_REMAKE) from None
        except (ValueError, RecursionError):
            raise SpecCorrupt(f"the design in {source} is no plan.", hint=_REMAKE) from None
        if found["digest"] != digest:
            raise SpecCorrupt(
                f"{source} was changed after it was written: its digest does not match.",
                hint=_REMAKE,
            )
        return spec

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a spec from its file."""
        source = f"the spec {str(path)!r}"
        try:
            found = json.loads(read_file(path, _LARGEST).decode())
        except FileProblem:
            raise
        except OSError as error:
            raise FileProblem(f"cannot read {source}: {error.strerror}.", hint=_REMAKE) from None
        except (ValueError, RecursionError):
            raise SpecCorrupt(f"{source} is not JSON.", hint=_REMAKE) from None
        return cls.from_dict(found, source)

    def save(self, path: str | Path) -> None:
        """Write the spec, whole or not at all."""
        write_file(path, (json.dumps(self.to_dict(), indent=2, allow_nan=False) + "\n").encode())

    @property
    def planned_detector(self) -> DetectorName:
        """The detector that the plan was made for; the count without one."""
        return "count" if self.plan is None else self.plan.detector

    @property
    def gamma_prime(self) -> float:
        """The plan's green rate; without a plan the schedule's mean, or the plug-in's."""
        if self.plan is not None:
            return self.plan.gamma_prime
        if self.schedule is not None:
            n = self.schedule.n_tokens
            return float(self.schedule.law(n) @ np.arange(n + 1)) / n
        return float(gamma_prime(self.gamma, self.delta))

    @property
    def bet(self) -> float:
        """The green rate that evidence bets on: the plan's own bet, or its green rate."""
        planned = None if self.plan is None else self.plan.bet
        return self.gamma_prime if planned is None else planned

    def check_key(self, key: SecretKey | HashKey) -> None:
        """Refuse a key of the wrong kind, or another one than the spec's."""
        wanted: type = SecretKey if self.scheme == "pm1" else HashKey
        if not isinstance(key, wanted):
            raise SpecMismatch(
                f"scheme {self.scheme} needs a {wanted.__name__}; got a {type(key).__name__}."
            )
        if isinstance(key, SecretKey) and self.key_fingerprint not in (None, key.fingerprint):
            raise SpecMismatch(
                f"the spec is for the key {self.key_fingerprint}; got the key {key.fingerprint}."
            )

    def check_tokenizer(self, digest: str, size: int) -> None:
        """Refuse a tokenizer, given its digest and number of ids, that the spec is not for."""
        # another tool's list covers its model's logits, which may be wider than the tokenizer
        if size > self.vocab_size or (self.scheme == "pm1" and size != self.vocab_size):
            raise SpecMismatch(
                f"the spec is for a vocabulary of {self.vocab_size}; the tokenizer has {size} ids.",
                hint="use the tokenizer and model that the spec was made for, or make a new spec.",
            )
        if self.tokenizer_digest not in (None, digest):
            raise SpecMismatch(
                f"the spec is for the tokenizer {self.tokenizer_digest}; this one is {digest}.",
                hint="use the tokenizer that the spec was made for; another version of it may "
                "split text differently.",
            )

    def check_width(self, width: int, source: str = "the spec") -> None:
        """Refuse a model whose logits, ``width`` of them, are not the spec's."""
        exact = self.scheme.startswith("hf-")  # its lists are permutations of all logits
        if width < self.vocab_size or (exact and width != self.vocab_size):
            raise SpecMismatch(
                f"{source} is for a vocabulary of {self.vocab_size}; the model has {width}."
            )


_TEXT: tuple[type, ...] = (str, type(None))
_KINDS: dict[str, tuple[type, ...]] = {
    "scheme": (str,),
    "gamma": (float,),
    "delta": (float, int),
    "context_width": (int,),
    "vocab_size": (int,),
    "tokenizer_digest": _TEXT,
    "delta_place": (str,),
    "key_fingerprint": _TEXT,
    "design": (dict, type(None)),
    "steering": (dict,),
    "digest": (str,),
}


def digest_of_fields(fields: Mapping[str, Any]) -> str:
    """Return 32 hexadecimal digits over the fields of a spec, all but its digest."""
    content = json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return blake2b(content.encode(), digest_size=16, person=b"powermark-spec").hexdigest()


def tokenizer_digest(vocabulary: Mapping[str, int], encode: Callable[[str], Sequence[int]]) -> str:
    """Return 32 hexadecimal digits that say which tokenizer this is.

    Parameters
    ----------
    vocabulary
        Every token, added ones included, with its id.
    encode
        From text to ids, without special tokens. It is called on a fixed probe, because a
        vocabulary alone does not say how text is split.
    """
    tokens = sorted(vocabulary.items(), key=lambda item: (item[1], item[0]))
    content = json.dumps([tokens, [int(token) for token in encode(PROBE)]])
    return blake2b(content.encode(), digest_size=16, person=b"pm-tokenizer").hexdigest()


def digest_of(tokenizer: Any) -> str:
    """Return the digest of a tokenizer with the interface that transformers gives its own."""
    return _digest_of(tokenizer, len(tokenizer))


@lru_cache(maxsize=8)
def _digest_of(tokenizer: Any, _tokens: int) -> str:
    """Reading a large vocabulary takes a second; tokens that are added later change the digest."""
    return tokenizer_digest(
        tokenizer.get_vocab(), lambda text: tokenizer.encode(text, add_special_tokens=False)
    )
