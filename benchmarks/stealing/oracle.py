"""The attacker who may ask the server, through the answers that its scopes really give.

``chance``   drafts of one's own, until one is called watermarked: nothing is learnt
``verdict``  colours one by one, from verdicts alone
``detect``   colours one by one, from p rounded up to a power of ten: the scope's own answer
``inspect``  colours of a long draft at once; the greenest pieces of it are put together

Verdicts and rounded p tell a colour at an edge: n tokens that are all green have p = gamma^n, so
with the least n that gets below the edge, n - 1 tokens known to be green and one more are below it
if and only if that one is green. Such a text is first found by chance; then it is grown to the
right, a query for each token tried, and no context is ever unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks.stealing import kernels
from benchmarks.stealing.kernels import PROMPT
from benchmarks.stealing.language import Ids, Language
from benchmarks.stealing.marks import LENGTH, POWER
from powermark import plan
from powermark.interfaces.server import schemas
from powermark.interfaces.server.access import Client
from powermark.interfaces.server.library import Library, LoadedMark
from powermark.interfaces.server.service import Service, new_service, shown_to
from powermark.watermark.keys import SecretKey
from powermark.watermark.spec import WatermarkSpec
from powermark.watermark.watermark import Watermark

DETECT, INSPECT = Client("mallory", "detect"), Client("eve", "inspect")
BATCH = 256  # texts of a request
DRAFT, PIECE = 10_000, 20  # tokens that are sent for inspection, and of the pieces they are cut to
Texts = list[list[int]]


@dataclass
class Oracle:
    """A server with one mark, its answers read as yes or no, and the number of texts sent."""

    service: Service
    gamma: float
    alpha: float
    context_width: int
    queries: int = 0

    def verdicts(self, texts: Texts) -> list[bool]:
        """Return which texts are called watermarked."""
        return [answer["verdict"] == "watermarked" for answer in self._ask(texts)]

    def decades(self, texts: Texts) -> list[bool]:
        """Return which texts have a p of a tenth or less."""
        return [answer["p"] <= 0.1 for answer in self._ask(texts)]

    def colours(self, ids: list[int]) -> Any:
        """Return which tokens are green, as the scope ``inspect`` tells."""
        self.queries += 1
        asked = schemas.DetectRequest.model_validate(
            {"spec": "mark", "token_ids": ids, "tokens": True}
        )
        pieces = self.service.detect(asked, INSPECT)["pieces"]
        return np.array([piece["state"] == "green" for piece in pieces])

    def _ask(self, texts: Texts) -> list[dict[str, Any]]:
        """Return what the scope ``detect`` is visible_answer.

        It takes text alone. The ids stand for a text that the tokenizer splits into them, behind a
        first word that does not count.
        """
        self.queries += len(texts)
        detector = self.service.detectors.get("mark", None, "count", 1, False)
        return [shown_to(DETECT, one, "") for one in detector.detect_many(texts)]


def make_oracle(language: Language, key: SecretKey, gamma: float, alpha: float, h: int) -> Oracle:
    """Return a server that has planned a mark for texts of LENGTH tokens."""
    best = plan(n_tokens=LENGTH, alpha=alpha, power=POWER, gamma=gamma)
    spec = WatermarkSpec.from_plan(best, vocab_size=language.vocab_size)
    spec = replace(spec, context_width=h)
    library = Library(marks={"mark": LoadedMark(name="mark", mark=Watermark(spec, key))})
    return Oracle(new_service(library, threads=1), best.gamma, alpha, h)


def by_chance(oracle: Oracle, language: Language, rng: np.random.Generator) -> list[int]:
    """Return a draft that happens to be called watermarked."""
    return _lucky(oracle, oracle.verdicts, language, LENGTH, rng)


def by_verdict(oracle: Oracle, language: Language, rng: np.random.Generator) -> list[int]:
    """Return a green text, its colours read from verdicts."""
    return _grown(oracle, oracle.verdicts, oracle.alpha, language, rng)


def by_rounded_p(oracle: Oracle, language: Language, rng: np.random.Generator) -> list[int]:
    """Return a green text, its colours read from p rounded up to a power of ten."""
    return _grown(oracle, oracle.decades, 0.1, language, rng)


def by_inspection(oracle: Oracle, language: Language, rng: np.random.Generator) -> list[int]:
    """Return the greenest pieces of one draft, put together."""
    draft = _drafts(language, 1, DRAFT, rng)[0][PROMPT:]
    green = oracle.colours(draft.tolist())
    best = np.argsort(-green.reshape(-1, PIECE).sum(axis=1), kind="stable")[: LENGTH // PIECE]
    return [int(token) for token in draft.reshape(-1, PIECE)[np.sort(best)].ravel()]


ATTACKS: dict[str, Callable[[Oracle, Language, np.random.Generator], list[int]]] = {
    "chance": by_chance,
    "verdict": by_verdict,
    "detect": by_rounded_p,
    "inspect": by_inspection,
}


def asking(
    language: Language, gamma: float, alpha: float, h: int, runs: int, rng: np.random.Generator
) -> list[dict[str, Any]]:
    """Run every attack some times against fresh keys; return queries needed and texts accepted."""
    rows = []
    for name, attack in ATTACKS.items():
        queries, accepted = [], []
        for _ in range(runs):
            oracle = make_oracle(language, SecretKey(rng.bytes(32)), gamma, alpha, h)
            text = attack(oracle, language, rng)
            queries.append(oracle.queries)
            accepted += oracle.verdicts([text])
            oracle.service.close()
        rows.append(
            {
                "gamma": gamma,
                "context_width": h,
                "alpha": alpha,
                "answers": name,
                "queries": float(np.median(queries)),
                "queries_low": min(queries),
                "queries_high": max(queries),
                "accepted": float(np.mean(accepted)),
            }
        )
    return rows


def _drafts(language: Language, count: int, length: int, rng: np.random.Generator) -> Ids:
    """Return texts of the attacker's own model, behind their prompts."""
    nothing = (np.uint64(0), np.uint64(0), 1, np.uint32(0), 0.5, 0.0)
    return language.write(count, length, nothing, rng)


def _lucky(
    oracle: Oracle,
    ask: Callable[[Texts], list[bool]],
    language: Language,
    length: int,
    rng: np.random.Generator,
) -> list[int]:
    """Return the first draft that gets a yes; those sent with it count no further."""
    while True:
        drafts = _drafts(language, BATCH, length, rng)[:, PROMPT - oracle.context_width :].tolist()
        answers = ask(drafts)
        if any(answers):
            first = answers.index(True)
            oracle.queries -= BATCH - 1 - first
            return [int(token) for token in drafts[first]]


def _grown(
    oracle: Oracle,
    ask: Callable[[Texts], list[bool]],
    edge: float,
    language: Language,
    rng: np.random.Generator,
) -> list[int]:
    """Return a text of green tokens, found by chance at an edge of p and grown from there."""
    n = int(np.ceil(np.log(edge) / np.log(oracle.gamma)))
    text = _lucky(oracle, ask, language, n, rng)
    known = oracle.context_width + n - 1
    while len(text) < LENGTH + oracle.context_width:
        token = kernels.draw_next(language.model, np.array(text, np.int64), rng)
        if ask([[*text[-known:], int(token)]])[0]:
            text.append(int(token))
    return text
