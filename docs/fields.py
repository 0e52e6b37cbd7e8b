"""Tables of fields for the reference: names and types from the code, meanings from ``words.py``."""

from __future__ import annotations

import dataclasses
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
from pydantic import BaseModel
from words import WORDS

from powermark.corpus.batches import Reject
from powermark.corpus.scanner import SCHEMA
from powermark.corpus.summary import MarkSummary
from powermark.detection.detection import Detection
from powermark.detection.inspection import Piece
from powermark.interfaces.server.refusals import Problem
from powermark.interfaces.server.schemas import Batch, Curve, Verdict
from powermark.measuring.audit import Audit, AuditRow
from powermark.measuring.estimates import Estimate
from powermark.measuring.verification import Check, Verification
from powermark.planning.design import Design
from powermark.planning.plan import Plan
from powermark.signals.assumptions import Assumptions, Lags
from powermark.signals.profile import Profile
from powermark.signals.round_trip import RoundTrip

_NAMES = {
    float: "number",
    int: "integer",
    str: "text",
    bool: "boolean",
    dict: "object",
    NoneType: "null",
    np.float32: "float32",
    np.int32: "int32",
    "string": "text",
    "double": "number",
    "int64": "integer",
}
_CLASSES: dict[str, type] = {
    "Design": Design,
    "Plan": Plan,
    "Curve": Curve,
    "Detection": Detection,
    "Piece": Piece,
    "Verdict": Verdict,
    "Batch": Batch,
    "Verification": Verification,
    "Check": Check,
    "Estimate": Estimate,
    "MarkSummary": MarkSummary,
    "Reject": Reject,
    "Audit": Audit,
    "AuditRow": AuditRow,
    "Assumptions": Assumptions,
    "Lags": Lags,
    "error": Problem,
    "profile": Profile,
}
_ABOUT = dict.fromkeys(("version", "vocab_size", "n_tokens", "top_k", "seed", "batch"), "integer")
_ABOUT |= dict.fromkeys(("texts", "steps", "next"), "integer")
_ABOUT |= {"temperature": "number", "top_p": "number", "marks": "object of text"}
_ABOUT |= {"min_p": "number", "repetition_penalty": "number", "chat": "boolean"}
_ABOUT |= {"survival": "object of number", "typical": "object of [number, number]"}
_ABOUT |= {
    "answered": "number",
    "randomness": "object of number",
    "reference": "object",
    "sharpened": "object",
}
_PLAIN: dict[str, dict[str, str]] = {  # what no class says; tests hold it against the real thing
    "Compared": {"model": "text", "promised": "object or null", "on_profile": "object or null"},
    "steering": {
        **dict.fromkeys(("n_tokens", "skipped"), "integer"),
        "deltas": "text",
        "rates": "list of list of number",
        **dict.fromkeys(("weights", "lost"), "list of number"),
    },
    "tokens": {"statement": "text", "pieces": "list of Piece", "evidence": "list of number"},
    "stream": {
        "detected": "boolean",
        "detected_at": "integer or null",
        **dict.fromkeys(("tokens", "scored", "green"), "integer"),
        **dict.fromkeys(("log_e", "alpha"), "number"),
    },
    "summary": {
        **dict.fromkeys(("rejects", "files_not_read"), "integer"),
        "marks": "list of MarkSummary",
        "this_run": "object of number",
    },
    "record": {
        **dict.fromkeys(("index", "seed", "lost_ids"), "integer"),
        **dict.fromkeys(("text", "thinking", "signature"), "text"),
        "prompt": "text or list of object",
        **dict.fromkeys(("prompt_ids", "token_ids"), "list of integer"),
        "finished": "boolean",
        **dict.fromkeys(("kl", "green_rate", "certainty"), "list of number"),
    },
    "step": {
        **dict.fromkeys(("text", "state"), "text"),
        **dict.fromkeys(("scored", "green"), "integer"),
        "log_e": "number",
        "detected_at": "integer or null",
    },
    "green list": {
        "scheme": "text",
        "key_fingerprint": "text or null",
        "gamma": "number",
        "vocab_size": "integer",
        **dict.fromkeys(("context", "green"), "list of integer"),
    },
    "loaded": {
        **dict.fromkeys(("version", "scope"), "text"),
        "model": "text or null",
        "chat": "boolean",
        **dict.fromkeys(("specs", "profiles", "references", "examples"), "list of object"),
    },
    "about": {name: _ABOUT.get(name, "text") for name in WORDS["about"]},
}
_SHAPES = {  # of arrays
    "head": "(steps, K)",
    **dict.fromkeys(("tail_mass", "tail_square", "text", "ids", "strength"), "(steps,)"),
    **dict.fromkeys(("copies_text", "copies_ids", "copies_step"), "(tokens,)"),
    "copies_returns": "(steps,)",
}
_LIKE = {"row": "Detection", "Verdict": "Detection"}  # where fields of the same name mean the same


def kind(found: Any) -> str:
    """Return a type as JSON has it, in few words."""
    arguments = get_args(found)
    origin = get_origin(found)
    if origin is Literal:
        return ", ".join(f"`{one}`" for one in arguments)
    if origin in (Union, UnionType):
        return " or ".join(map(kind, arguments))
    if origin is dict:
        of = kind(arguments[1])
        of = f"({of})" if " or " in of else of
        return "object" if arguments[1] is Any else f"object of {of}"
    if origin is list or (origin is tuple and arguments[-1] is Ellipsis):
        return f"list of {kind(arguments[0])}"
    if origin is tuple:
        return f"[{', '.join(map(kind, arguments))}]"
    if origin is np.ndarray:
        return kind(get_args(arguments[1])[0])
    return _NAMES.get(found, getattr(found, "__name__", str(found)))


def fields(name: str) -> dict[str, str]:
    """Return the type of each field of one table."""
    if name == "row":
        found = {field.name: _NAMES[str(field.type)] for field in SCHEMA}
        return {**found, "holm": "boolean", "copy_of": "text or null"}
    if name in _PLAIN:
        order = list(WORDS[name]).index
        return {field: _PLAIN[name][field] for field in sorted(_PLAIN[name], key=order)}
    of = _CLASSES[name]
    hints = get_type_hints(of)
    own = [field.name for field in dataclasses.fields(of)] if dataclasses.is_dataclass(of) else []
    own = list(of.model_fields) if issubclass(of, BaseModel) else own or list(hints)
    if issubclass(of, Design) and of is not Design:
        own = [field for field in own if field not in Design.__dataclass_fields__]
    found = {field: kind(hints[field]) for field in own if field[0] != "_"}
    if name == "profile":
        theirs = get_type_hints(RoundTrip)
        found |= {f"copies_{field}": kind(hint) for field, hint in theirs.items()}
        return {field: f"{found[field]} {shape}" for field, shape in _SHAPES.items()}
    before = {"source": "text"} if name == "Detection" else {}
    after = {"broken": "list of text", "outcome": "text"} if name == "Verification" else {}
    changed = {"rejected": "list of text"} if name == "Audit" else {}
    unknown = ("value", "low", "high") if name == "Estimate" else ()
    changed |= dict.fromkeys(unknown, "number or null")
    return {**before, **found, **changed, **after}


def meaning(table: str, field: str) -> str:
    """Return what a field means."""
    return WORDS[table].get(field) or WORDS[_LIKE[table]][field]


def table(name: str, *, without: tuple[str, ...] = ()) -> str:
    """Return a table as Markdown."""
    lines = [
        f"| `{field}` | {of} | {meaning(name, field)} |"
        for field, of in fields(name).items()
        if field not in without
    ]
    return "\n".join(["| field | type | is |", "|---|---|---|", *lines]) + "\n"
