"""``Profile``: the signal of a real model, from a sample of its own next-token distributions.

The effect of a mark at a step follows from the step's distribution (:mod:`.green_mass`), and the
law of the count from the texts that the steps belong to (:mod:`.text_mixture`). A profile that
knows the round trip of its texts (:mod:`.round_trip`) computes with the positions that a detector
sees in a text; ``seen_from("ids")`` is for detectors that are given the sampled ids.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from powermark.checks import Array
from powermark.errors import InvalidInput
from powermark.signals.edits import CONTEXT_WIDTH
from powermark.signals.entropy import entropies
from powermark.signals.green_mass import ENUMERATED, GreenMass
from powermark.signals.round_trip import RoundTrip, counted_steps
from powermark.signals.text_mixture import Places, Strengths, TextMixture, Texts

Source = Literal["text", "ids"]
ARRAYS = ("head", "tail_mass", "tail_square", "text", "ids", "strength")
_ENOUGH = 8  # texts of a level, roughly, that suffice for comparing designs
_LIKE_ALL = 16  # texts of a level that stand for all, if they are chosen for it


@dataclass(frozen=True, eq=False)
class Profile(TextMixture):
    """A sample of next-token distributions, in texts.

    Parameters
    ----------
    head
        (steps, K) the K largest probabilities of each step, descending.
    tail_mass, tail_square
        (steps,) sum and sum of squares of the others.
    text
        (steps,) the number of the text that a step belongs to; the steps of a text are in order.
    ids
        (steps,) the sampled token.
    strength
        (steps,) share of tokens changed by the mark under which the text was written; 0 for
        unmarked text, which every profile must contain.
    about
        Model, tokenizer digest, sampling settings and other metadata; ``about["digest"]``
        identifies the profile.
    round_trip
        The texts decoded and tokenised again; None in profiles of 0.1, which have only the ids.
    source
        Input of the detector: ``"text"``, which needs a round trip, or ``"ids"``.
    """

    head: NDArray[np.float32]
    tail_mass: NDArray[np.float32]
    tail_square: NDArray[np.float32]
    text: NDArray[np.int32]
    ids: NDArray[np.int32]
    strength: NDArray[np.float32]
    about: dict[str, Any] = field(default_factory=dict)
    round_trip: RoundTrip | None = None
    source: Source = "text"

    def __post_init__(self) -> None:
        if self.round_trip is None:
            object.__setattr__(self, "source", "ids")
        arrays = [getattr(self, name) for name in ARRAYS]
        fits = {array.shape for array in arrays[1:]} == {self.head.shape[:1]}
        numbers = all(array.dtype.kind in "fiu" for array in arrays)
        if self.head.ndim != 2 or self.head.size == 0 or not fits or not numbers:
            raise InvalidInput(
                "a profile needs a head, tail, text number, id and strength for each step."
            )
        if self.texts.strengths.values[:1].tolist() != [0.0]:
            raise InvalidInput(
                "a profile needs unmarked text with tokens that a detector counts.",
                hint=f"record texts of more than {CONTEXT_WIDTH + 1} tokens.",
            )

    @cached_property
    def texts(self) -> Texts:
        """The texts as the detector sees them; computed once."""
        counted = counted_steps(self.ids, self.text, CONTEXT_WIDTH)
        seen_text, seen = self.text[counted], np.flatnonzero(counted)
        if self.source == "text" and self.round_trip is not None:
            seen_text, seen = self.round_trip.positions(CONTEXT_WIDTH)
        counted &= np.isin(self.text, seen_text)  # texts without a position are left out
        used = counted.copy()
        used[seen[seen >= 0]] = True
        places = np.append(np.cumsum(used) - 1, -1)  # of a step among those in use
        mass = GreenMass(self.head[used], self.tail_mass[used], self.tail_square[used])
        number = seen_text[np.diff(seen_text, prepend=seen_text[:1] - 1) != 0]
        counted_texts = number.size / np.unique(self.text).size
        return Texts(
            number=number,
            answered=float(self.about.get("answered", 1.0)) * counted_texts,
            steps=_by_text(places[np.flatnonzero(counted)], self.text[counted]),
            seen=_by_text(places[seen], seen_text),
            unread=CONTEXT_WIDTH + 1 if self.source == "text" else 0,
            mass=mass,
            strengths=Strengths(self.strength[used].astype(np.float64), mass),
        )

    def level_weights(self, gamma: float, delta: float) -> Array:
        """Weight of each level of strength for a design, at the design's own strength."""
        return self.texts.strengths.of_design(gamma, delta)

    @property
    def name(self) -> str:
        """Short name, as used in signatures."""
        ids = ",ids" if self.source == "ids" and self.round_trip is not None else ""
        return f"profile({str(self.about.get('digest', 'unnamed'))[:12]}{ids})"

    @property
    def origin(self) -> dict[str, Any]:
        """Model, settings and sample, with the number of texts and steps."""
        size = {"texts": np.unique(self.text).size, "steps": self.text.size}
        return {**self.about, **size, "source": self.source}

    def seen_from(self, source: Source) -> Profile:
        """Return the same profile for detectors that are given texts, or the sampled ids."""
        if source == "text" and self.round_trip is None:
            raise InvalidInput(
                "the profile does not know what its texts lose when they are tokenised again.",
                hint="record it anew with `powermark profile`, or plan for ids.",
            )
        return self if source == self.source else replace(self, source=source)

    def at_strength(self, strength: float) -> TextMixture:
        """Return the same texts for marks that change this share of the tokens."""
        return self if self.texts.strengths.values.size == 1 else _AtStrength(self, strength)

    def thinned(self) -> Profile:
        """Return a profile of some texts of each level, for comparing designs."""
        return self._some_texts(np.zeros(self.text.size), _ENOUGH, 0)

    def representative(self, texts: int = _LIKE_ALL) -> Profile:
        """Return a profile of so many texts of each level, from certain to open ones."""
        numbers, place = np.unique(self.text, return_inverse=True)
        alike = (self.head.astype(np.float64)[:, :ENUMERATED] ** 2).sum(axis=1)
        order = (np.bincount(place, alike) / np.bincount(place))[place]
        levels = self.texts.strengths.values.size
        return self if numbers.size <= levels * texts else self._some_texts(order, texts, 1)

    def _some_texts(self, order: Array, texts: int, middle: int) -> Profile:
        """Return a profile of some texts of each level, evenly spaced by an order of the steps.

        The first of each group, or with ``middle`` 1 the one in its middle.
        """
        numbers, first = np.unique(self.text, return_index=True)
        chosen = np.zeros(numbers.size, bool)
        for which in np.unique(self.strength[first]):
            mine = np.flatnonzero(self.strength[first] == which)
            mine = mine[np.argsort(order[first[mine]], kind="stable")]
            stride = max(1, -(-mine.size // texts))
            chosen[mine[middle * (stride // 2) :: stride]] = True
        kept = np.isin(self.text, numbers[chosen])
        some: dict[str, Any] = {name: getattr(self, name)[kept] for name in ARRAYS}
        if self.round_trip is not None:
            some["round_trip"] = self.round_trip.of_texts(numbers[chosen], kept)
        return replace(self, **some)

    @property
    def text_survival(self) -> float:
        """Share of the positions counted in a text that carry the mark's signal."""
        return float((np.concatenate(self.texts.seen) >= 0).mean())

    def scored_share(self, context_width: int = CONTEXT_WIDTH) -> float:
        """Share of generated tokens that a detector would count; repeats are left out."""
        if self.source == "text" and self.round_trip is not None:
            return self.round_trip.positions(context_width)[0].size / self.text.size
        return float(counted_steps(self.ids, self.text, context_width).mean())

    def green_masses(self, gamma: float, draws: int, rng: np.random.Generator) -> Array:
        """Draw green masses of the steps of unmarked text, under lists drawn at random."""
        plain, of = self.texts.strengths.level == 0, self.texts.mass
        head, mass, square = (x[plain] for x in (of.head, of.tail_mass, of.tail_square))
        a = np.clip(mass**2 / np.maximum(square, 1e-300) - 1.0, 1e-3, 1e9)
        masses = [
            np.einsum("ij,ij->i", head, rng.random(head.shape) < gamma)
            + mass * rng.beta(gamma * a, (1.0 - gamma) * a)
            for _ in range(draws)
        ]
        return np.asarray(np.minimum(np.concatenate(masses), 1.0))

    def typical(self) -> dict[str, list[float]]:
        """Describe unmarked texts: mean over texts and standard deviation between them.

        ``certainty`` is the mean probability of the likeliest token, ``scored_share`` the share of
        the sampled tokens that a detector counts, ``tokens`` their number.
        """
        plain = self.strength == 0.0
        texts, place = np.unique(self.text[plain], return_inverse=True)
        tokens = np.bincount(place)
        seen = {n: each.size for n, each in zip(self.texts.number, self.texts.seen, strict=True)}
        values = {
            "certainty": np.bincount(place, self.head[plain, 0]) / tokens,
            "scored_share": np.array([seen.get(text, 0) for text in texts]) / tokens,
            "tokens": tokens.astype(np.float64),
        }
        return {name: [float(v.mean()), float(v.std())] for name, v in values.items()}

    def randomness(self) -> dict[str, float]:
        """Describe the distributions of unmarked text: the mean over its steps.

        ``entropy`` is in nats, tokens beyond the recorded ones counted as equally likely;
        ``above_99`` and ``above_999`` are the shares of steps whose likeliest token has a
        probability above .99 and .999. All are of the distributions that were sampled from.
        """
        plain = self.strength == 0.0
        of = GreenMass(self.head[plain], self.tail_mass[plain], self.tail_square[plain])
        return {
            "entropy": float(entropies(of).mean()),
            "above_99": float((of.head[:, 0] > 0.99).mean()),
            "above_999": float((of.head[:, 0] > 0.999).mean()),
        }

    def __reduce__(self) -> tuple[Any, ...]:  # caches are not pickled
        return Profile, tuple(getattr(self, each.name) for each in fields(self))


@dataclass(frozen=True, eq=False)
class _AtStrength(TextMixture):
    """A profile's texts, weighted for one strength whatever the design."""

    profile: Profile
    strength: float

    @property
    def name(self) -> str:
        return self.profile.name

    @property
    def origin(self) -> dict[str, Any]:
        return self.profile.origin

    @property
    def texts(self) -> Texts:
        return self.profile.texts

    def representative(self, texts: int = _LIKE_ALL) -> TextMixture:
        some = self.profile.representative(texts)
        return self if some is self.profile else _AtStrength(some, self.strength)

    def level_weights(self, gamma: float, delta: float) -> Array:
        del gamma, delta
        return self.texts.strengths.weights(self.strength)


def _by_text(places: NDArray[np.int64], text: NDArray[np.int32]) -> Places:
    """Return the places of each text, in the order of the texts."""
    return np.split(places, np.flatnonzero(np.diff(text)) + 1)
