"""What another program remembered becomes a typed memory: each such turn of a night's imports is handed to the day's host as a tag that asks to
remember its words, which a dispatcher carries out once (dispatcher/queue/consolidation.py), as it does with the tags of an answer.

So a near duplicate of what the chat knows is kept as a confirmation, and forgetting the turn, as undoing its import does, takes the memory along.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

from nightly.archive.incoming import RECORDS
from nightly.archive.segments import stored_records, turn_of
from nightly.night.folder import Night
from shared.turns.records import FACT, RecordRefused, Turn, dumps
from shared.wire import keys

#: The longest one, as in an answer. A longer one is found by search alone. Characters.
MOST_CHARACTERS = 1_000
#: Facts in one call: Redis may be far away.
AT_ONCE = 500


def is_fact(turn: Turn) -> bool:
    return turn.extra.get(FACT) is True and len(turn.content) <= MOST_CHARACTERS


def hand_over(night: Night) -> int:
    """How many. A step that is repeated hands them over again, and a dispatcher that has carried one out does nothing for it."""
    facts = _facts(night) if night.settings.has_day_store else iter(())
    count = 0
    while some := list(islice(facts, AT_ONCE)):
        night.redis.rpush(keys.TAGS, *map(_asked, some))
        count += len(some)
    return count


def _facts(night: Night) -> Iterator[Turn]:
    for record in stored_records(night.output("export") / RECORDS):
        with suppress(RecordRefused):
            if is_fact(turn := turn_of(record)):
                yield turn


def _asked(turn: Turn) -> bytes:
    """As dispatcher/memory/typed/tags.py reads it."""
    tag = {"number": 1, "kind": "REMEMBER", "text": turn.content, "options": {}}
    about = {"task_id": turn.task_id, "chat_id": turn.chat_id, "said_at": turn.timestamp, "session": ""}
    return dumps({**about, "tags": [tag]})
