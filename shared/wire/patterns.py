"""Patterns of the keys that have a variable part, as the rights of Redis users name them (users.py)."""

from __future__ import annotations

from shared.wire import keys

TURNS = keys.MEMORY_PREFIX + "*"
RESULTS, PENDING, STATS, CANCEL = keys.result("*"), keys.pending("*"), keys.stats("*"), keys.cancel("*")
SESSION, HISTORY, SIZE = keys.session("*"), keys.history("*"), keys.size("*")
SPENT, WHY, APPROVAL = keys.spent("*"), keys.why("*"), keys.approval("*")
CONVERSATION = tuple(keys.conversation("*"))
INFLIGHT, LEASE, ATTEMPTS, DONE = keys.inflight("*"), keys.lease("*"), keys.attempts("*"), keys.done("*")
UNCONSOLIDATED, CONSOLIDATING, REMINDED = keys.unconsolidated("*"), keys.consolidating("*"), keys.reminded("*")
SEEN, TOLD, MODEL, NEW = keys.bot_seen("*"), keys.bot_told("*"), keys.bot_model("*"), keys.bot_new("*")
TEACH, PARTIAL, SELECTION = keys.teach("*"), keys.partial("*"), keys.SELECTION_PREFIX + "*"
VECTOR_RELEASES, VECTOR_PARTS, VECTOR_ALIASES = (
    keys.vector_release("*"),
    keys.VECTOR_PARTS_PREFIX + "*",
    keys.vector_alias("*"),
)
CHAT_STATS = keys.CHAT_STATS_PREFIX + "*"
OF_CHAT = keys.chat_settings("*")
MEDIA_FILES, KEPT_FILES = keys.media("*"), f"{keys.KEPT}:*"
INVITES, TRIES = keys.invite("*"), keys.bot_tries("*")
