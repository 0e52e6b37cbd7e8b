"""The paper's settings, and how much to run of its experiments: scales smoke, small and full."""

from __future__ import annotations

from dataclasses import dataclass

from powermark.errors import InvalidInput
from powermark.paper.baselines import GAINS, GAMMAS

N_TOKENS, ALPHA = 50, 0.05  # of every comparison, as in the paper
TOKENS = 66  # to write for that: repeats and first tokens do not count
ENOUGH = 0.95  # TPR at which methods are compared
FITTED = (0.5, 1.0, 2.0)  # biases of the paper's linear fits
AUTHORS_TEMPERATURE = 0.7


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Sizes of all experiments.

    Parameters
    ----------
    gammas, deltas, betas, gains
        Grid search, OPT's thresholds and DP's targets.
    powers, attacked_powers
        Powers of our plans, and of our plans for removal.
    few, many, most
        Texts per cell: of a search; of a plan; of unmarked text and of the cell for c-hat.
    profiled
        Texts per profile.
    fitted
        Texts per cell at the authors' temperature.
    long_texts, long_tokens
        Texts of the Q-Q plots, and their length.
    final
        Texts per cell of the final.
    seen
        Prompts to skip because they decided an earlier contest; plans have changed since.
    corpora
        Number of corpora, unless some are named.
    """

    gammas: tuple[float, ...] = GAMMAS
    deltas: tuple[float, ...] = (0.5, 1.0, 2.0, 5.0, 10.0)
    betas: tuple[float, ...] = (0.5, 1.0, 2.0, 5.0, 10.0)
    gains: tuple[float, ...] = GAINS
    powers: tuple[float, ...] = (0.8, 0.9, 0.95, 0.97, 0.99)
    attacked_powers: tuple[float, ...] = (0.95, 0.98, 0.99)
    few: int
    many: int
    most: int
    profiled: int
    fitted: int
    long_texts: int
    final: int
    seen: int = 0
    long_tokens: int = 500
    corpora: int = 3
    batch: int = 96
    long_batch: int = 32

    @property
    def profiled_from(self) -> int:
        """The first prompt that no cell of a search uses."""
        return max(self.few, self.many, self.most)

    @property
    def final_from(self) -> int:
        """The first prompt that no choice was made on."""
        return self.profiled_from + self.profiled + self.seen

    @property
    def prompts(self) -> int:
        """Number of prompts needed of a corpus."""
        return max(self.final_from + self.final, self.long_texts, self.fitted)


SCALES = {
    "smoke": Scale(
        gammas=(0.2, 0.5),
        deltas=FITTED,
        betas=(2.0,),
        gains=(0.3,),
        powers=(0.95,),
        attacked_powers=(0.95,),
        few=2,
        many=6,
        most=12,
        profiled=12,
        fitted=2,
        long_texts=4,
        final=4,
        long_tokens=50,
        corpora=1,
    ),
    "small": Scale(
        few=12, many=36, most=96, profiled=144, fitted=12, long_texts=64, final=96, seen=96
    ),
    "full": Scale(
        few=500, many=500, most=1000, profiled=500, fitted=100, long_texts=2500, final=500
    ),
}


def scale_named(name: str) -> Scale:
    """Return a scale by name."""
    if name not in SCALES:
        raise InvalidInput(f"scale must be one of {', '.join(SCALES)}; got {name!r}.")
    return SCALES[name]
