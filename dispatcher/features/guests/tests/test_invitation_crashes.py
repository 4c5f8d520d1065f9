"""kill -9 of the bot over a code: the stranger is a guest and is welcomed once, and the code is used."""

from __future__ import annotations

import signal
from pathlib import Path

from dispatcher.features.guests import keys as own
from dispatcher.features.guests.invitations import JOINED, WELCOME, hashed
from shared.turns.signed import sign_record
from tests.support.day.telegram_bot import CHAT, staged
from tests.support.world import SECRET


def test_a_bot_killed_after_it_took_a_code_welcomes_once(redis_url: str, tmp_path: Path) -> None:
    with staged(redis_url, tmp_path) as stage:
        key = own.invite(hashed("C" * 24))
        stage.redis.set(key, sign_record(SECRET, key, {"by": "9912", "at": 1}), ex=600)
        dying = stage.bot(HMEM_CRASH_AT="telegram:joined", OWNERS=str(CHAT))
        stage.api.say(5151, "C" * 24, {"id": 5151, "is_bot": False, "first_name": "Cy"})
        assert dying.died() == -signal.SIGKILL
        stage.bot_again(OWNERS=str(CHAT))
        stage.shows(5151, WELCOME)
        stage.shows(CHAT, JOINED.format(name="Cy", chat=5151))
        stage.quiet()
        assert not stage.redis.exists(own.tries("5151"))
