"""`hmem doctor --try-claude`: the installed Claude CLI is asked as the dispatcher asks it, three short questions of a session of their own.

What the CLI can do changes from version to version, and its version number does not say. The session is forgotten with the next `hmem forget`,
as those of the dream are (`~alone`).
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from dataclasses import replace
from uuid import uuid4

from dispatcher.claude.client import ALONE, SWITCHES, ClaudeCli, ClaudeRequest
from dispatcher.claude.reply import Answer, Follows
from dispatcher.health.findings import Fault, Finding, ok, problem, warning
from shared.config.packages import how_to_get_claude
from shared.config.settings import Settings
from shared.errors import ClaudeUnavailable
from shared.system.files import PrivateDir, make_dir


def try_claude(settings: Settings) -> Iterator[Finding]:
    """What the CLI can do of what the dispatcher needs, as each is known. ClaudeUnavailable if there is none."""
    claude, session = ClaudeCli(settings), str(uuid4())
    word, own = f"heron-{secrets.token_hex(3)}", f"osprey-{secrets.token_hex(3)}"
    directory = make_dir(settings.hmem_state_dir / "chats" / ALONE)
    prompts = PrivateDir(settings.hmem_state_dir / "prompts")
    prompt_file = prompts.path / f"{session}.md"
    prompt_file.write_text(f"The password of today is {word}.", encoding="utf-8")

    def ask(message: str, *, resume: bool) -> Answer:
        request = ClaudeRequest(message, session, resume, None, directory, None if resume else prompt_file, alone=True)
        return asyncio.run(claude.ask(request))

    try:
        first = ask(f"My word is {own}. What is the password of today? Answer with the password alone.", resume=False)
        if first.error is not None:
            yield replace(_unanswered(first), name="answer")
            return
        yield replace(ok("A question is answered, so login and provider work."), name="answer")
        yield _judged("prompt", word in first.text, "It reads what is added to its prompt.", PROMPT)
        again = ask("What is my word? Answer with the word alone.", resume=True)
        yield _judged("resume", again.error is None and own in again.text, "A conversation goes on.", RESUME)
        busy = ask("Hello.", resume=False).follows is Follows.SAME_SESSION
        yield _judged("session", busy, "A session that exists is not begun twice.", TWICE)
        known, wanted = asyncio.run(claude.flags()), [switch[0] for switch in SWITCHES]
        said = ", ".join(one for one in wanted if one in known) or "none"
        yield replace(ok(f"Of the switches that only some versions have, it takes: {said}."), name="switches")
    finally:
        prompts.remove()


#: What follows if something is missing.
LOGIN = "Start claude once as the dispatcher's user and log in, or see what the account's page says; then try again."
AWAY = (
    "Check this host's network, DNS and proxy, and the state of Claude's service (status.claude.com); then try again."
)
PROMPT = "--append-system-prompt-file has no effect: Claude answers without memory"
RESUME = "--resume has no effect: each message begins a conversation; SESSION_MODE=replay passes it as text"
TWICE = "--session-id of a session that exists is not refused, so two dispatchers may answer in one session"


def _unanswered(answer: Answer) -> Finding:
    """Because of the login or the account, or of what the CLI says: such as a switch that this version does not have."""
    sentence = f"A question is not answered: {answer.error}."
    sentence += f" The CLI said: {answer.cause}." if answer.cause else ""
    if answer.follows in (Follows.ALL_WAIT, Follows.WITHOUT_MEMORY):
        return problem(Fault.CLAUDE_LOGIN, sentence, LOGIN)
    tested = f"Try again; {how_to_get_claude()} installs the version that was tested."
    return problem(ClaudeUnavailable.exit_code, sentence, AWAY if answer.follows is Follows.CHAT_WAITS else tested)


def _judged(name: str, can: bool, sentence: str, lack: str) -> Finding:
    tested = f"{how_to_get_claude()} installs the version that was tested."
    return replace(ok(sentence) if can else warning(f"{lack}.", tested), name=name)
