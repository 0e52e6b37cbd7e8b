"""``Detector``: from a text to a verdict.

A verdict has three values. *watermarked*: p <= alpha. *no watermark found*: p > alpha, and the test
would find at least four of five marked texts of this length. *inconclusive*: p > alpha, and too few
tokens count to conclude anything. No verdict says who wrote a text.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, cast, get_args

import numpy as np
from numpy.typing import ArrayLike

from powermark.checks import Array, Ids, Mask, count, open_unit
from powermark.counting import REPEATED
from powermark.detection.detection import (
    Detection,
    Evidence,
    Findings,
    text_warnings,
    unplanned_test,
)
from powermark.detection.inspection import Inspection
from powermark.detection.power import ENOUGH_POWER, DetectorPower
from powermark.detection.scoring import Scores, score, score_flat
from powermark.detection.text import Tokens, normalise, token_ids_of, tokens_of, valid
from powermark.errors import InvalidInput
from powermark.planning.request import Detector as Kind
from powermark.signature import signature
from powermark.statistics.p_values import (
    green_rate_interval,
    log_p_value,
    marked_share,
    mid_p_value,
)
from powermark.statistics.windows import Kind as WindowKind
from powermark.statistics.windows import WindowTest
from powermark.theory.power import z_score
from powermark.watermark.keys import HashKey, SecretKey
from powermark.watermark.spec import WatermarkSpec, digest_of
from powermark.watermark.watermark import Watermark

__all__ = ["Detection", "Detector", "Kind"]


class _Look(NamedTuple):
    """The texts under one key, one entry a text.

    ``log_p`` is the least of all tests, ``detector`` the test that has it.
    """

    log_p: Array
    detector: Ids
    scored: Ids
    green: Ids
    repeated: Ids


class Detector:
    """Looks for one mark, under one key or several, by one test or several.

    Each key and each test is a look at the text. The least p-value is multiplied by the number of
    looks (Bonferroni), so that the verdict keeps its level.

    Parameters
    ----------
    spec
        The mark.
    keys
        Its key, or several by name.
    tokenizer
        For texts; must be the spec's. Token ids need none.
    alpha
        Level; the plan's by default.
    detector
        ``"count"``, ``"winmax"``, ``"winmax-c"`` or ``"evalue"``, or several of them; the plan's by
        default.
    looks
        How many times the same text is looked at, this time included: with other specs, other
        parts of it, other settings.
    gamma_prime
        Green rate of marked text, and the e-value's bet; the plan's by default, or the plug-in's.
    normalise_text
        Undo look-alike letters and invisible characters before tokenising.
    special_ids
        Ids that never count, beside the tokenizer's own.
    """

    def __init__(
        self,
        spec: WatermarkSpec,
        keys: SecretKey | HashKey | Mapping[str, SecretKey | HashKey],
        *,
        tokenizer: Any = None,
        alpha: float | None = None,
        detector: Kind | Sequence[Kind] | None = None,
        looks: int = 1,
        gamma_prime: float | None = None,
        normalise_text: bool = False,
        special_ids: Collection[int] = (),
    ) -> None:
        self.detectors = _kinds(detector or spec.planned_detector)
        named = keys if isinstance(keys, Mapping) else {"": keys}
        if not named:
            raise InvalidInput("detection needs at least one key.")
        if tokenizer is not None:
            spec.check_tokenizer(digest_of(tokenizer), len(tokenizer))
            special_ids = {*special_ids, *tokenizer.all_special_ids}
        if alpha is None and spec.plan is not None:
            alpha = spec.plan.alpha
        if alpha is None:
            raise InvalidInput("the spec has no plan, so alpha must be given.")
        self.spec, self.alpha = spec, float(open_unit("alpha", alpha))
        self.gamma_prime = spec.gamma_prime if gamma_prime is None else float(gamma_prime)
        self.bet = spec.bet if gamma_prime is None else self.gamma_prime
        self.tokenizer, self._normalise = tokenizer, normalise_text
        self.special_ids = special_ids
        self.watermarks = {name: Watermark(spec, key) for name, key in named.items()}
        declared = int(count("looks", looks))
        self.looks = declared * len(named) * len(self.detectors)
        fingerprints = [mark.fingerprint for mark in self.watermarks.values() if mark.fingerprint]
        self.signature = signature(
            "detect",
            detector="+".join("binom" if kind == "count" else kind for kind in self.detectors),
            spec=spec.digest[:12],
            key="+".join(fingerprints) or None,
            a=self.alpha,
            looks=self.looks if self.looks > len(named) else None,
            normalise="yes" if normalise_text else None,
        )
        self._notes = unplanned_test(spec, self.detectors)
        self._power = DetectorPower(
            spec,
            self.detectors,
            self.alpha / declared,
            self.gamma_prime,
            len(named),
            bet=self.bet,
        )
        # by the number of counted tokens
        self.power_at, self.size_at = self._power.power_at, self._power.size_at

    def detect(self, text: str | ArrayLike, *, prompt: str | ArrayLike | None = None) -> Detection:
        """Look for the mark in one text, or in its token ids."""
        prompts = None if prompt is None else [self.ids_of(prompt)]
        return self.detect_many([text], prompts=prompts)[0]

    def inspect(
        self, text: str | ArrayLike | Tokens, *, prompt: str | ArrayLike | None = None
    ) -> Inspection:
        """As :meth:`detect`, with the state of every token under the key that fits best."""
        tokens = text if isinstance(text, Tokens) else self.tokens_of(text)
        prompts = None if prompt is None else [self.ids_of(prompt)]
        batches = self._score([tokens.ids], prompts, tokens.copied)
        [found] = self._report(self._judge(batches))
        return Inspection(found, batches[found.key or ""], tokens.words)

    def detect_many(
        self,
        texts: Sequence[str | ArrayLike],
        *,
        prompts: Sequence[ArrayLike] | None = None,
        copied: ArrayLike | None = None,
    ) -> list[Detection]:
        """Look for the mark in each of many texts, or in their token ids.

        Parameters
        ----------
        prompts
            Ids that stood before each text.
        copied
            Which ids come from tokenising a text, not from a model: the first token of such a text
            may have lost the blank before it, so without a prompt it neither counts nor is a
            context. Strings always do.
        """
        if copied is None:
            copied = [isinstance(text, str) for text in texts]
        ids = [self.ids_of(text) for text in texts]
        return self._report(self._judge(self._score(ids, prompts, copied)))

    def _score(
        self, texts: Sequence[ArrayLike], prompts: Sequence[ArrayLike] | None, copied: ArrayLike
    ) -> dict[str, Scores]:
        if self.spec.schedule is not None:
            prompts = None  # a schedule does not mark the first tokens of a text
        skip = self._skipped(copied)
        if prompts is not None:
            skip = np.where([len(prompt) > 0 for prompt in prompts], 0, skip)  # type: ignore[arg-type]
        return {
            name: score(
                mark.scheme, texts, prompts=prompts, skip=skip, special_ids=self.special_ids
            )
            for name, mark in self.watermarks.items()
        }

    def _skipped(self, copied: ArrayLike) -> Ids:
        """Return how many tokens are left out at the beginning of each text."""
        return np.maximum(np.asarray(copied, np.int64), self.spec.skipped)

    def ids_of(self, text: str | ArrayLike) -> ArrayLike:
        """Return the token ids of a text; ids pass through."""
        if not isinstance(text, str):
            return text
        return np.array(token_ids_of(self._needed_tokenizer(), self.prepare(text)), np.int64)

    def tokens_of(self, text: str | ArrayLike) -> Tokens:
        """Return the token ids of a text, and the characters of each."""
        if not isinstance(text, str):
            return tokens_of(self.tokenizer, text)
        return tokens_of(self._needed_tokenizer(), self.prepare(text))

    def _needed_tokenizer(self) -> Any:
        if self.tokenizer is None:
            raise InvalidInput("text needs a tokenizer; give one, or token ids.")
        return self.tokenizer

    def prepare(self, text: str) -> str:
        """Return the text that is tokenised."""
        return normalise(valid(text)) if self._normalise else valid(text)

    def _log_p(self, kind: Kind, scores: Scores, walk: Evidence) -> Array:
        """Return the logarithm of each text's p-value by one test under one key."""
        if kind == "count":
            return log_p_value(scores.greens, scores.scored, self.spec.gamma)
        if kind == "evalue":
            return -walk.highest
        return np.array([self._window_log_p(kind, scores.colours(i)) for i in range(scores.texts)])

    def _window_log_p(self, kind: WindowKind, colours: Mask) -> float:
        if colours.size == 0:
            return 0.0
        test = WindowTest(kind, colours.size, self.spec.gamma)
        z = test.statistic(colours).statistic
        level = self.alpha / self.looks
        return float(np.log(test.p_safe(z) if test.supports(level) else test.p_bound(z)))

    def find(self, ids: Ids, offsets: Ids, *, copied: ArrayLike = False) -> Findings:
        """Look for the mark in texts that lie end to end: text i is ids[offsets[i] to [i+1]].

        ``copied`` as in :meth:`detect_many`.
        """
        skip = self._skipped(copied)
        return self._judge(
            {
                name: score_flat(mark.scheme, ids, offsets, skip=skip, special_ids=self.special_ids)
                for name, mark in self.watermarks.items()
            }
        )

    @property
    def tokens_needed(self) -> int | None:
        """Counted tokens with which the count finds four of five marked texts; None without it."""
        return self._power.tokens_needed

    @property
    def names(self) -> list[str | None]:
        """The names of the keys, in order; None for a key without a name."""
        return [name or None for name in self.watermarks]

    def _judge(self, batches: dict[str, Scores]) -> Findings:
        """Judge every text under each key; keep the key with the least p-value."""
        each = [self._look(scores) for scores in batches.values()]
        best = np.argmin([look.log_p for look, _ in each], axis=0)  # (texts,)
        look, walk = (_select(entries, best) for entries in zip(*each, strict=True))
        tokens = np.diff(next(iter(batches.values())).offsets)
        return self._findings(tokens, best, cast(_Look, look), cast(Evidence, walk))

    def _look(self, scores: Scores) -> tuple[_Look, Evidence]:
        """Judge every text under one key, by the test with the least p-value."""
        walk = Evidence.of(scores, self.spec.gamma, self.bet)
        log_ps = np.array([self._log_p(kind, scores, walk) for kind in self.detectors])
        counts = scores.scored, scores.greens, scores.count(REPEATED)
        return _Look(log_ps.min(axis=0), log_ps.argmin(axis=0), *counts), walk

    def _findings(self, tokens: Ids, key: Ids, look: _Look, walk: Evidence) -> Findings:
        """Return what follows from the best key's counts, corrected for the number of looks."""
        gamma, scored, green = self.spec.gamma, look.scored, look.green
        log_p = np.minimum(0.0, look.log_p + np.log(self.looks))
        low, high = green_rate_interval(green, scored)
        rate = np.where(scored > 0, green / np.maximum(scored, 1), np.nan)
        z = z_score(green, np.maximum(scored, 1), gamma)
        share = marked_share(rate, gamma, max(self.gamma_prime, gamma + 1e-9))
        lengths, where = np.unique(scored, return_inverse=True)
        power = np.array([self.power_at(n) for n in lengths.tolist()])[where]
        verdict = np.where(power >= ENOUGH_POWER, 1, 2)
        keys = self.looks / len(self.detectors)  # times the declared looks
        return Findings(
            verdict=np.where(log_p <= np.log(self.alpha), 0, verdict).astype(np.int8),
            log_p=log_p,
            log_e=walk.ends - np.log(keys),  # all tests share the evidence
            tokens=tokens,
            scored=scored,
            repeated=look.repeated,
            green=green,
            green_rate=rate,
            green_rate_low=low,
            green_rate_high=high,
            z=np.where((scored > 0) & (self.looks == 1), z, np.nan),
            p_mid=np.minimum(1.0, self.looks * mid_p_value(green, scored, gamma)),
            marked_share=np.where(self.gamma_prime > gamma, share, np.nan),
            power=power,
            size=np.array([self.size_at(n) for n in lengths.tolist()])[where],
            key=key,
            detector=look.detector,
            walk=walk,
        )

    def _report(self, found: Findings) -> list[Detection]:
        """Return each text's entries with the detector's settings and the warnings."""
        settings: dict[str, Any] = {
            "alpha": self.alpha,
            "gamma": self.spec.gamma,
            "gamma_prime": self.gamma_prime,
            "bet": self.bet,
            "tokens_needed": self.tokens_needed,
            "keys_tried": len(self.watermarks),
            "looks": self.looks,
            "signature": self.signature,
        }
        reports = []
        for i, row in enumerate(found.rows(self.detectors, self.names)):
            notes = text_warnings(found, i, spec=self.spec, alpha=self.alpha, power=self._power)
            reports.append(Detection(**row, **settings, warnings=self._notes + notes))
        return reports


def _kinds(detector: str | Sequence[str]) -> tuple[Kind, ...]:
    """Return the names of one or several detectors, each once."""
    names = (detector,) if isinstance(detector, str) else tuple(dict.fromkeys(detector))
    for name in names:
        if name not in get_args(Kind):
            raise InvalidInput(f"detector must be one of {get_args(Kind)}; got {name!r}.")
    return cast(tuple[Kind, ...], names)


def _select(entries: Sequence[tuple[Array, ...]], best: Ids) -> tuple[Array, ...]:
    """Return the same named tuple with text i's entries taken from ``entries[best[i]]``."""
    at = best, np.arange(best.size)
    return type(entries[0])(*(np.array(each)[at] for each in zip(*entries, strict=True)))
