"""``docs/proof.md``, with its figures and tables, from the ledger alone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from powermark.files import make_folder, write_file
from proof.ledger import Ledger
from proof.sections import SECTIONS, markdown

PARTS = {
    "size": "text without a mark is called marked at most as often as alpha says",
    "promise": "plans keep what they promise on a real model",
    "faults": "nothing is lost, and what goes wrong is said in a sentence",
    "fuzz": "no input ends in a traceback",
    "concurrency": "two processes do not harm each other",
    "secrets": "the key is nowhere but in its file",
}
_INTRO = """\
# The proof

What is promised, tried at lengths that CI has no time for. Everything has a fixed seed; a run that
is killed goes on where it stopped; this page is written by the run itself.

```console
make prove                                              # all of it
python -m proof size --data data --work work/proof      # one part
```
"""


def write_page(ledger: Ledger, folder: Path, about: dict[str, str]) -> list[str]:
    """Write the page and what it shows; return what is broken."""
    found = {part: ledger.entries(part) for part in PARTS}
    make_folder(folder)
    sections = {part: SECTIONS[part](entries, folder) for part, entries in found.items() if entries}
    broken = [f"{part}: {text}" for part, (_, bad, _) in sections.items() for text in bad]
    rows = [["part", "claim", "tried", "result", "minutes of work"]]
    for part, claim in PARTS.items():
        if part not in sections:
            rows.append([part, claim, "-", "not run", "-"])
            continue
        tried, bad, _ = sections[part]
        minutes = sum(entry.seconds for entry in found[part]) / 60
        result = f"**{len(bad)} broken**" if bad else "holds"
        rows.append([f"[{part}](#{part})", claim, tried, result, f"{minutes:.1f}"])
    commits = Counter(entry.commit or "unknown" for part in found.values() for entry in part)
    at = ", ".join(f"{count:,} pieces at {commit}" for commit, count in commits.most_common())
    told = "\n".join(f"- {name}: {value}" for name, value in {**about, "found": at}.items())
    texts = [_INTRO, told, markdown(rows)]
    texts += [f"## {part}\n\n{text}" for part, (_, _, text) in sections.items()]
    write_file(folder / "proof.md", ("\n\n".join(text.strip() for text in texts) + "\n").encode())
    return broken
