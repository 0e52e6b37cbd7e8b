"""All experiments on one model: each run and each comparison is computed once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from powermark.checks import Array
from powermark.generation.writing import Record, Sampling
from powermark.measuring.quality import bert_score, bleu, rouge_l
from powermark.paper import methods
from powermark.paper.contest import finalists
from powermark.paper.figures_methods import STYLES, points
from powermark.paper.figures_texts import inflations, predicted, quantiles
from powermark.paper.results import (
    Row,
    attack,
    by_cell,
    counts_of,
    false_positives,
    held,
    quality_of,
    summarise,
)
from powermark.paper.runner import Cell, run, with_colours
from powermark.paper.settings import AUTHORS_TEMPERATURE, N_TOKENS, TOKENS, Scale
from powermark.paper.workspace import Workspace
from powermark.signals.profile import Profile
from powermark.signature import signature

Texts = list[tuple[Cell, list[Record]]]


@dataclass(frozen=True)
class Study:
    """The paper's experiments with one model, on some corpora, at some scale."""

    workspace: Workspace
    scale: Scale
    corpora: tuple[str, ...]

    def check(self) -> None:
        """Fail before hours of work: on too few prompts, or a missing package."""
        for needed in (bleu, rouge_l, bert_score):
            needed(["a text"], ["a text"])
        for corpus in self.corpora:
            self.workspace.openings(corpus, 1, first=self.scale.prompts - 1)

    @cached_property
    def compared(self) -> Texts:
        """Every method on every corpus at temperature 1."""
        found: Texts = []
        for corpus in self.corpora:
            found += self._run(list(methods.rivals(corpus, self.scale)))
            found += self._run(list(methods.ours(self.workspace, corpus, self.scale)))
        return found

    @cached_property
    def final(self) -> Texts:
        """The cheapest cells of every method, on prompts that no choice was made on."""
        found: Texts = []
        searched = (self.rows, self.held_in_search)
        for corpus in self.corpora:
            rows, after = ([r for r in some if r["corpus"] == corpus] for some in searched)
            chosen = finalists(rows, after)
            cells = [c for c, _ in self.compared if c.corpus == corpus and c.name in chosen]
            unmarked = Cell(corpus=corpus, method="unmarked", texts=self.scale.final)
            anew = [unmarked, *(replace(cell, texts=self.scale.final) for cell in cells)]
            found += self._run(anew, first_prompt=self.scale.final_from)
        return found

    @cached_property
    def cooler(self) -> Texts:
        """The cells of the linear fits at the authors' temperature."""
        sampling = Sampling(n_tokens=TOKENS, temperature=AUTHORS_TEMPERATURE)
        cells = (methods.fitted(corpus, self.scale) for corpus in self.corpora)
        return [pair for some in cells for pair in self._run(some, sampling)]

    @cached_property
    def long(self) -> Texts:
        """Long texts of the first corpus, unmarked and marked."""
        sampling = Sampling(n_tokens=int(1.12 * self.scale.long_tokens) + 8)
        cells = methods.long(self.corpora[0], self.scale)
        return self._run(cells, sampling, batch=self.scale.long_batch)

    def _run(
        self,
        cells: list[Cell],
        sampling: Sampling | None = None,
        *,
        batch: int | None = None,
        first_prompt: int = 0,
    ) -> Texts:
        records = run(
            self.workspace,
            cells,
            sampling or Sampling(n_tokens=TOKENS),
            batch=batch or self.scale.batch,
            first_prompt=first_prompt,
        )
        return by_cell(cells, records)

    @cached_property
    def profile(self) -> Callable[..., Profile]:
        """The model's profile on a corpus, at temperature 1 or another; each is read once."""

        def read(corpus: str, temperature: float = 1.0) -> Profile:
            return methods.profile_of(self.workspace, corpus, self.scale, temperature)

        return lru_cache(read)

    @cached_property
    def rows(self) -> list[Row]:
        """A summary of each marked cell."""
        return _summaries(self.compared)

    @cached_property
    def final_rows(self) -> list[Row]:
        """Summaries of the cells written anew."""
        return _summaries(self.final)

    @cached_property
    def cooler_rows(self) -> list[Row]:
        """Summaries at the authors' temperature."""
        return _summaries(self.cooler)

    def predictions(self, temperature: float = 1.0) -> list[Row]:
        """Cells of the linear fits, with the predictions of plug-in and profile."""
        found = self.rows if temperature == 1.0 else self.cooler_rows
        return [
            row
            for corpus in self.corpora
            for row in predicted(
                [r for r in found if r["corpus"] == corpus],
                self.profile(corpus, temperature),
                temperature,
            )
        ]

    @cached_property
    def points(self) -> list[Row]:
        """Cells as points of the Pareto figure, those of the search first."""
        return [*points(self.rows, "search"), *points(self.final_rows, "final")]

    @cached_property
    def false_positives(self) -> list[Row]:
        """Tests on the unmarked texts of search and final, for every gamma compared."""
        return [
            row
            for corpus in self.corpora
            for row in false_positives(
                self.workspace,
                corpus,
                [*_unmarked(self.compared, corpus), *_unmarked(self.final, corpus)],
                sorted({row["gamma"] for row in self.rows if row["corpus"] == corpus}),
            )
        ]

    @cached_property
    def quantiles(self) -> list[Row]:
        """Data of the Q-Q plots."""
        gamma, delta = methods.INFLATED
        (_, unmarked), (_, marked) = self.long
        coloured = with_colours(self.workspace, unmarked, gamma)
        return quantiles(coloured, marked, gamma, delta, self.scale.long_tokens)

    @cached_property
    def inflations(self) -> list[Row]:
        """The c-hat of each corpus, and the profile's."""
        gamma, delta = methods.INFLATED
        counts: dict[str, Array] = {}
        for cell, texts in self.compared:
            if (cell.method, cell.gamma, cell.delta) == ("grid", gamma, delta):
                counts[cell.corpus] = counts_of(texts)
        by_profile = {c: self.profile(c).variance_inflation(N_TOKENS, gamma, delta) for c in counts}
        return inflations(counts, by_profile)

    @cached_property
    def attacked(self) -> list[Row]:
        """Detections among the final texts after signal removal, cell by cell."""
        return self._attacked(self.final)

    @cached_property
    def held_in_search(self) -> list[Row]:
        """As ``held``, for the cells of the search."""
        return held(self._attacked(self.compared), self.rows)

    @cached_property
    def held(self) -> list[Row]:
        """The lesser TPR, before or after each removal, of the final cells, with their KL."""
        return held(self.attacked, self.final_rows)

    def _attacked(self, texts: Texts) -> list[Row]:
        return [
            row
            for cell, marked in texts
            if cell.gamma is not None
            for row in attack(self.workspace, cell, marked, _unmarked(texts, cell.corpus))
        ]

    @cached_property
    def quality(self) -> list[Row]:
        """Quality of the methods' cells, with their KL and TPR; kept on disk."""
        shown = {row["cell"]: {key: row[key] for key in ("kl", "tpr")} for row in self.rows}
        cells = [(c, t) for c, t in self.compared if c.method in STYLES and t]
        found = []
        for cell, texts in cells:
            line = signature("likeness", texts=texts[0]["signature"], cell=cell.name)
            row = self.workspace.remembered(line, lambda c=cell, t=texts: self._quality(c, t))  # type: ignore[misc]
            found.append(row | shown[cell.name])
        return found

    def _quality(self, cell: Cell, texts: list[Record]) -> Row:
        unmarked = _unmarked(self.compared, cell.corpus)
        return quality_of(cell, texts, unmarked, most=self.scale.few)


def _summaries(texts: Texts) -> list[Row]:
    return [summarise(cell, marked) for cell, marked in texts if cell.gamma is not None]


def _unmarked(texts: Texts, corpus: str) -> list[Record]:
    return next(t for c, t in texts if (c.corpus, c.method) == (corpus, "unmarked"))
