"""One long piece of work, while it runs and after it."""

from __future__ import annotations

from dataclasses import replace

from starlette.responses import Response

from dispatcher.features.web.requests.asked import Asked, NotShown
from dispatcher.features.web.requests.uploads import remove_upload


def page(asked: Asked) -> Response:
    job = asked.jobs.get(asked.value("job"))
    if job is None:
        raise NotShown
    grant = asked.session.grant
    if not grant.whole_host and (job.chats is None or not all(map(grant.sees, job.chats))):
        raise NotShown
    if not grant.whole_host:  # it may name other chats, and says much of the host
        job = replace(job, output="")
    if job.state == "done" and (name := job.more.get("file")):
        remove_upload(asked.settings, str(name))
    if asked.in_part:
        return asked.part("job_state.html", job=job)
    return asked.page("job.html", job.title, job=job)
