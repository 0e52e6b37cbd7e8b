"""All experiments on one model: what was run, measured and compared, each computed once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

from powermark.calibration.profile import Profile
from powermark.checks import Array
from powermark.evaluation.experiments.lab import Lab
from powermark.evaluation.figures.green_rate import predicted
from powermark.evaluation.figures.inflation import inflations
from powermark.evaluation.figures.pareto import STYLES, points
from powermark.evaluation.figures.qq import quantiles
from powermark.evaluation.measure import Estimate, detected
from powermark.evaluation.reproduction import cells as grids
from powermark.evaluation.reproduction.attacked import attack, survivors
from powermark.evaluation.reproduction.likeness import likeness
from powermark.evaluation.reproduction.scales import (
    ALPHA,
    AUTHORS_TEMPERATURE,
    N_TOKENS,
    TOKENS,
    Scale,
)
from powermark.evaluation.reproduction.summary import Row, by_cell, counts_of, summarise
from powermark.evaluation.runner import Cell, run, with_colours
from powermark.evaluation.writing import Record, Sampling
from powermark.signature import signature
from powermark.theory.power import critical_count

Texts = list[tuple[Cell, list[Record]]]


@dataclass(frozen=True)
class Study:
    """The paper's experiments with one model, on some corpora, at some scale."""

    lab: Lab
    scale: Scale
    corpora: tuple[str, ...]

    @cached_property
    def compared(self) -> Texts:
        """Every method on every corpus at temperature 1."""
        cells = [c for name in self.corpora for c in grids.compared(self.lab, name, self.scale)]
        return self._run(cells, Sampling(n_tokens=TOKENS))

    @cached_property
    def cooler(self) -> Texts:
        """The cells of the linear fits at the authors' temperature."""
        cells = [c for name in self.corpora for c in grids.fitted(name, self.scale)]
        return self._run(cells, Sampling(n_tokens=TOKENS, temperature=AUTHORS_TEMPERATURE))

    @cached_property
    def long(self) -> Texts:
        """Long texts of the first corpus, unmarked and marked."""
        cells = grids.long(self.corpora[0], self.scale)
        return self._run(cells, Sampling(n_tokens=int(1.12 * self.scale.long_tokens) + 8))

    def _run(self, cells: list[Cell], sampling: Sampling) -> Texts:
        return by_cell(cells, run(self.lab, cells, sampling, batch=self.scale.batch))

    @cached_property
    def profile(self) -> Callable[..., Profile]:
        """The model's profile on a corpus, at temperature 1 or another; each is read once."""

        def read(corpus: str, temperature: float = 1.0) -> Profile:
            return grids.profile_of(self.lab, corpus, self.scale, temperature)

        return lru_cache(read)

    @cached_property
    def rows(self) -> list[Row]:
        """What each marked cell shows."""
        return [summarise(cell, texts) for cell, texts in self.compared if cell.gamma is not None]

    @cached_property
    def cooler_rows(self) -> list[Row]:
        """The same at the authors' temperature."""
        return [summarise(cell, texts) for cell, texts in self.cooler]

    def unmarked(self, corpus: str) -> list[Record]:
        """Return the unmarked texts of a corpus."""
        return next(t for c, t in self.compared if (c.corpus, c.method) == (corpus, "unmarked"))

    def predictions(self, temperature: float = 1.0) -> list[Row]:
        """Cells of the linear fits, beside what the plug-in and the profile say."""
        found = self.rows if temperature == 1.0 else self.cooler_rows
        return [
            row
            for corpus in self.corpora
            for row in predicted(
                [r for r in found if r["corpus"] == corpus], self.profile(corpus, temperature)
            )
        ]

    @cached_property
    def points(self) -> list[Row]:
        """Cells as points of the Pareto figure."""
        return points(self.rows)

    @cached_property
    def false_positives(self) -> list[Row]:
        """Exact test on unmarked texts, for every gamma that is compared."""
        found = []
        for corpus in self.corpora:
            texts = self.unmarked(corpus)
            mine = {row["gamma"] for row in self.rows if row["corpus"] == corpus}
            counts = {g: counts_of(with_colours(self.lab, texts, g)) for g in sorted(mine)}
            for gamma, seen in counts.items():
                k = int(critical_count(N_TOKENS, gamma, ALPHA))
                found.append({"corpus": corpus, "gamma": gamma} | _told(detected(seen, k)))
        return found

    @cached_property
    def quantiles(self) -> list[Row]:
        """Data of the Q-Q plots."""
        gamma, delta = grids.INFLATED
        (_, unmarked), (_, marked) = self.long
        coloured = with_colours(self.lab, unmarked, gamma)
        return quantiles(coloured, marked, gamma, delta, self.scale.long_tokens)

    @cached_property
    def inflations(self) -> list[Row]:
        """The c-hat of each corpus, and the profile's."""
        gamma, delta = grids.INFLATED
        counts: dict[str, Array] = {}
        for cell, texts in self.compared:
            if (cell.method, cell.gamma, cell.delta) == ("grid", gamma, delta):
                counts[cell.corpus] = counts_of(texts)
        told = {c: self.profile(c).variance_inflation(N_TOKENS, gamma, delta) for c in counts}
        return inflations(counts, told)

    @cached_property
    def attacked(self) -> list[Row]:
        """What is found after signal removal, cell by cell."""
        return [
            row
            for cell, texts in self.compared
            if cell.gamma is not None
            for row in attack(self.lab, cell, texts, self.unmarked(cell.corpus))
        ]

    @cached_property
    def survivors(self) -> list[Row]:
        """The least KL that holds under signal removal, method by method."""
        return survivors(self.attacked, self.rows)

    @cached_property
    def likeness(self) -> list[Row]:
        """Quality of the methods' cells, with their KL and TPR; kept on disk."""
        shown = {row["cell"]: {key: row[key] for key in ("kl", "tpr")} for row in self.rows}
        cells = [(c, t) for c, t in self.compared if c.method in STYLES and t]
        found = []
        for cell, texts in cells:
            line = signature("likeness", texts=texts[0]["signature"], cell=cell.name)
            row = self.lab.remembered(line, lambda c=cell, t=texts: self._likeness(c, t))  # type: ignore[misc]
            found.append(row | shown[cell.name])
        return found

    def _likeness(self, cell: Cell, texts: list[Record]) -> Row:
        return likeness(cell, texts, self.unmarked(cell.corpus), most=self.scale.few)


def _told(found: Estimate) -> Row:
    return {"texts": found.texts, "fpr": found.value, "low": found.low, "high": found.high}
