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
#: What is counted of a chat's turns.
ACCOUNT = ("archived", "turns", *ENDS, "chunks")
#: What a build counts of a chat.
INDEXED = ("keywords", "vectors", "not_embedded")

Accounts = dict[str, dict[str, int]]


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
    """exported = new + new version + already archived + quarantined; every quarantined record has a reason."""
    _equal("records", "exported", ledger["exported"], **{fate: ledger[fate] for fate in FATES})
    _equal("quarantined records", "quarantined", ledger["quarantined"], with_a_reason=sum(ledger["reasons"].values()))


def check_account(whose: str, account: Mapping[str, int]) -> None:
    """LedgerMismatch if a turn is unaccounted for."""
    _equal(f"turns of {whose}", "archived", account["archived"], **{end: account[end] for end in ENDS})
    to_recall = {end: account[end] for end in ("with_chunks", "without_text")}
    _equal(f"turns of {whose}", "to recall", account["turns"], **to_recall)
    turns, chunks = account["with_chunks"], account["chunks"]
    if chunks < turns or (chunks and not turns):
        raise _mismatch(f"{whose} has {chunks} chunks of {turns} turns")


def whole_ledger(
    archive_ledger: Mapping[str, Any], chunk: Mapping[str, Any], build: Mapping[str, Any], embed: Mapping[str, Any]
) -> dict[str, Any]:
    """The ledger of the whole night for the manifest, from the results of steps; LedgerMismatch if its counts do not add up: then nothing is
    published.

    To the fields of the archive's ledger it adds `turns`, `index` and `chunks` (totals), and `not_embedded` (chunk id → reason). `vectors` is null
    where the release has no vector index. What chats that the night has not done have is counted as the nights that did them have counted it.
    """
    check_export(archive_ledger)
    carried, indexed, has_vectors = chunk["carried"], build["indexed"], bool(build["indexes"])
    none = {"keywords": 0, "vectors": 0 if has_vectors else None, "not_embedded": 0}
    accounts = {chat: {**account, **indexed.get(chat, none)} for chat, account in chunk["accounts"].items()}
    names = (*ACCOUNT, *none)
    sums = {name: carried[name] + summed(accounts, name) for name in names} | ({} if has_vectors else {"vectors": None})
    for whose, account in [*((f"chat {chat}", account) for chat, account in accounts.items()), ("all chats", sums)]:
        check_account(whose, account)
        _check_index(whose, account, has_vectors=has_vectors)
    if has_vectors:
        _equal("vectors", "vectors", embed["vectors"], of_tonights_chats=summed(accounts, "vectors"))
    _equal("texts", "not_embedded", len(embed["refused"]), of_all_chats=sums["not_embedded"])
    if unknown := indexed.keys() - accounts.keys():
        raise _mismatch(f"chat {min(unknown)} is in an index, and no turn of it was looked at")
    for name in ("turns", "chunks"):
        _equal(name, name, chunk[name], of_all_chats=sums[name])
    return {
        **archive_ledger,
        "turns": {name: sums[name] for name in ("archived", *ENDS)},
        "chunks": sums["chunks"],
        "index": {"keywords": sums["keywords"], "vectors": sums["vectors"]},
        "not_embedded": embed["refused"],
    }


def totals(results: Mapping[str, Any]) -> dict[str, int | None] | None:
    """What is known of all turns after these steps (name → result): of a night that built nothing `archived` alone, None before the archive step."""
    archived, chunk, build = results.get("archive", {}).get("turns"), results.get("chunk", {}), results.get("build", {})
    if "accounts" not in chunk:
        return None if archived is None else {"archived": archived}
    sums: dict[str, int | None] = {
        name: chunk["carried"].get(name, 0) + summed(chunk["accounts"], name) for name in ("archived", *ENDS, "chunks")
    }
    if "indexed" in build:
        sums |= {name: chunk["carried"].get(name, 0) + summed(build["indexed"], name) for name in INDEXED}
    return sums | ({} if build.get("indexes", True) else {"vectors": None})


def chat_rows(chunk: Mapping[str, Any], build: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The accounts of the chats that a night has done, from the results of these steps, the largest first; what is not known yet is None."""
    indexed, unknown = build.get("indexed", {}), dict.fromkeys(INDEXED)
    rows = [{"chat": chat, **account, **indexed.get(chat, unknown)} for chat, account in chunk["accounts"].items()]
    return sorted(rows, key=lambda row: (-row["archived"], row["chat"]))


def _check_index(whose: str, account: Mapping[str, Any], *, has_vectors: bool) -> None:
    _equal(f"chunks of {whose}", "chunks", account["chunks"], keywords=account["keywords"])
    if (account["vectors"] is not None) != has_vectors:
        raise _mismatch("some chats have vectors and some have none")
    if has_vectors:
        parts = {"vectors": account["vectors"], "not_embedded": account["not_embedded"]}
        _equal(f"chunks of {whose}", "chunks", account["chunks"], **parts)


def summed(accounts: Mapping[str, Mapping[str, Any]], name: str) -> int:
    """A count over chats."""
    return sum(account[name] or 0 for account in accounts.values())


def _equal(what: str, name: str, whole: int, **parts: int) -> None:
    if whole != sum(parts.values()):
        sums = " + ".join(f"{count} {part.replace('_', ' ')}" for part, count in parts.items())
        raise _mismatch(f"{what}: {whole} {name.replace('_', ' ')} are not {sums}")


def _mismatch(why: str) -> LedgerMismatch:
    return LedgerMismatch(
        f"The night's counts do not add up: {why}. Nothing was published or deleted. Run the night again; if the error persists, report it."
    )
