"""Every page, by its path."""

from __future__ import annotations

from dispatcher.features.web.app import Page
from dispatcher.features.web.pages import (
    changes,
    chats,
    explain,
    forget,
    home,
    memory,
    moving,
    nights,
    operations,
    settings,
)

PAGES = (
    Page("/", home.page),
    Page("/search", home.search),
    Page("/changes", changes.page),
    Page("/operations", operations.page, whole_host=True),
    Page("/nights", nights.page, whole_host=True),
    Page("/nights/{run}", nights.one, whole_host=True),
    Page("/nights/run", nights.run, writes=True, whole_host=True),
    Page("/releases/use", nights.use_release, writes=True, whole_host=True),
    Page("/releases/unpin", nights.unpin, writes=True, whole_host=True),
    Page("/chats", chats.page),
    Page("/chat", memory.page),
    Page("/chat/add", memory.add, writes=True),
    Page("/chat/correct", memory.correct, writes=True),
    Page("/chat/done", memory.done, writes=True),
    Page("/chat/forget", memory.forget, writes=True),
    Page("/chat/act", memory.act, writes=True),
    Page("/chat/talk", chats.talk),
    Page("/chat/search", chats.search),
    Page("/chat/why", explain.why),
    Page("/chat/try", explain.try_prompt),
    Page("/chat/export", moving.export),
    Page("/forget", forget.page),
    Page("/forget/preview", forget.preview, writes=True),
    Page("/forget/carry-out", forget.carry_out, writes=True),
    Page("/import", moving.page, whole_host=True),
    Page("/import/upload", moving.upload, writes=True, whole_host=True, takes_file=True),
    Page("/import/plan", moving.plan, writes=True, whole_host=True),
    Page("/import/stage", moving.stage, writes=True, whole_host=True),
    Page("/import/undo", moving.undo, writes=True, whole_host=True),
    Page("/settings", settings.page, whole_host=True),
    Page("/settings/save", settings.save, writes=True, whole_host=True),
    Page("/jobs/{job}", operations.job),
)
