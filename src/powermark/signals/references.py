"""Reference profiles: small recordings in this package, to plan with before you have your own.

Their metadata has the recorded model under ``reference``, not as ``model``: a plan made with one is
for no particular model or tokenizer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from importlib.resources import as_file, files
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from powermark.checks import Array, positive
from powermark.errors import InvalidInput
from powermark.signals.entropy import entropies, powered
from powermark.signals.green_mass import GreenMass
from powermark.signals.profile import Profile
from powermark.signals.profile_file import load_profile, with_metadata
from powermark.signals.signal import MAX_DELTA

REFERENCES = ("chat", "prose", "code")
KEPT, BITS = 16, 11  # of a compact profile: probabilities of a step, and bits of each
_STEEPEST = 64.0  # exponent
_GAMMA = 0.25  # green share of the marks that profiles are recorded under


@lru_cache(maxsize=8)
def reference_profile(name: str, *, entropy: float | None = None) -> Profile:
    """Return a profile that comes with the package.

    Parameters
    ----------
    name
        ``"chat"``, ``"prose"`` or ``"code"``.
    entropy
        Mean entropy of your model's next-token distributions, nats; the profile is
        :func:`sharpened` to it.

    Examples
    --------
    >>> chat = reference_profile("chat")
    >>> chat.about["reference"]["model"], chat.about["temperature"], chat.about["top_p"]
    ('SmolLM2-135M-Instruct', 0.7, 0.95)
    """
    if name not in REFERENCES:
        raise InvalidInput(
            f"there is no reference profile {name!r}.",
            hint=f"use {', '.join(REFERENCES)}, or record a profile with `powermark profile`.",
        )
    if entropy is not None:
        return sharpened(reference_profile(name), entropy)
    with as_file(files(__package__).joinpath("reference", f"{name}.npz")) as path:
        return load_profile(path)


def described(about: Mapping[str, Any]) -> str:
    """Return model and sampling of a reference profile in words, from its metadata."""
    words = [str(about["reference"]["model"]), f"T {short(about['temperature'])}"]
    if about.get("top_p", 1.0) < 1.0:
        words.append(f"top-p {short(about['top_p'])}")
    return ", ".join(words)


def short(number: float) -> str:
    """Return a number with at most two decimals, and no zero before the point."""
    text = f"{round(number, 2):g}"
    return text[1:] if text.startswith("0.") else text


def sharpened(profile: Profile, entropy: float) -> Profile:
    """Return a profile with another mean entropy, in nats, of the steps of unmarked text.

    Each distribution p becomes ``p ** (1 / tau)``, normalised, with one tau for all steps: below 1
    it sharpens them, above 1 it flattens them. Tokens in the tail count as equally likely. Texts
    written under a mark get the strength that it has on the new distributions.
    """
    positive("entropy", entropy)
    of = GreenMass(profile.head, profile.tail_mass, profile.tail_square)
    plain = _rows(of, profile.strength == 0.0)

    def excess(log_exponent: float) -> float:
        return float(entropies(powered(plain, np.exp(log_exponent))).mean()) - entropy

    ends = -np.log(_STEEPEST), np.log(_STEEPEST)
    most, least = (excess(end) + entropy for end in ends)
    if not least <= entropy <= most:
        raise InvalidInput(
            f"entropy must be between {least:.2g} and {most:.3g} nats for this profile; "
            f"got {entropy:g}.",
            hint="its sampler leaves few tokens at most steps; take a profile with a flatter one."
            if entropy > most
            else None,
        )
    exponent = float(np.exp(optimize.brentq(excess, *ends, xtol=1e-12)))
    new = powered(of, exponent)
    done = {
        "entropy": float(entropy),
        "tau": 1.0 / exponent,
        "from": str(profile.about.get("digest", "unnamed")),
    }
    return with_metadata(
        replace(
            profile,
            head=new.head.astype(np.float32),
            tail_mass=new.tail_mass.astype(np.float32),
            tail_square=new.tail_square.astype(np.float32),
            strength=_strengths(of, new, profile.strength),
            about={**profile.about, "sharpened": done},
        )
    )


def compacted(profile: Profile, *, kept: int = KEPT, bits: int = BITS) -> Profile:
    """Return a profile whose file is small, for nearly the same predictions.

    Of each distribution the ``kept`` largest probabilities remain, the others are added to the
    tail's mass and squares; each number is rounded to ``bits`` significant bits.
    """
    of = GreenMass(profile.head, profile.tail_mass, profile.tail_square)
    rest = of.head[:, kept:]
    return with_metadata(
        replace(
            profile,
            head=_rounded(of.head[:, :kept], bits),
            tail_mass=_rounded(of.tail_mass + rest.sum(axis=1), bits),
            tail_square=_rounded(of.tail_square + (rest**2).sum(axis=1), bits),
        )
    )


def _rounded(values: Array, bits: int) -> NDArray[np.float32]:
    """Round to significant bits, so that the bytes compress."""
    parts, exponents = np.frexp(values)
    return np.ldexp(np.round(parts * 2.0**bits) / 2.0**bits, exponents).astype(np.float32)


def _strengths(
    before: GreenMass, after: GreenMass, strength: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Return the share of tokens that each text's mark changes in the new distributions.

    The bias of a mark is the one that changes the recorded share in the old ones.
    """
    new = np.zeros_like(strength)
    for value in np.unique(strength[strength > 0.0]):
        mine = strength == value
        old, now = _rows(before, mine), _rows(after, mine)

        def changed(of: GreenMass, delta: float) -> float:
            return float(of.rates(_GAMMA, delta).mean()) - _GAMMA

        delta = MAX_DELTA
        if changed(old, delta) > value:
            delta = float(
                optimize.brentq(lambda d: changed(old, d) - value, 0.0, MAX_DELTA, xtol=1e-4)  # noqa: B023
            )
        new[mine] = changed(now, delta)
    return new


def _rows(of: GreenMass, which: NDArray[np.bool_]) -> GreenMass:
    """Return the distributions of some steps."""
    return GreenMass(of.head[which], of.tail_mass[which], of.tail_square[which])
