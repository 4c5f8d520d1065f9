"""The accounts of a night: where each record and each turn went, by chat. If the counts do not add up, the night stops before publish.

    export → archive    exported = new + new version + already archived + quarantined (each with a reason)
    archive → chunks    archived turns = with chunks + forgotten (a tombstone covers them) + without text (nothing readable is left)
    chunks → index      chunks = keywords,  chunks = vectors + not embedded (each with a reason)

The two sides of an equation are counted independently: what was read, and what was done with it. Pure functions; the steps pass the counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shared.errors import LedgerMismatch

#: What may become of an exported record.
FATES = ("new", "new_version", "already_archived", "quarantined")
#: What may become of an archived turn.
ENDS = ("with_chunks", "forgotten", "without_text")


@dataclass
class Ledger:
    """Where each exported record went; `chats` by chat id, quarantined records under "?" (their chat id cannot be trusted)."""

    chats: dict[str, Counter[str]] = field(default_factory=dict)
    reasons: Counter[str] = field(default_factory=Counter)

    def count(self, chat_id: str, what: str) -> None:
        self.chats.setdefault(chat_id, Counter())[what] += 1

    def to_json(self, exported: int) -> dict[str, Any]:
        """The ledger of `exported` records (as the export counted them), or LedgerMismatch."""
        record = {
            "exported": exported,
            **{fate: sum(counts[fate] for counts in self.chats.values()) for fate in FATES},
            "reasons": dict(self.reasons),
            "chats": {chat: dict(counts) for chat, counts in self.chats.items()},
        }
        check_export(record)
        return record


def check_export(ledger: Mapping[str, Any]) -> None:
    """exported = new + new version + already archived + quarantined, in total and over the chats; every quarantined record has a reason."""
    totals = {fate: ledger[fate] for fate in FATES}
    _equal("records", "exported", ledger["exported"], **totals)
    for fate, total in totals.items():
        _equal("records", fate, total, of_all_chats=sum(counts.get(fate, 0) for counts in ledger["chats"].values()))
    if unknown := {what for counts in ledger["chats"].values() for what in counts} - {*FATES}:
        raise _mismatch(f"records went to {sorted(unknown)}, which are not valid outcomes")
    _equal("quarantined records", "quarantined", ledger["quarantined"], with_a_reason=sum(ledger["reasons"].values()))


def chunk_accounts(
    archived: Mapping[str, int],
    *,
    with_chunks: Mapping[str, int],
    forgotten: Mapping[str, int],
    without_text: Mapping[str, int],
    chunks: Mapping[str, int],
) -> dict[str, dict[str, int]]:
    """What became of each chat's archived turns, and its number of chunks; LedgerMismatch if a turn is unaccounted for."""
    ends = {"with_chunks": with_chunks, "forgotten": forgotten, "without_text": without_text}
    accounts: dict[str, dict[str, int]] = {}
    for chat in sorted({*archived, *with_chunks, *forgotten, *without_text, *chunks}):
        parts = {end: counts.get(chat, 0) for end, counts in ends.items()}
        accounts[chat] = {"archived": archived.get(chat, 0), **parts, "chunks": chunks.get(chat, 0)}
        _check_account(f"chat {chat}", accounts[chat])
    return accounts


def _check_account(whose: str, account: Mapping[str, int]) -> None:
    _equal(f"turns of {whose}", "archived", account["archived"], **{end: account[end] for end in ENDS})
    turns, chunks = account["with_chunks"], account["chunks"]
    if chunks < turns or (chunks and not turns):
        raise _mismatch(f"{whose} has {chunks} chunks of {turns} turns")


def whole_ledger(
    archive_ledger: Mapping[str, Any],
    chunk_result: Mapping[str, Any],
    build_result: Mapping[str, Any],
    embed_result: Mapping[str, Any],
    carried: Mapping[str, Any],
) -> dict[str, Any]:
    """The ledger of the whole night for the manifest; LedgerMismatch if its counts do not add up: then nothing is published.

    `carried`: the sums over the chats that the night has not done, as the nights that did them have counted them. To the fields of the archive's
    ledger it adds `turns`, `index` and `chunks` (totals), and `not_embedded` (chunk id → reason). `vectors` is null where the release has no
    vector index.
    """
    check_export(archive_ledger)
    accounts = _joined(chunk_result["accounts"], build_result["indexed"], has_vectors=bool(build_result["indexes"]))
    for chat, account in accounts.items():
        _check_account(f"chat {chat}", account)
        _check_index(f"chat {chat}", account)
    has_vectors = bool(build_result["indexes"])
    _check_totals(accounts, chunk_result, embed_result, carried, has_vectors=has_vectors)
    names = ("archived", *ENDS, "chunks", "keywords", "vectors", "not_embedded")
    sums = {name: carried.get(name, 0) + _sum(accounts, name) for name in names}
    _check_account("all chats", sums)
    _check_index("all chats", sums if has_vectors else {**sums, "vectors": None})
    return {
        **archive_ledger,
        "turns": {name: sums[name] for name in ("archived", *ENDS)},
        "chunks": chunk_result["chunks"],
        "index": {"keywords": sums["keywords"], "vectors": sums["vectors"] if has_vectors else None},
        "not_embedded": embed_result.get("refused", {}),
    }


def _joined(
    accounts: Mapping[str, Mapping[str, int]], indexed: Mapping[str, Mapping[str, int | None]], *, has_vectors: bool
) -> dict[str, dict[str, Any]]:
    """By chat, what was chunked and what the index contains; a chat that one of the two does not know has nothing there."""
    nothing = {"keywords": 0, "vectors": 0 if has_vectors else None, "not_embedded": 0}
    zeros = dict.fromkeys(("archived", *ENDS, "chunks"), 0)
    return {chat: {**accounts.get(chat, zeros), **indexed.get(chat, nothing)} for chat in sorted({*accounts, *indexed})}


def _check_index(whose: str, account: Mapping[str, Any]) -> None:
    _equal(f"chunks of {whose}", "chunks", account["chunks"], keywords=account["keywords"])
    if account["vectors"] is not None:
        parts = {"vectors": account["vectors"], "not_embedded": account["not_embedded"]}
        _equal(f"chunks of {whose}", "chunks", account["chunks"], **parts)


def _check_totals(
    accounts: Mapping[str, Mapping[str, Any]],
    chunk_result: Mapping[str, Any],
    embed_result: Mapping[str, Any],
    carried: Mapping[str, Any],
    *,
    has_vectors: bool,
) -> None:
    """Compare the sums over the chats with what each step counted, and with the rest of the manifest."""
    chunks = {"carried": carried.get("chunks", 0), "of_tonights_chats": _sum(accounts, "chunks")}
    _equal("chunks", "chunks", chunk_result["chunks"], **chunks)
    if any((account["vectors"] is not None) != has_vectors for account in accounts.values()):
        raise _mismatch("some chats have vectors and some have none")
    if has_vectors:
        _equal("vectors", "vectors", embed_result["vectors"], of_tonights_chats=_sum(accounts, "vectors"))
        refused = {"carried": carried.get("not_embedded", 0), "of_tonights_chats": _sum(accounts, "not_embedded")}
        _equal("texts", "not_embedded", len(embed_result.get("refused", {})), **refused)
    zeros = dict.fromkeys(ENDS, 0)
    turns, forgotten = chunk_result["turns_per_chat"], chunk_result["forgotten_per_chat"]
    for chat in sorted({*accounts, *turns, *forgotten}):
        account, what = accounts.get(chat, zeros), f"turns of chat {chat}"
        _equal(what, "to recall", turns.get(chat, 0), **{end: account[end] for end in ("with_chunks", "without_text")})
        _equal(what, "forgotten", forgotten.get(chat, 0), under_a_tombstone=account["forgotten"])


def _sum(accounts: Mapping[str, Mapping[str, Any]], name: str) -> int:
    return sum(account[name] or 0 for account in accounts.values())


def _equal(what: str, name: str, whole: int, **parts: int) -> None:
    if whole != sum(parts.values()):
        sums = " + ".join(f"{count} {part.replace('_', ' ')}" for part, count in parts.items())
        raise _mismatch(f"{what}: {whole} {name.replace('_', ' ')} are not {sums}")


def _mismatch(why: str) -> LedgerMismatch:
    return LedgerMismatch(
        f"The night's counts do not add up: {why}. Nothing was published or deleted. Run the night again; if the error persists, report it."
    )
