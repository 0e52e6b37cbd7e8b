"""Signal models as options and fields name them, for the command line and the server."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from powermark.errors import InvalidInput, SpecMismatch

if TYPE_CHECKING:
    from powermark.signals.priors import BetaMixture, TopicMixture
    from powermark.signals.profile import Source
    from powermark.signals.signal import SignalModel


def signal_model(
    signal: str,
    *,
    vocab_size: int | None = None,
    concentration: float = 1.0,
    mixture: str | None = None,
    topics: str | None = None,
    profile: SignalModel | None = None,
    like: str | None = None,
    entropy: float | None = None,
    source: str | None = None,
) -> SignalModel:
    """Return the signal model that these options name.

    ``like`` names a reference profile, and ``entropy`` sharpens it. ``source`` is what the detector
    is given, text or the sampled ids; for a profile.
    """
    from powermark.signals.priors import Dirichlet
    from powermark.signals.signal import PlugIn

    if [profile is not None, like is not None, signal != "plug-in"].count(True) > 1:
        raise InvalidInput("give one of `profile`, `like` and `signal`.")
    if entropy is not None and like is None:
        raise InvalidInput(
            "`entropy` needs `like`, the reference profile that it sharpens.",
            hint="a profile of your own has the entropy that was recorded.",
        )
    if like is not None:
        from powermark.signals.references import reference_profile

        profile = reference_profile(like, entropy=entropy)
    given = {
        "dirichlet": vocab_size is not None or concentration != 1.0,
        "mixture": mixture is not None,
        "topics": topics is not None,
    }
    if any(present for name, present in given.items() if name != signal):
        raise InvalidInput(
            "`vocab_size` and `concentration` need `signal` dirichlet, "
            "`mixture` needs `signal` mixture, `topics` needs `signal` topics."
        )
    if source is not None:
        return _seen_from(profile, source)
    if profile is not None:
        return profile
    if signal == "plug-in":
        return PlugIn()
    if signal == "dirichlet":
        if vocab_size is None:
            raise InvalidInput("`signal` dirichlet needs `vocab_size`.")
        return Dirichlet(vocab_size, concentration)
    if signal == "mixture":
        return _mixture(mixture or "")
    if signal == "topics":
        return _topics(topics or "")
    raise InvalidInput(f"signal must be plug-in, dirichlet, mixture or topics; got {signal!r}.")


def _seen_from(profile: SignalModel | None, source: str) -> SignalModel:
    """Return a profile as a detector sees it that is given text, or the sampled ids."""
    from powermark.signals.profile import Profile

    if source not in ("text", "ids"):
        raise InvalidInput(f"source must be text or ids; got {source!r}.")
    if not isinstance(profile, Profile):
        raise InvalidInput("`source` needs a profile: without one nothing is known of texts.")
    return profile.seen_from(cast("Source", source))


def _mixture(text: str) -> BetaMixture:
    """Read ``WEIGHT:CONCENTRATION,...``."""
    from powermark.signals.priors import BetaMixture

    try:
        parts = [tuple(float(x) for x in part.split(":")) for part in text.split(",")]
        weights, concentrations = zip(*parts, strict=True)
    except ValueError:
        raise InvalidInput(
            "mixture must be WEIGHT:CONCENTRATION,... in numbers.",
            hint="for example .3:1,.7:90",
        ) from None
    return BetaMixture(weights, concentrations)


def _topics(text: str) -> TopicMixture:
    """Read ``CONCENTRATION=MIXTURE/...``."""
    from powermark.signals.priors import TopicMixture

    parts = [part.partition("=") for part in text.split("/")]
    try:
        shares = tuple(float(share) for share, _, _ in parts)
        mixtures = tuple(_mixture(mixture) for _, _, mixture in parts)
    except (ValueError, InvalidInput):
        raise InvalidInput(
            "topics must be CONCENTRATION=WEIGHT:CONCENTRATION,.../... in numbers above 0.",
            hint="for example .4=1:5/.6=.3:1,.7:90",
        ) from None
    return TopicMixture(mixtures, shares)


def tokens_of(
    signal: SignalModel,
    vocab_size: int | None,
    digest: str | None,
    *,
    model: str | None = None,
    hint: str,
) -> tuple[int, str | None]:
    """Return the vocabulary's size and the tokenizer's digest for a spec.

    A profile supplies them, but not a reference profile; a profile of another model or tokenizer is
    refused. ``hint`` says how to name the vocabulary.
    """
    about = signal.origin
    if model is not None and about.get("model", model) != model:
        raise SpecMismatch(
            f"the profile is of {about['model']!r}; the spec would be for {model!r}.",
            hint="record a profile of the model that the spec is for.",
        )
    size, theirs = about.get("vocab_size", vocab_size), about.get("tokenizer_digest", digest)
    if size is None:
        raise InvalidInput("a spec needs to know the vocabulary.", hint=hint)
    if vocab_size not in (None, size) or digest not in (None, theirs):
        raise SpecMismatch(
            f"the profile is of {about.get('model')!r}, whose tokenizer is not the spec's.",
            hint="record a profile of the model that the spec is for.",
        )
    return size, theirs
