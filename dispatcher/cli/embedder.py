"""`hmem embedder`: the embedding models that the program knows, and one of them measured on the owner's own turns."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dispatcher.cli.arguments import Json, say_notes
from shared.config.settings import Settings
from shared.embedding.choices import EmbedderName, Installed, ModelChoice, choice_of, in_use, installed
from shared.embedding.known_models import KNOWN_MODELS, PROVIDERS, UNKNOWN, KnownModel, Provider
from shared.errors import HmemError, InvalidInput
from shared.system.command import application, print_json, start
from shared.text.format import size_text

if TYPE_CHECKING:
    from rich.table import Table

    from dispatcher.health.embedding.trial import Measured, Trial

app = application("The embedding models: list those that the program knows, try one on your own turns.")

#: Columns of the tables.
WIDTH = 100
#: Licences that ask for nothing but to be passed on.
FREE_LICENCES = ("apache-2.0", "mit")
#: Seconds between two lines of progress where no bar can be shown.
PLAIN_EVERY_SECONDS = 10.0

LEGEND = (
    "* in use   + on this computer (pulled or fetched; all-minilm comes with the program)\n"
    "langs: languages   dims: numbers of a vector   tokens: longest text\n"
    "LoCoMo: published recall@10 on conversations, by vectors alone; empty: none known\n"
    "hmem embedder try MODEL measures one on your own turns and says what to set."
)


@app.command("list")
def list_(json: Json = False) -> None:
    """The embedding models that the program knows: languages, sizes, licences, published recall; which one is in use, and which are here."""
    settings = start()
    current, here = in_use(settings), installed(settings)
    shares = _languages(settings)
    if json:
        print_json(_list_json(settings, current, here, shares))
        return
    from dispatcher.health.embedding.spoken_languages import sentence

    _print_table(_list_table(current, here))
    for model in KNOWN_MODELS:
        if model.advised_against:
            typer.echo(f"{model.name} is not advised: {model.advised_against}{_elsewhere(model)}.")
    typer.echo(f"\n{LEGEND}")
    if said := sentence(shares):
        typer.echo(said)
    if current is None:
        typer.echo(f"None of them is in use: EMBEDDER={settings.embedder}, EMBED_MODEL={settings.embed_model}.")
    say_notes(_unanswered(here))


def _languages(settings: Settings) -> dict[str, float]:
    """Of the current release; nothing if there is none, or if it cannot be read."""
    from dispatcher.health.embedding.spoken_languages import spoken
    from shared.delivery.trial import chunks_in
    from shared.release.manifest import current_release

    try:
        path = current_release(settings.hmem_memory_dir)
        return spoken(chunks_in(path)) if path else {}
    except (HmemError, OSError, ValueError):
        return {}


def _unanswered(here: Installed) -> list[str]:
    reasons = {"Ollama": here.no_ollama, "fastembed": here.no_fastembed}
    return [f"what {name} has is not known: {why.rstrip('.')}." for name, why in reasons.items() if why]


def _list_json(
    settings: Settings, current: ModelChoice | None, here: Installed, shares: dict[str, float]
) -> dict[str, Any]:
    return {
        "in_use": current and {"embedder": current.embedder, "embed_model": current.name, "name": current.model.name},
        "ollama": {"url": settings.ollama_url, "error": here.no_ollama},
        "fastembed": {"error": here.no_fastembed},
        "languages": {language: round(share, 3) for language, share in shares.items()},
        "models": [_model_json(model, current, here) for model in KNOWN_MODELS],
    }


def _model_json(model: KnownModel, current: ModelChoice | None, here: Installed) -> dict[str, Any]:
    def at(provider: Provider, megabytes: int | None, unknown: str | None) -> dict[str, Any] | None:
        name = model.named_by(provider)
        return name and {"name": name, "mb": megabytes, "installed": None if unknown else here.has(model, provider)}  # type: ignore[return-value]

    return {
        "name": model.name,
        "family": model.family,
        "in_use": current is not None and current.model is model,
        "ollama": at("ollama", model.ollama_mb, here.no_ollama),
        "fastembed": at("fastembed", model.fastembed_mb, here.no_fastembed),
        "dimensions": model.dimensions,
        "token_limit": model.token_limit,
        "prefixes": {"document": model.document_prefix, "query": model.query_prefix},
        "licence": model.licence,
        "languages": model.languages,
        "recall": dict(model.recall),
        "advised_against": model.advised_against,
    }


def _list_table(current: ModelChoice | None, here: Installed) -> Table:
    table = _table(
        "", "model", "langs", "dims", "tokens", "licence", "LoCoMo", "Ollama", "fastembed", right=(3, 4, 6, 7, 8)
    )
    for model in KNOWN_MODELS:
        table.add_row(
            "*" if current and current.model is model else "",
            model.name,
            _spoken_by(model),
            str(model.dimensions),
            str(model.token_limit),
            model.licence,
            _share(recall) if (recall := model.recall.get("LoCoMo")) else "",
            *(_size_at(model, provider, here) for provider in PROVIDERS),
        )
    return table


def _size_at(model: KnownModel, provider: Provider, here: Installed) -> str:
    megabytes = model.ollama_mb if provider == "ollama" else model.fastembed_mb
    if megabytes is None:
        return "- "
    return f"{megabytes} MB{'+' if here.has(model, provider) else ' '}"


def _spoken_by(model: KnownModel) -> str:
    return {0: UNKNOWN, 1: "English"}.get(model.languages, str(model.languages))


def _elsewhere(model: KnownModel) -> str:
    return "".join(f"; {name} {_share(value)}" for name, value in model.recall.items() if name != "LoCoMo")


def _share(value: float) -> str:
    """`.713`: with as many decimals as it is published."""
    return str(value).removeprefix("0")


def _table(*columns: str, right: tuple[int, ...] = ()) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for number, name in enumerate(columns):
        table.add_column(name, justify="right" if number in right else "left", no_wrap=True)
    return table


def _print_table(table: Table) -> None:
    from rich.console import Console

    Console(width=WIDTH, highlight=False, markup=False).print(table)


@app.command("try")
def try_(
    model: Annotated[str, typer.Argument(help="A name of hmem embedder list, or any model of Ollama or fastembed.")],
    sample: Annotated[int, typer.Option(min=10, help="Passages of your turns that both models embed.")] = 2000,
    embedder: Annotated[
        EmbedderName | None,
        typer.Option(help="Where to run it, if more than one has it; default: as EMBEDDER says, else Ollama."),
    ] = None,
    json: Json = False,
) -> None:
    """Measure an embedding model on your own turns beside the one in use: the gate's questions, times, sizes. Changes nothing."""
    from dispatcher.health.embedding.trial import run_trial

    settings = start()
    if not model.strip():
        raise InvalidInput("MODEL is empty. hmem embedder list shows the names.")
    found = run_trial(settings, choice_of(settings, model, embedder), sample, _Progress())
    notes = _notes(found, sample)
    if json:
        print_json(_trial_json(found, notes))
        return
    of, chats = found.sample, len(found.sample.taken)
    typer.echo(f"Release {of.run}: {of.turns:,} turns, {of.chunks:,} passages.", nl=False)
    typer.echo(f" Sample: the newest {of.size:,} passages of {chats} {'chat' if chats == 1 else 'chats'}.\n")
    _print_table(_trial_table(found))
    typer.echo(
        f"\nFound among the first 10, of {len(of.probes)} questions made of a passage's own words, which by words"
    )
    typer.echo(f"alone find {sum(found.found_by_words)}. Times of this computer; * extrapolated from the sample.\n")
    typer.echo("\n".join(_what_to_set(found)))
    say_notes(notes)


class _Progress:
    """A bar on a terminal, else a line for each model and one every few seconds; on standard error."""

    def __init__(self) -> None:
        self._last = 0.0

    def __call__(self, what: str, done: int, total: int) -> None:
        if sys.stderr.isatty():
            shown = f"\rEmbedding with {what}: {done} of {total} texts"
            sys.stderr.write(shown + ("\n" if done == total else ""))
            sys.stderr.flush()
        elif done == 0 or done == total or time.monotonic() - self._last > PLAIN_EVERY_SECONDS:
            self._last = time.monotonic()
            typer.echo(f"Embedding with {what}: {done} of {total} texts", err=True)


def _trial_json(found: Trial, notes: list[str]) -> dict[str, Any]:
    of, chosen = found.sample, found.wanted.choice
    return {
        "release": of.run,
        "turns": of.turns,
        "passages": of.chunks,
        "texts": of.texts,
        "sample": {"passages": of.size, "chats": len(of.taken), "questions": len(of.probes)},
        "found_by_words": sum(found.found_by_words),
        "tried": found.wanted.to_json(of),
        "in_use": found.current.to_json(of) if found.current else None,
        "gate": found.verdict(),
        "set": {"EMBEDDER": chosen.embedder, "EMBED_MODEL": chosen.name} if chosen.listed and not found.same else None,
        "notes": notes,
    }


def _trial_table(found: Trial) -> Table:
    both = [found.wanted] if found.same or found.current is None else [found.current, found.wanted]
    heads = [f"{one.choice.model.name}{' (in use)' if one is found.current else ''}" for one in both]
    table = _table("", *heads, right=tuple(range(1, len(both) + 1)))
    columns = [_cells(found, one) for one in both]
    for name in columns[-1]:
        table.add_row(name, *(column.get(name, "-") for column in columns))
    return table


def _cells(found: Trial, one: Measured) -> dict[str, str]:
    from dispatcher.health.embedding.trial import IN_MEMORY, ON_DISK, of_times

    model, of = one.choice.model, found.sample
    head = {"runs by": one.choice.embedder, "licence": model.licence, "languages": _spoken_by(model)}
    if one.error:
        return head
    median, late = of_times(one.question_seconds)
    asked, night = len(of.probes), one.night_seconds(of)
    return head | {
        "found, by words and vectors": f"{sum(one.found)} of {asked}",
        "found, by vectors alone": f"{sum(one.found_by_vectors)} of {asked}",
        "embedding a question, median": f"{1000 * median:.1f} ms",
        "embedding a question, 95 %": f"{1000 * late:.1f} ms",
        "texts a second": f"{one.texts_per_second:.0f}",
        f"a night of all {of.texts:,} texts *": duration(night),
        "vectors of 1,000 turns, on disk": size_text(one.bytes_per_1000_turns(of, ON_DISK)),
        "vectors of 1,000 turns, in memory": size_text(one.bytes_per_1000_turns(of, IN_MEMORY)),
    }


def duration(seconds: float) -> str:
    """`40 s`, `12 min`, `3.5 h`."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _what_to_set(found: Trial) -> list[str]:
    chosen, of = found.wanted.choice, found.sample
    if found.same:
        return ["This is the model in use: there is nothing to set."]
    if not chosen.listed:
        return [
            f"EMBED_MODEL cannot name {chosen.name}: it is not in the program's table (shared/embedding/known_models.py),",
            "which must say what it needs ahead of questions and texts. It was measured without anything ahead of them.",
        ]
    night = duration(found.wanted.night_seconds(of))
    same_weights = found.current is not None and found.current.choice.model is chosen.model
    meanwhile = (
        "are answered as before, since the weights are the same" if same_weights else "are answered by words only"
    )
    return [
        "To switch, set on both hosts, in the settings file:",
        f'    EMBEDDER = "{chosen.embedder}"',
        f'    EMBED_MODEL = "{chosen.name}"',
        "then restart the dispatcher, and wait for the night or run: hmem-night backfill archive --reembed",
        f"That night embeds all {of.texts:,} texts anew, about {night} at this speed. Until its release is there,",
        f"questions {meanwhile}.",
        "Nothing is lost; the old values bring the old model back.",
    ]


def _notes(found: Trial, asked_for: int) -> list[str]:
    """What the owner should know of these figures."""
    from dispatcher.health.embedding.spoken_languages import MOSTLY_ENGLISH, spoken

    of, chosen = found.sample, found.wanted.choice
    notes = []
    if of.chunks < asked_for:
        notes.append(
            f"the release has only {of.chunks} passages, fewer than --sample {asked_for}: all that are in the gate's chats were used."
        )
    if found.current is None:
        notes.append(
            "no model is in use (EMBEDDER=none, or an EMBED_MODEL that is not known), so there is nothing beside it."
        )
    elif found.current.error:
        notes.append(f"the model in use could not be measured: {found.current.error}")
    for one in filter(None, (found.current, found.wanted)):
        notes += [f"{one.choice.name} refused {count} texts: {why}." for why, count in one.refused.items()]
    if (verdict := found.verdict()) and (said := verdict["refuse"] or verdict["warn"]):
        notes.append(f"the night's gate would {'refuse the release' if verdict['refuse'] else 'warn'}: {said}")
    shares = spoken([chunk for chunks in of.taken.values() for chunk in chunks])
    if chosen.model.languages == 1 and shares and shares.get("en", 0.0) < MOSTLY_ENGLISH:
        notes.append(f"{chosen.name} is for English; of the sample {100 * shares.get('en', 0.0):.0f} % is.")
    if chosen.model.advised_against:
        notes.append(f"{chosen.name} is not advised: {chosen.model.advised_against}{_elsewhere(chosen.model)}.")
    if chosen.model.licence == UNKNOWN:
        notes.append(f"the licence of {chosen.name} is not known here: read it before you use the model.")
    elif chosen.model.licence.lower() not in FREE_LICENCES:
        notes.append(
            f"the licence of {chosen.name} ({chosen.model.licence}) has conditions of use: read it before you use the model."
        )
    return notes
