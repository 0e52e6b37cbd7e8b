"""``Detector``: from tokens to a verdict with everything that a reader of it must know.

A verdict has three values. *watermarked*: p <= alpha. *no watermark found*: not, and a marked text
of this length would have been found in at least four cases of five. *inconclusive*: too few tokens
count for that to mean anything. None of them says who wrote a text.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast, get_args

import numpy as np
from numpy.typing import ArrayLike

from powermark.checks import Array, open_unit
from powermark.detection.cautions import cautions
from powermark.detection.evalue import planned_rate
from powermark.detection.findings import VERDICTS, Evidence, Findings
from powermark.detection.foresight import ENOUGH_POWER, Foresight
from powermark.detection.kernels import REPEATED
from powermark.detection.result import Detection, Kind
from powermark.detection.scoring import Ids, Scores, score, score_flat
from powermark.detection.statistics import (
    green_rate_interval,
    log_p_value,
    marked_share,
    mid_p_value,
)
from powermark.detection.text import normalise, token_ids_of, valid
from powermark.detection.windows import Kind as WindowKind
from powermark.detection.windows import WindowTest
from powermark.errors import InvalidInput
from powermark.signature import signature
from powermark.theory.power import z_score
from powermark.watermark.embed import scheme_of
from powermark.watermark.keys import HashKey, SecretKey
from powermark.watermark.scheme import Mask
from powermark.watermark.spec import WatermarkSpec, digest_of

__all__ = ["Detection", "Detector", "Kind"]

_LOG_2 = float(np.log(2.0))


class Detector:
    """Looks for one mark, under one key or several.

    Parameters
    ----------
    spec
        The mark.
    keys
        Its key, or several by name; p-values are then multiplied by their number.
    tokenizer
        For texts; must be the spec's. Token ids need none.
    alpha
        Level; the plan's by default.
    detector
        ``"count"``, ``"winmax"``, ``"winmax-c"`` or ``"evalue"``; the plan's by default.
    gamma_prime
        Green rate of marked text; the plan's, or the plug-in's, by default.
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
        detector: Kind | None = None,
        gamma_prime: float | None = None,
        normalise_text: bool = False,
        special_ids: Collection[int] = (),
    ) -> None:
        detector = cast(Kind, detector or spec.planned_detector)
        if detector not in get_args(Kind):
            raise InvalidInput(f"detector must be one of {get_args(Kind)}; got {detector!r}.")
        named = keys if isinstance(keys, Mapping) else {"": keys}
        if not named:
            raise InvalidInput("detection needs at least one key.")
        if tokenizer is not None:
            spec.check_tokenizer(digest_of(tokenizer), len(tokenizer))
            special_ids = {*special_ids, *tokenizer.all_special_ids}
        if alpha is None:
            alpha = (spec.design or {}).get("alpha")
        if alpha is None:
            raise InvalidInput("the spec has no plan, so alpha must be given.")
        self.spec, self.detector, self.alpha = spec, detector, float(open_unit("alpha", alpha))
        self.gamma_prime = planned_rate(spec) if gamma_prime is None else float(gamma_prime)
        self._tokenizer, self._normalise = tokenizer, normalise_text
        self.special_ids = special_ids
        self._schedule = spec.schedule
        self._schemes = {name: scheme_of(spec, key) for name, key in named.items()}
        fingerprints = [k.fingerprint for k in named.values() if isinstance(k, SecretKey)]
        self.signature = signature(
            "detect",
            detector="binom" if detector == "count" else detector,
            spec=spec.digest[:12],
            key="+".join(fingerprints) or None,
            a=self.alpha,
            normalise="yes" if normalise_text else None,
        )
        self._foresight = Foresight(spec, detector, self.alpha, self.gamma_prime, len(named))
        # by the number of counted tokens
        self.power_at, self.size_at = self._foresight.power_at, self._foresight.size_at

    def detect(self, text: str | ArrayLike, *, prompt: str | ArrayLike | None = None) -> Detection:
        """Return what is found in one text, or in its token ids."""
        return self.inspect(text, prompt=prompt)[0]

    def inspect(
        self, text: str | ArrayLike, *, prompt: str | ArrayLike | None = None
    ) -> tuple[Detection, Scores]:
        """Return the detection and the colours of every token, under the key that fits best."""
        prompts = None if prompt is None else [self.ids_of(prompt)]
        batches = self._score([self.ids_of(text)], prompts)
        found = self._report(self._judge(batches))[0]
        return found, batches[found.key or ""]

    def detect_many(
        self, texts: Sequence[ArrayLike], *, prompts: Sequence[ArrayLike] | None = None
    ) -> list[Detection]:
        """Return what is found in each of many texts, given as token ids."""
        return self._report(self._judge(self._score(texts, prompts)))

    def _score(
        self, texts: Sequence[ArrayLike], prompts: Sequence[ArrayLike] | None
    ) -> dict[str, Scores]:
        if self._schedule is not None:
            prompts = None  # the first tokens of a steered text are not marked: no state has them
        return {
            name: score(scheme, texts, prompts=prompts, special_ids=self.special_ids)
            for name, scheme in self._schemes.items()
        }

    def ids_of(self, text: str | ArrayLike) -> ArrayLike:
        """Return the token ids of a text; ids pass through."""
        if not isinstance(text, str):
            return text
        if self._tokenizer is None:
            raise InvalidInput("text needs a tokenizer; give one, or token ids.")
        return np.array(token_ids_of(self._tokenizer, self.prepare(text)), np.int64)

    def prepare(self, text: str) -> str:
        """Return the text that is tokenised."""
        return normalise(valid(text)) if self._normalise else valid(text)

    def _log_p(self, scores: Scores, walk: Evidence, green: Ids, scored: Ids) -> Array:
        """Return the logarithm of each text's p-value under one key."""
        if self.detector == "count":
            return log_p_value(green, scored, self.spec.gamma)
        if self.detector == "evalue":
            return -walk.highest
        return np.array([self._window_log_p(scores.colours(i)) for i in range(scores.texts)])

    def _window_log_p(self, colours: Mask) -> float:
        if colours.size == 0:
            return 0.0
        test = WindowTest(cast(WindowKind, self.detector), colours.size, self.spec.gamma)
        z = test.statistic(colours).statistic
        level = self.alpha / len(self._schemes)
        return float(np.log(test.p_safe(z) if test.supports(level) else test.p_bound(z)))

    def find(self, ids: Ids, offsets: Ids) -> Findings:
        """Return what is found in texts that lie end to end: text i is ids[offsets[i] to [i+1]]."""
        return self._judge(
            {
                name: score_flat(scheme, ids, offsets, special_ids=self.special_ids)
                for name, scheme in self._schemes.items()
            }
        )

    @property
    def tokens_needed(self) -> int | None:
        """Counted tokens with which the count finds four marked texts in five; None for others."""
        return self._foresight.tokens_needed

    @property
    def names(self) -> list[str | None]:
        """The names of the keys, in order; None for one that has none."""
        return [name or None for name in self._schemes]

    def _judge(self, batches: dict[str, Scores]) -> Findings:
        """Judge every text under the key with the least p-value."""
        gamma, tried = self.spec.gamma, len(batches)
        walks = [Evidence.of(scores, gamma, self.gamma_prime) for scores in batches.values()]
        counted = np.array([scores.scored for scores in batches.values()])  # (keys, texts)
        greens = np.array([scores.greens for scores in batches.values()])
        log_ps = np.array(list(map(self._log_p, batches.values(), walks, greens, counted)))
        best = np.argmin(log_ps, axis=0)  # (texts,)
        at = best, np.arange(best.size)
        scored, green = counted[at], greens[at]
        repeated = np.array([scores.count(REPEATED) for scores in batches.values()])[at]
        log_p = np.minimum(0.0, log_ps[at] + np.log(tried))
        low, high = green_rate_interval(green, scored)
        rate = np.where(scored > 0, green / np.maximum(scored, 1), np.nan)
        z = z_score(green, np.maximum(scored, 1), gamma)
        share = marked_share(rate, gamma, max(self.gamma_prime, gamma + 1e-9))
        lengths, where = np.unique(scored, return_inverse=True)
        power = np.array([self.power_at(n) for n in lengths.tolist()])[where]
        verdict = np.where(power >= ENOUGH_POWER, 1, 2)
        walk = Evidence(*(np.array(each)[at] for each in zip(*walks, strict=True)))
        return Findings(
            verdict=np.where(log_p <= np.log(self.alpha), 0, verdict).astype(np.int8),
            log_p=log_p,
            log_e=walk.ends - np.log(tried),
            tokens=np.diff(next(iter(batches.values())).offsets),
            scored=scored,
            repeated=repeated,
            green=green,
            green_rate=rate,
            green_rate_low=low,
            green_rate_high=high,
            z=np.where((scored > 0) & (tried == 1), z, np.nan),
            p_mid=np.minimum(1.0, tried * mid_p_value(green, scored, gamma)),
            marked_share=np.where(self.gamma_prime > gamma, share, np.nan),
            power=power,
            size=np.array([self.size_at(n) for n in lengths.tolist()])[where],
            key=best,
            walk=walk,
        )

    def _report(self, found: Findings) -> list[Detection]:
        names = self.names
        reports = []
        for i, n in enumerate(found.scored.tolist()):
            stop = int(found.walk.stops[i])
            reports.append(
                Detection(
                    verdict=VERDICTS[found.verdict[i]],
                    p=float(np.exp(found.log_p[i])),
                    bits=float(-found.log_p[i] / _LOG_2) + 0.0,
                    alpha=self.alpha,
                    detector=self.detector,
                    tokens=int(found.tokens[i]),
                    scored=n,
                    repeated=int(found.repeated[i]),
                    green=int(found.green[i]),
                    green_rate=_number(found.green_rate[i]),
                    green_rate_low=float(found.green_rate_low[i]),
                    green_rate_high=float(found.green_rate_high[i]),
                    gamma=self.spec.gamma,
                    gamma_prime=self.gamma_prime,
                    z=_number(found.z[i]),
                    p_mid=float(found.p_mid[i]),
                    marked_share=_number(found.marked_share[i]),
                    power=float(found.power[i]),
                    tokens_needed=self.tokens_needed,
                    span_start=int(found.walk.starts[i]) if stop else None,
                    span_stop=stop or None,
                    key=names[found.key[i]],
                    keys_tried=len(names),
                    warnings=cautions(
                        found,
                        i,
                        spec=self.spec,
                        alpha=self.alpha,
                        gamma_prime=self.gamma_prime,
                        foresight=self._foresight,
                    ),
                    signature=self.signature,
                )
            )
        return reports


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
