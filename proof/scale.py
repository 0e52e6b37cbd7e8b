"""How much of everything: ``full`` is the proof, ``tiny`` shows in seconds that it runs."""

from __future__ import annotations

from dataclasses import dataclass

ALPHAS = (0.05, 0.01, 1e-3, 1e-4)
LENGTHS = (50, 100, 200, 400)  # counted tokens of human text
SIMULATED_LENGTHS = (50, 200)
FALSE_ALARM = 0.01  # probability that an honest proof says that a size is above its alpha


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Counts of the parts.

    ``keys`` times ``texts`` simulated texts make a cell of scheme pm1; other tools' schemes, which
    draw a permutation for every list, have ``compat_texts``. ``human`` and ``compat_human`` are
    texts of each dataset, None for all of them; ``templates`` texts of each kind of template.
    ``block`` keys make a piece.
    """

    gammas: tuple[float, ...] = (0.1, 0.25, 0.5, 0.75, 0.9)
    compat_gammas: tuple[float, ...] = (0.25, 0.5, 0.75)
    compat_human_gammas: tuple[float, ...] = (0.25, 0.5)
    widths: tuple[int, ...] = (0, 1, 2, 4)
    keys: int = 250
    texts: int = 4_000
    compat_texts: int = 400
    human: int | None = None
    compat_human: int = 150
    templates: int = 100
    block: int = 50
    plans: int | None = None
    promised_texts: int = 200
    profiled: int = 192
    documents: int = 131_072  # of the corpus that is scanned: four partitions
    kills: int = 20
    connections: int = 1_000  # of a crowd that attacks a server
    fuzzed: int = 20_000
    rounds: int = 20


SCALES = {
    "full": Scale(),
    "tiny": Scale(
        gammas=(0.5,),
        compat_gammas=(0.25,),
        compat_human_gammas=(0.25,),
        widths=(1,),
        keys=4,
        texts=40,
        compat_texts=4,
        human=4,
        compat_human=2,
        templates=2,
        block=2,
        plans=1,
        promised_texts=4,
        profiled=12,
        documents=2_000,
        kills=1,
        connections=300,
        fuzzed=40,
        rounds=1,
    ),
}
