"""Every page, by its path."""

from __future__ import annotations

from dispatcher.features.web.app import Page
from dispatcher.features.web.pages import chats, explain, forget, memory, moving, nights, today

_POST = ("POST",)

PAGES = (
    Page("/", today.page),
    Page("/nights", nights.page, whole_host=True),
    Page("/nights/{run}", nights.one, whole_host=True),
    Page("/nights/run", nights.run, _POST, whole_host=True),
    Page("/releases/use", nights.use_release, _POST, whole_host=True),
    Page("/releases/unpin", nights.unpin, _POST, whole_host=True),
    Page("/chats", chats.page),
    Page("/chat", memory.page),
    Page("/chat/add", memory.add, _POST),
    Page("/chat/correct", memory.correct, _POST),
    Page("/chat/done", memory.done, _POST),
    Page("/chat/forget", memory.forget, _POST),
    Page("/chat/act", memory.act, _POST),
    Page("/chat/talk", chats.talk),
    Page("/chat/search", chats.search),
    Page("/chat/why", explain.why),
    Page("/chat/try", explain.try_prompt),
    Page("/chat/export", moving.export, whole_host=False),
    Page("/forget", forget.page),
    Page("/forget/preview", forget.preview, _POST),
    Page("/forget/carry-out", forget.carry_out, _POST),
    Page("/import", moving.page, whole_host=True),
    Page("/import/upload", moving.upload, _POST, whole_host=True),
    Page("/import/plan", moving.plan, _POST, whole_host=True),
    Page("/import/stage", moving.stage, _POST, whole_host=True),
    Page("/settings", today.settings, whole_host=True),
    Page("/jobs/{job}", today.job),
)
