"""Texts made from templates, for audits: records, logs, tables, licence headers, code and base64.

Documents of one template share most of their n-grams, and a key gives those the same colours in
all of them: a key with unlucky colours rejects the whole template. These texts, from our own
wordings and random values, are for auditing a key without files of one's own.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence

import numpy as np

from powermark.errors import InvalidInput

Rng = np.random.Generator


def _words(text: str) -> list[str]:
    return text.split()


_NAMES = _words(
    "Ada Bruno Chen Dalia Emeka Farid Greta Hiro Ines Jonas Kavya Lena Milan Nadia Omar Priya "
    "Quinn Rosa Sven Tariq Uma Viktor Wanda Xenia Yusuf Zoe"
)
_FAMILIES = _words(
    "Abel Bakker Castro Dunne Eriksen Fofana Garcia Huang Ito Jensen Kowal Larsen Moreau Novak "
    "Okafor Petrov Quist Rossi Silva Tanaka Ueda Varga Weber Xu Yilmaz Zhang"
)
_CITIES = _words("Accra Bergen Cusco Dakar Espoo Fukuoka Ghent Hanoi Izmir Jaipur Kigali Lima")
_THINGS = _words(
    "lamp chair kettle bicycle notebook jacket camera blanket guitar helmet ladder mirror pillow "
    "radio scarf tent umbrella vase wallet basket"
)
_PARTS = _words(
    "parser scheduler renderer tokenizer collector compiler debugger exporter formatter indexer "
    "linker monitor planner resolver sampler tracer"
)
_VERBS = _words("load merge count filter update check split rank group shift")
_NOUNS = _words("rows items scores events totals weights blocks labels points limits")
_SERVICES = _words("billing search catalog gateway mailer session upload report")


def _one(rng: Rng, words: Sequence[str]) -> str:
    return words[int(rng.integers(len(words)))]


def _number(rng: Rng, low: int, high: int) -> int:
    return int(rng.integers(low, high))


def _person(rng: Rng) -> str:
    return f"{_one(rng, _NAMES)} {_one(rng, _FAMILIES)}"


def _json(rng: Rng) -> str:
    """Write one order of a shop."""
    record = {
        "order_id": _number(rng, 10_000, 100_000),
        "created_at": f"2024-{_number(rng, 1, 13):02}-{_number(rng, 1, 29):02}T08:15:00Z",
        "status": _one(rng, ["open", "paid", "shipped", "returned"]),
        "customer": {
            "full_name": _person(rng),
            "customer_number": _number(rng, 1_000, 10_000),
            "email_verified": bool(rng.random() < 0.8),
            "preferred_language": _one(rng, ["en", "fr", "de", "pt"]),
        },
        "shipping_address": {
            "street": f"{_one(rng, _FAMILIES)} Street",
            "house_number": _number(rng, 1, 200),
            "postal_code": f"{_number(rng, 10_000, 100_000)}",
            "city": _one(rng, _CITIES),
            "delivery_instructions": None,
        },
        "line_item": {
            "product_name": _one(rng, _THINGS),
            "unit_price": round(float(rng.uniform(3, 300)), 2),
            "quantity": _number(rng, 1, 9),
            "discount_percent": 5 * _number(rng, 0, 5),
            "tax_category": "standard",
            "gift_wrapping": False,
        },
        "payment": {
            "method": _one(rng, ["card", "transfer", "voucher"]),
            "currency": "EUR",
            "authorised": True,
            "invoice_reference": f"INV-{_number(rng, 100_000, 1_000_000)}",
        },
        "warehouse": {"site_code": _one(rng, _CITIES)[:3].upper(), "shelf": _number(rng, 1, 90)},
        "schema_version": 3,
    }
    return json.dumps(record, indent=2)


def _events(rng: Rng) -> list[str]:
    """Write what a service logs."""
    status = _one(rng, ["200", "204", "404"])
    worker, job = _number(rng, 1, 16), _number(rng, 1_000, 9_999)
    account, minutes = _number(rng, 100, 999), _number(rng, 2, 60)
    return [
        f"request accepted path=/v2/{_one(rng, _THINGS)} client=10.0.{_number(rng, 0, 9)}.7",
        f"cache miss for key user:{_number(rng, 100, 999)}, reading from primary store",
        f"query finished rows={_number(rng, 1, 500)} duration_ms={_number(rng, 1, 90)}",
        f"retrying connection to {_one(rng, _SERVICES)}.internal after timeout",
        f"worker {worker} took job {job} from the queue",
        f"health check passed, memory at {_number(rng, 20, 90)} percent of the limit",
        f"response sent status={status} bytes={_number(rng, 90, 9_000)}",
        f"configuration reloaded by {_one(rng, _NAMES).lower()}, no changes found",
        f"token of account {account} expires in {minutes} minutes",
        f"wrote snapshot number {_number(rng, 10, 999)} to disk, old snapshots removed",
        f"rate limit reached for tenant {_one(rng, _CITIES).lower()}, request delayed",
        f"scheduled task {_one(rng, _VERBS)}-{_one(rng, _NOUNS)} ended without errors",
    ]


def _logs(rng: Rng) -> str:
    """Write the log of some minutes of one service."""
    service, day = _one(rng, _SERVICES), _number(rng, 1, 29)
    lines = []
    for minute, event in enumerate(_events(rng)):
        level = _one(rng, ["INFO", "INFO", "WARN"])
        clock = f"2024-03-{day:02} 11:{minute:02}:{_number(rng, 0, 60):02}"
        lines.append(f"{clock} {level:<5} [{service}] {event}")
    return "\n".join(lines)


def _table(rng: Rng) -> str:
    """Write a Markdown table of measurements."""
    columns = ("Station", "Operator", "Samples", "Mean", "Standard deviation", "Unit", "Status")
    lines = [
        "## Monthly measurements",
        "",
        "| " + " | ".join(columns) + " |",
        "|" + "".join("-" * (len(name) + 2) + "|" for name in columns),
    ]
    for city in _CITIES:
        mean, spread = rng.uniform(10, 30), rng.uniform(0.1, 3.0)
        cells = (city, _one(rng, _FAMILIES), f"{_number(rng, 10, 99)}", f"{mean:.1f}",
                 f"{spread:.2f}", "mg/l", _one(rng, ["ok", "ok", "review"]))  # fmt: skip
        widths = (len(name) for name in columns)
        lines.append("| " + " | ".join(map(str.ljust, cells, widths)) + " |")
    lines += ["", "Values below the limit of detection are left out of means and deviations."]
    return "\n".join(lines)


def _licence(rng: Rng) -> str:
    """Write the header of a file, in our own wording."""
    owner, part = _person(rng), _one(rng, _PARTS)
    return f"""\
/*
 * The {_one(rng, _CITIES)} {part}, part {_number(rng, 1, 40)} of the {_one(rng, _THINGS)} project.
 * Written in {_number(rng, 1998, 2025)} by {owner} and other contributors.
 *
 * Everybody may use this file, study how it works, change it to their own needs and hand on both
 * the original and what they made of it, for money or for nothing. Three things are asked in
 * return. These lines stay at the top of every copy. Whoever changes the file says so below them,
 * with a date, so that nobody takes the new version for the old one. And the name of
 * {owner} must not be used to advertise anything that was made with it, unless they agreed in
 * writing beforehand.
 *
 * The file comes as it is. Nobody promises that it does what you expect, that it is free of
 * mistakes, or that it suits your purpose; if it causes harm or loss of any sort, the people who
 * wrote it will not pay for that, even where somebody had told them that it might happen. If the
 * law where you live does not allow such a sentence, it holds as far as the law goes.
 *
 * Questions about the {part} go to the list of the project, not to the authors themselves.
 */"""


def _code(rng: Rng) -> str:
    """Write a small module with the usual parts."""
    verb, noun, other = _one(rng, _VERBS), _one(rng, _NOUNS), _one(rng, _NOUNS)
    name = f"{verb}_{noun}"
    return f'''\
"""{verb.capitalize()} the {noun} of a {_one(rng, _PARTS)}."""

import argparse
import logging
from pathlib import Path

logger = logging.getLogger(__name__)
LIMIT = {_number(rng, 10, 1_000)}


def {name}(path: Path, *, strict: bool = False) -> list[float]:
    """Return the {noun} of a file."""
    if not path.exists():
        raise FileNotFoundError(f"no such file: {{path}}")
    found: list[float] = []
    with path.open(encoding="utf-8") as stream:
        for number, line in enumerate(stream, start=1):
            try:
                value = float(line.strip()) / {_number(rng, 2, 100)}
            except ValueError:
                if strict:
                    raise
                logger.warning("line %d holds no number", number)
                continue
            if len(found) < LIMIT:
                found.append(value)
    return found


def {other}_of({noun}: list[float]) -> float:
    """Return the mean of the {other}."""
    return sum({noun}) / max(len({noun}), {_number(rng, 1, 5)})


def main() -> None:
    """Read the command line and print the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path, help="file to read")
    parser.add_argument("--strict", action="store_true", help="fail on the first bad line")
    options = parser.parse_args()
    print({other}_of({name}(options.path, strict=options.strict)))


if __name__ == "__main__":
    main()
'''


def _base64(rng: Rng) -> str:
    """Write a certificate-like block: a fixed frame around random bytes."""
    content = base64.encodebytes(rng.bytes(240)).decode().replace("\n", "")
    lines = [content[i : i + 64] for i in range(0, len(content), 64)]
    return "\n".join(["-----BEGIN BINARY DATA-----", *lines, "-----END BINARY DATA-----"])


_WRITERS: dict[str, Callable[[Rng], str]] = {
    "json": _json,
    "logs": _logs,
    "tables": _table,
    "licences": _licence,
    "code": _code,
    "base64": _base64,
}
KINDS = tuple(_WRITERS)


def templated(kind: str, texts: int, rng: Rng) -> list[str]:
    """Return texts of one kind, one of KINDS."""
    if kind not in _WRITERS:
        raise InvalidInput(f"kind must be one of {', '.join(KINDS)}; got {kind!r}.")
    return [_WRITERS[kind](rng) for _ in range(texts)]
