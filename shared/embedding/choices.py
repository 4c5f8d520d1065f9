"""A model that the owner may want: found by any of its names, whichever the settings name, and whether a provider has it here.

In the table (known_models.py) or not: a model that only Ollama or fastembed knows can be measured, without prefixes, but not be set.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Literal

from shared.config.packages import EMBEDDER_PARTS, how_to_add, missing_package
from shared.config.settings import Settings
from shared.embedding.known_models import KNOWN_MODELS, LOCAL_MODEL, UNKNOWN, KnownModel, Provider
from shared.embedding.models import Embedder
from shared.embedding.open import open_model, open_ollama, open_shipped
from shared.errors import EmbeddingError, InvalidInput

#: Values of EMBEDDER that name a model.
EmbedderName = Literal["local", "fastembed", "ollama"]
EMBEDDERS: tuple[EmbedderName, ...] = ("local", "ollama", "fastembed")
#: Seconds that `installed` waits for Ollama.
ASKING_SECONDS = 3.0


@dataclass(frozen=True)
class ModelChoice:
    """A model at a provider: `embedder` and `name` are what EMBEDDER and EMBED_MODEL would be."""

    embedder: EmbedderName
    name: str
    model: KnownModel
    listed: bool = True

    def open(self, settings: Settings) -> Embedder:
        """EmbeddingError if it is not here, or is not what the table says."""
        if self.embedder == "local":
            return open_shipped()
        if self.embedder == "ollama":
            self._refuse_unless_pulled(settings)
        return open_model(settings, self.embedder, self.model, self.name)

    def _refuse_unless_pulled(self, settings: Settings) -> None:
        with closing(open_ollama(settings)) as server:
            if server.find(self.name) is None:
                raise EmbeddingError(
                    f"Ollama at {settings.ollama_url} has no model {self.name}. Run where it runs: ollama pull {self.name}"
                )


def in_use(settings: Settings) -> ModelChoice | None:
    """The model that the settings name; None for EMBEDDER=none, or if they name none that there is."""
    if settings.embedder == "none":
        return None
    for model in KNOWN_MODELS:
        if settings.embedder == "local":
            return ModelChoice("local", str(LOCAL_MODEL.ollama), LOCAL_MODEL)
        if model.is_called(settings.embed_model, settings.embedder):
            return ModelChoice(settings.embedder, settings.embed_model, model)
    return None


def choice_of(settings: Settings, name: str, embedder: EmbedderName | None = None) -> ModelChoice:
    """The model of this name: at that embedder, else at the one that the settings name if it has it, else at the first of EMBEDDERS that has.

    InvalidInput if nobody knows it; EmbeddingError if Ollama, which would have to know it, does not answer.
    """
    listed = next((model for model in KNOWN_MODELS if _is_called(model, name)), None)
    if listed is None:
        return _unlisted(settings, name, embedder)
    has_it = [one for one in EMBEDDERS if _name_at(listed, one, name)]
    if embedder and embedder not in has_it:
        raise InvalidInput(f"EMBEDDER={embedder} does not have {name}. Use --embedder {' or '.join(has_it)}.")
    preferred = [one for one in has_it if one == (embedder or settings.embedder)]
    chosen = (preferred or has_it)[0]
    return ModelChoice(chosen, str(_name_at(listed, chosen, name)), listed)


def _is_called(model: KnownModel, name: str) -> bool:
    return name == model.name or model.is_called(name, "ollama") or model.is_called(name, "fastembed")


def _name_at(model: KnownModel, embedder: EmbedderName, asked: str) -> str | None:
    """What EMBED_MODEL would be, or None if this embedder does not have the model."""
    if embedder == "local":
        return model.ollama if model is LOCAL_MODEL else None
    return asked if embedder == "ollama" and model.is_called(asked, "ollama") else model.named_by(embedder)


def _unlisted(settings: Settings, name: str, embedder: EmbedderName | None) -> ModelChoice:
    if embedder == "local":
        raise InvalidInput(
            f"EMBEDDER=local is {LOCAL_MODEL.name} and no other model. Use --embedder ollama or fastembed."
        )
    if embedder != "ollama" and not missing_package(EMBEDDER_PARTS["fastembed"]):
        from shared.embedding.fastembed import unlisted_model

        if model := unlisted_model(name):
            return ModelChoice("fastembed", model.name, model, listed=False)
    if embedder != "fastembed" and (model := _of_ollama(settings, name)):
        return ModelChoice("ollama", name, model, listed=False)
    if embedder == "fastembed":
        raise InvalidInput(f"Neither the table nor fastembed has a model {name}. hmem embedder list shows the names.")
    raise InvalidInput(
        f"Neither the table nor Ollama at {settings.ollama_url} has a model {name}. hmem embedder list shows the names; "
        f"if it is in Ollama's library, run where that runs: ollama pull {name}"
    )


def _of_ollama(settings: Settings, name: str) -> KnownModel | None:
    """A model that is pulled, with the dimensions of its vectors; None if it is not."""
    with closing(open_ollama(settings)) as server:
        if server.find(name) is None:
            return None
        dimensions = server.embed(name, ["first call"], 1, lambda rows: len(rows[0]))
    return KnownModel(name, name, dimensions, 0, "", "", UNKNOWN, 0, ollama=name)


@dataclass(frozen=True)
class Installed:
    """What is here: names in Ollama (with tag) and their bytes, families of fastembed; why one of the two could not be asked, or None."""

    ollama: dict[str, int]
    fastembed: frozenset[str]
    no_ollama: str | None = None
    no_fastembed: str | None = None

    def has(self, model: KnownModel, provider: Provider) -> bool:
        if provider == "fastembed":
            return model.family in self.fastembed
        return any(model.is_called(name, "ollama") for name in self.ollama)


def installed(settings: Settings) -> Installed:
    """Asks Ollama once, without waiting long, and looks into fastembed's directory. Never raises for either."""
    no_ollama, no_fastembed = (
        f"it needs a package that is not installed ({package}); to add it, {how_to_add(part)}"
        if (package := missing_package(part))
        else None
        for part in (EMBEDDER_PARTS["ollama"], EMBEDDER_PARTS["fastembed"])
    )
    pulled: dict[str, int] = {}
    here: set[str] = set()
    if no_ollama is None:
        hasty = settings.model_copy(update={"ollama_timeout": min(settings.ollama_timeout, ASKING_SECONDS)})
        try:
            with closing(open_ollama(hasty)) as server:
                pulled = {name: one.size for name, one in server.models(attempts=1).items()}
        except EmbeddingError as error:
            no_ollama = str(error)
    if no_fastembed is None:
        from shared.embedding.fastembed import cache_of, is_here

        cache = cache_of(settings)
        here = {model.family for model in KNOWN_MODELS if model.fastembed and is_here(model, cache)}
    return Installed(pulled, frozenset(here), no_ollama, no_fastembed)
