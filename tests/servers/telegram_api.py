"""A loopback server that speaks the Bot API as far as a bot by long polling asks for it: over real HTTP, with Telegram's own errors.

Updates stay until an offset beyond them is asked for; a second poll ends the first with 409. What people see is kept per chat, every call
is logged, and faults can be ordered per method and chat. It knows nothing of the bot's program and survives its death.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.servers import telegram_messages as messages
from tests.servers.files.telegram_files import Files, send_file
from tests.servers.loopback import Answering, Loopback
from tests.servers.telegram_messages import ApiError, Call, Fault, FloodLimits, Garbled, Shown, message_of, utf16_units

TOKEN = "4242:AAtest-token-of-the-loopback-server"
ADA = {"id": 7, "is_bot": False, "first_name": "Ada", "last_name": "Byron"}
BOT = {"id": 4242, "is_bot": True, "first_name": "Memory", "username": "memory_bot"}
LONGEST_POLL = 60.0  # seconds, whatever a poll asks for
#: Methods of which nothing is seen in a chat.
SILENT = ("sendchataction", "answercallbackquery", "setmycommands")
NOT_FOUND = 404, ApiError(404, "Not Found").as_json()
#: Methods that count against Telegram's limits.
COUNTED = ("sendMessage", "sendMessageDraft", "sendPhoto", "sendDocument", "editMessageText")


class TelegramApi(Loopback):
    """`with TelegramApi() as api:` serves at `api.url` for the token TOKEN."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.files = Files()
        self.latency = 0.0  # seconds before every answer
        self.offset = 0  # updates below it are confirmed
        self.polls = 0  # polls that wait now
        self.unauthorized = False
        self.webhook = False  # one is set, so that nobody may poll
        self.impatient = False  # a poll is answered at once, whatever it asks for
        self.has_drafts = True  # a Bot API of before 9.3 has none
        self.limits: FloodLimits | None = None  # none are enforced
        self.drafts: dict[int, tuple[int, str, list[dict[str, Any]]]] = {}  # chat → id, text and entities of its draft
        self._chats: dict[int, list[Shown]] = {}
        self._sent: dict[tuple[int, int], dict[str, Any]] = {}  # (chat, message id) → as an update has it
        self._newest: dict[int, int] = {}  # chat → id of what a person sent last
        self._updates: list[dict[str, Any]] = []
        self._faults: list[Fault] = []
        self._next_update, self._next_message, self._generation = 1000, 1, 0
        self._change = threading.Condition()
        self._closed = False
        super().__init__(_handler(self))

    def __exit__(self, *_: object) -> None:
        with self._change:
            self._closed = True
            self._change.notify_all()
        super().__exit__()

    # What people do.

    def say(self, chat: int, text: str | None, user: dict[str, Any] | None = None, **more: Any) -> int:
        """A person writes; the update's id. `more` goes into the message (entities, reply_to_message, photo, …)."""
        with self._change:
            message = self._message_id()
            if text is not None:
                self._chats.setdefault(chat, []).append(Shown(message, text, by_bot=False))
            made = message_of(chat, message, text, user or ADA, more)
            self._sent[chat, message], self._newest[chat] = made, message
            return self._update("message", made)

    def reply(
        self, chat: int, to: int, text: str | None, user: dict[str, Any] | None = None, *, part: str = "", **more: Any
    ) -> int:
        """A person replies to a message (its id), perhaps to a selected part of it; the update's id. As with Telegram, the update holds that
        message, but not what it replied to itself."""
        replied = {name: value for name, value in self._sent[chat, to].items() if name != "reply_to_message"}
        if shown := self._find(chat, to):
            replied["text"] = shown.text
        if part:
            where = replied.get("text") or replied.get("caption") or ""
            more["quote"] = {"text": part, "position": utf16_units(where[: where.index(part)]), "is_manual": True}
        return self.say(chat, text, user, reply_to_message=replied, **more)

    def album(self, chat: int, pictures: list[dict[str, Any]]) -> int:
        """A person sends pictures at once, a message each; the last update's id."""
        with self._change:  # a poll that waits gets them together
            return [self.say(chat, None, **one) for one in pictures][-1]

    def newest(self, chat: int) -> int:
        """The id of what a person sent last."""
        return self._newest[chat]

    def edit(self, chat: int, message: int, text: str | None, user: dict[str, Any] | None = None, **more: Any) -> int:
        """A person changes a message; the update's id."""
        with self._change:
            shown = self._find(chat, message)
            if shown is not None and text is not None:
                shown.edits.append(shown.text)
                shown.text = text
            more = {"edit_date": int(time.time()), **more}
            return self._update("edited_message", message_of(chat, message, text, user or ADA, more))

    def update(self, update: dict[str, Any]) -> int:
        """Any update at all; its id."""
        with self._change:
            ((kind, content),) = update.items()
            return self._update(kind, content)

    def press(
        self,
        chat: int,
        label: str,
        user: dict[str, Any] | None = None,
        *,
        data: str | None = None,
        inaccessible: bool = False,
    ) -> int:
        """A person presses the newest button of that label (or sends other data than it has); the update's id. Of an old message Telegram no
        longer tells the content (`inaccessible`)."""
        with self._change:
            found = ((shown, one) for shown in reversed(self._chats[chat]) for row in shown.buttons for one in row)
            shown, button = next((shown, one) for shown, one in found if one["text"] == label)
            gone = {"chat": messages.chat_of(chat), "message_id": shown.id, "date": 0}
            query = {
                "id": f"press-{self._next_update}",
                "from": user or ADA,
                "chat_instance": "1",
                "message": gone if inaccessible else self._as_sent(chat, shown),
                "data": button["callback_data"] if data is None else data,
            }
            return self._update("callback_query", query)

    def delete(self, chat: int, message: int) -> None:
        with self._change:
            self._chats[chat] = [one for one in self._chats.get(chat, []) if one.id != message]

    # What can be seen.

    def messages(self, chat: int) -> list[Shown]:
        with self._change:
            return list(self._chats.get(chat, []))

    def texts(self, chat: int) -> list[str]:
        """What the bot says in the chat now."""
        return [one.text for one in self.messages(chat) if one.by_bot]

    def called(self, method: str, chat: int | None = None) -> list[Call]:
        calls = [one for one in list(self.calls) if one.method == method]
        return [one for one in calls if chat in (None, int(one.params.get("chat_id") or 0))]

    # What goes wrong.

    def fail(self, method: str, status: int = 500, description: str = "Internal Server Error", **more: Any) -> Fault:
        fault = Fault(method, status, description, **more)
        with self._change:
            self._faults.append(fault)
        return fault

    def flood(self, method: str, seconds: int, **more: Any) -> Fault:
        text = f"Too Many Requests: retry after {seconds}"
        return self.fail(method, 429, text, parameters={"retry_after": seconds}, **more)

    def heal(self) -> None:
        with self._change:
            self._faults.clear()

    # The server's side.

    def answer(self, method: str, params: dict[str, Any]) -> Any:
        with self._change:
            fault = self._fault(method, params)
        if fault is not None and fault.drop == "before":
            raise fault.without_answer(None)
        if fault is not None and not (fault.drop or fault.reply):
            raise ApiError(fault.status, fault.description, fault.parameters)
        if self.unauthorized:
            raise ApiError(401, "Unauthorized")
        if self.limits and method in COUNTED:
            with self._change:
                self.limits.take(int(params["chat_id"]), time.monotonic())
        known: dict[str, Callable[[dict[str, Any]], Any]] = {
            "getme": lambda _: BOT | {"can_join_groups": True},
            "getupdates": self._get_updates,
            "getfile": self.files.get_file,
            "sendmessage": self._send,
            "sendphoto": self._send_photo,
            "senddocument": self._send_document,
            "editmessagetext": self._edit,
            "editmessagereplymarkup": lambda params: self._edit(params, whole=False),
            **dict.fromkeys(SILENT, lambda _: True),
            "deletewebhook": self._delete_webhook,
        } | ({"sendmessagedraft": self._draft} if self.has_drafts else {})
        if method.lower() not in known:
            raise ApiError(404, "Not Found: method not found")
        result = known[method.lower()](params)
        if fault is not None:
            raise fault.without_answer(result)
        return result

    def _fault(self, method: str, params: dict[str, Any]) -> Fault | None:
        for fault in self._faults:
            if fault.method == method and fault.chat in (None, int(params.get("chat_id") or 0)):
                if fault.after > 0:
                    fault.after -= 1
                    return None
                fault.times -= 1
                if fault.times <= 0:
                    self._faults.remove(fault)
                return fault
        return None

    def _get_updates(self, params: dict[str, Any]) -> list[dict[str, Any]]:
        if self.webhook:
            active = "can't use getUpdates method while webhook is active; use deleteWebhook first"
            raise ApiError(409, f"Conflict: {active}")
        deadline = time.monotonic() + (0 if self.impatient else min(float(params.get("timeout") or 0), LONGEST_POLL))
        wanted = json.loads(params["allowed_updates"]) if params.get("allowed_updates") else None
        with self._change:
            self._generation += 1
            ours = self._generation
            self._change.notify_all()
            self.offset = max(self.offset, int(params.get("offset") or 0))
            self._updates = [one for one in self._updates if one["update_id"] >= self.offset]
            self.polls += 1
            try:
                while not self._closed:
                    if self._generation != ours:
                        raise ApiError(409, "Conflict: terminated by other getUpdates request")
                    found = [one for one in self._updates if wanted is None or set(one) & set(wanted)]
                    if found or time.monotonic() >= deadline:
                        return found[:100]
                    self._change.wait(deadline - time.monotonic())
                return []
            finally:
                self.polls -= 1

    def _delete_webhook(self, _: dict[str, Any]) -> bool:
        self.webhook = False
        return True

    def _send(self, params: dict[str, Any]) -> dict[str, Any]:
        text, entities = messages.text_and_entities(params)
        reply = json.loads(params.get("reply_parameters") or "{}")
        chat, thread = int(params["chat_id"]), params.get("message_thread_id")
        with self._change:
            shown = Shown(
                self._message_id(), text, True, reply.get("message_id"), int(thread) if thread else None,
                str(params.get("disable_notification")).lower() == "true", entities, buttons=messages.buttons_of(params),
            )  # fmt: skip
            self.drafts.pop(chat, None)
            self._chats.setdefault(chat, []).append(shown)
            return self._as_sent(chat, shown)

    def _draft(self, params: dict[str, Any]) -> bool:
        """Kept apart from the messages, until the next one of the bot."""
        chat, draft = int(params["chat_id"]), int(params.get("draft_id") or 0)
        if chat < 0:
            raise ApiError(400, "Bad Request: message drafts can be sent only to private chats")
        if not draft:
            raise ApiError(400, "Bad Request: draft identifier must be non-zero")
        text, entities = messages.text_and_entities(params)
        with self._change:
            self.drafts[chat] = (draft, text, entities)
        return True

    def _send_photo(self, params: dict[str, Any]) -> dict[str, Any]:
        photo, chat, thread = messages.photo_of(params), int(params["chat_id"]), params.get("message_thread_id")
        with self._change:
            caption = str(params.get("caption") or "")
            shown = Shown(self._message_id(), caption, True, thread=int(thread) if thread else None, photo=photo)
            self._chats.setdefault(chat, []).append(shown)
            size = {"file_id": "p", "file_unique_id": "p", "width": 1, "height": 1, "file_size": len(photo)}
            made = self._as_sent(chat, shown)
            del made["text"]
            return made | {"photo": [size], "caption": caption}

    def _send_document(self, params: dict[str, Any]) -> dict[str, Any]:
        name, content = messages.document_of(params)
        chat, reply = int(params["chat_id"]), json.loads(params.get("reply_parameters") or "{}")
        with self._change:
            shown = Shown(self._message_id(), "", True, reply.get("message_id"), document=(name, content))
            self._chats.setdefault(chat, []).append(shown)
            made = self._as_sent(chat, shown)
            del made["text"]
            return made | self.files.document(content, name)

    def _edit(self, params: dict[str, Any], *, whole: bool = True) -> dict[str, Any]:
        """Of the `whole` message, or of its buttons."""
        with self._change:
            shown = self._find(int(params["chat_id"]), int(params["message_id"]))
            if shown is None or not shown.by_bot:
                raise ApiError(400, "Bad Request: message to edit not found")
            text, entities = messages.text_and_entities(params) if whole else (shown.text, shown.entities)
            buttons = messages.buttons_of(params)
            if (shown.text, shown.entities, shown.buttons) == (text, entities, buttons):
                same = "new message content and reply markup are exactly the same as a current content and reply markup"
                raise ApiError(400, f"Bad Request: message is not modified: specified {same} of the message")
            shown.edits += [shown.text] if whole else []
            shown.text, shown.entities, shown.buttons = text, entities, buttons
            return self._as_sent(int(params["chat_id"]), shown)

    def _as_sent(self, chat: int, shown: Shown) -> dict[str, Any]:
        made = self._sent[chat, shown.id] = message_of(chat, shown.id, shown.text, BOT, {"entities": shown.entities})
        return made

    def _find(self, chat: int, message: int) -> Shown | None:
        return next((one for one in self._chats.get(chat, []) if one.id == message), None)

    def _message_id(self) -> int:
        self._next_message += 1
        return self._next_message

    def _update(self, kind: str, content: Any) -> int:
        self._next_update += 1
        self._updates.append({"update_id": self._next_update, kind: content})
        self._change.notify_all()
        return self._next_update


def _answer(api: TelegramApi, method: str, params: dict[str, Any]) -> tuple[int, dict[str, Any] | bytes | None]:
    """Status and answer of a request; None for none."""
    try:
        return 200, {"ok": True, "result": api.answer(method, params)}
    except ApiError as error:
        return error.status, error.as_json()
    except Garbled as error:
        return error.status, error.content
    except ConnectionAbortedError:
        return 0, None


def _handler(api: TelegramApi) -> type[BaseHTTPRequestHandler]:
    class Handler(Answering, BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self._body()
            method = self.path.rpartition("/")[2]
            params = messages.params_of(self.headers.get("Content-Type") or "", body)
            status, answer = _answer(api, method, params) if self.path.startswith(f"/bot{TOKEN}/") else NOT_FOUND
            if answer is None:
                api.calls.append(Call(method, params, time.monotonic(), 0))
                self.close_connection = True
                return
            if api.latency:
                time.sleep(api.latency)
            api.calls.append(Call(method, params, time.monotonic(), status))
            content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self._send_bytes(status, content, "application/json")

        def do_GET(self) -> None:
            send_file(api.files, f"/file/bot{TOKEN}/", self)

    return Handler
