"""``docs/proof.md``, with its figures and tables, from the ledger alone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from powermark.files import make_folder, write_file
from proof.ledger import Ledger
from proof.sections import SECTIONS, Section, markdown

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

What is promised, tried at lengths that CI has no time for. Seeds are fixed; a run that is killed
goes on where it stopped; this page is written by the run itself.

```console
make prove                                              # all of it
python -m proof size --data data --work work/proof      # one part
```

What `work/proof/ledger-full` holds is not done again; to repeat a part, remove its folder there.
"""


def write_page(ledger: Ledger, folder: Path, about: dict[str, str]) -> list[str]:
    """Write the page and what it shows; return what is broken."""
    found = {part: ledger.entries(part) for part in PARTS}
    make_folder(folder)
    sections = {part: SECTIONS[part](entries, folder) for part, entries in found.items() if entries}
    broken = [f"{part}: {text}" for part, it in sections.items() for text in it.broken]
    rows = [["part", "claim", "tried", "result", "minutes of work"]]
    for part, claim in PARTS.items():
        if part not in sections:
            rows.append([part, claim, "-", "not run", "-"])
            continue
        tried, minutes = sections[part].tried, sum(entry.seconds for entry in found[part]) / 60
        result = _result(sections[part])
        rows.append([f"[{part}](#{part})", claim, tried, result, f"{minutes:.1f}"])
    commits = Counter(entry.commit or "unknown" for part in found.values() for entry in part)
    at = ", ".join(f"{count:,} pieces at {commit}" for commit, count in commits.most_common())
    told = "\n".join(f"- {name}: {value}" for name, value in {**about, "found": at}.items())
    texts = [_INTRO, told, markdown(rows)]
    texts += [f"## {part}\n\n{_head(part)}\n\n{it.text}" for part, it in sections.items()]
    write_file(folder / "proof.md", ("\n\n".join(text.strip() for text in texts) + "\n").encode())
    return broken


def _head(part: str) -> str:
    """Say what a part claims, and how to do it alone."""
    return f"The claim: {PARTS[part]}. Alone: `python -m proof {part}`."


def _result(section: Section) -> str:
    if section.broken:
        return f"**{len(section.broken)} broken**"
    return "holds" if section.known else "unknown"
