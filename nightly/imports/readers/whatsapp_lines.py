"""The lines of a WhatsApp export: which of them begin a message, when that was, and what in a text was not written by anybody."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

#: Marks of the direction of writing, which WhatsApp puts around names, numbers and notices.
MARKS = "\u200e\u200f\u202a\u202b\u202c\u2066\u2067\u2068\u2069\ufeff"
_LEFT_TO_RIGHT = "\u200e"

_AFTERNOON = ("pm", "下午", "오후", "午後", "م", "μμ", "ch")
_MORNING = ("am", "上午", "오전", "午前", "ص", "πμ", "sa")
_HALF = r"[ap]\.?[ ]?m\.?|上午|下午|오전|오후|午前|午後|ص|م|[πμ]\.?μ\.?|SA|CH"
_DATE = r"(?P<date>\d{1,4}(?:[-/.][ ]?|年[ ]?|년[ ]?)\d{1,2}(?:[-/.][ ]?|月[ ]?|월[ ]?)\d{1,4})[日일.]?"
_TIME = rf"(?:(?P<ahead>{_HALF})[ ]?)?(?P<time>\d{{1,2}}[:.]\d{{2}}(?:[:.]\d{{2}})?)(?:[ ]?(?P<behind>{_HALF}))?"
#: Between date and time: a comma, a blank, a word such as `à`, `kl.`, `klo`, `um`.
_BETWEEN = rf"[,.]?[ ](?:(?!{_HALF})[^\W\d_]{{1,4}}\.?[ ])?"
_IOS = re.compile(rf"\[{_DATE}{_BETWEEN}{_TIME}\][ ](?P<rest>.*)", re.IGNORECASE | re.DOTALL)
_ANDROID = re.compile(rf"{_DATE}{_BETWEEN}{_TIME}[ ](?:-|–)[ ](?P<rest>.*)", re.IGNORECASE | re.DOTALL)
_SENDER = re.compile(r"(?P<sender>[^:\n]{1,120}?)[ ]?:(?:[ ](?P<text>.*)|\Z)", re.DOTALL)
_BLANKS = str.maketrans({"\u202f": " ", "\u00a0": " "})
_APART = re.compile(r"[-/.年月년월 ]+")

#: A mark for media that were left out: `<Media omitted>`, `<Médias omis>`, `<Без медиафайлов>`.
_OMITTED = re.compile(r"<[^<>\n:]{3,60}>\Z")
#: On iOS, of which the mark is left to right: `image omitted`, `Bild weggelassen`; a notice begins like this, too.
_FILE = r"[^<>\n/\\]{1,200}\.[A-Za-z0-9]{2,5}"
#: `IMG-20231231-WA0001.jpg (file attached)`, with a caption below it perhaps; on iOS `<attached: 00000012-PHOTO.jpg>`.
_ATTACHED = re.compile(
    rf"(?:(?P<android>{_FILE}) \([^()\n]{{3,40}}\)|(?P<before>[^<\n]*)<[^<>:\n]{{2,30}}: ?(?P<ios>{_FILE})>)(?:\n(?P<caption>.*))?\Z",
    re.DOTALL,
)
#: `<This message was edited>`, which follows the text, without its brackets.
_EDITED = frozenset((
    "this message was edited", "diese nachricht wurde bearbeitet", "se editó este mensaje", "ce message a été modifié",
    "questo messaggio è stato modificato", "mensagem editada", "сообщение изменено", "dit bericht is bewerkt", "bu mesaj düzenlendi",
))  # fmt: skip
_DELETED = frozenset((
    "this message was deleted", "you deleted this message", "diese nachricht wurde gelöscht", "du hast diese nachricht gelöscht",
    "se eliminó este mensaje", "eliminaste este mensaje", "ce message a été supprimé", "vous avez supprimé ce message",
    "questo messaggio è stato eliminato", "hai eliminato questo messaggio", "esta mensagem foi apagada", "esta mensagem foi eliminada",
    "você apagou esta mensagem", "данное сообщение удалено", "сообщение удалено", "вы удалили данное сообщение", "dit bericht is verwijderd",
    "bu mesaj silindi", "null", "waiting for this message", "waiting for this message. this may take a while",
))  # fmt: skip
_PHOTOS, _VIDEOS, _SOUNDS = ("jpg", "jpeg", "png", "heic"), ("mp4", "mov", "3gp"), ("opus", "m4a", "mp3", "aac", "amr")


@dataclass(frozen=True)
class Head:
    """The first line of a message. `numbers`: of its date, as they are written; `dotted`: with dots between; `sender`: None for a notice."""

    numbers: tuple[str, str, str]
    dotted: bool
    clock: tuple[int, int, int]
    afternoon: bool | None
    sender: str | None
    text: str

    def moment(self, order: tuple[int, int, int]) -> datetime | None:
        """The local time, if year, month and day stand in this order; None if they cannot."""
        year, month, day = (self.numbers[at] for at in order)
        hour, minute, second = self.clock
        if len(year) not in (2, 4) or len(month) > 2 or len(day) > 2:
            return None
        if self.afternoon is not None:
            if not 1 <= hour <= 12:
                return None
            hour = hour % 12 + 12 * self.afternoon
        try:
            whole = int(year) + (2000 if len(year) == 2 else 0)
            return datetime(whole, int(month), int(day), hour, minute, second)  # noqa: DTZ001 - local: the file names no zone
        except ValueError:
            return None


def head_of(line: str) -> Head | None:
    """The head of a message; None for a line that goes on with one."""
    bare = line.lstrip(MARKS).translate(_BLANKS)
    found = _IOS.match(bare) or _ANDROID.match(bare)
    if found is None:
        return None
    first, second, third = _APART.split(found["date"])
    hour, minute, *rest = (int(number) for number in re.split("[:.]", found["time"]))
    half = re.sub(r"[. ]", "", (found["ahead"] or found["behind"] or "")).casefold()
    afternoon = None if not half else half in _AFTERNOON
    said = _SENDER.match(found["rest"].lstrip(MARKS))
    sender = said["sender"].strip(MARKS + "~ ") if said else ""
    text = (said["text"] or "") if said else found["rest"]
    clock = (hour, minute, rest[0] if rest else 0)
    return Head((first, second, third), "." in found["date"], clock, afternoon, sender or None, text)


def not_said(text: str) -> str | None:
    """Why a text is nobody's words: media that were left out, a notice, a message that was deleted."""
    bare = text.strip(MARKS + " \n")
    if not bare:
        return "without text"
    if bare.casefold().rstrip(".") in _DELETED:
        return "deleted, or not received yet"
    attached = _ATTACHED.match(bare)
    if attached:
        return None if (attached["before"] or "").strip(MARKS + " ") or (attached["caption"] or "").strip() else "media"
    if _OMITTED.match(bare):
        return "media"
    return "media, or a notice of WhatsApp" if text.lstrip(" ").startswith(_LEFT_TO_RIGHT) else None


def split_media(text: str) -> tuple[str, dict[str, str] | None]:
    """(the words without WhatsApp's marks, the attachment as Origin takes it)."""
    bare = text.strip(MARKS + " \n")
    before, _, mark = bare.rpartition("<")
    if mark.endswith(">") and mark[:-1].casefold().rstrip(".") in _EDITED:
        bare = before.rstrip(MARKS + " \n")
    attached = _ATTACHED.match(bare)
    if attached is None:
        return bare, None
    name = str(attached["android"] or attached["ios"])
    words = "\n".join(
        part.strip(MARKS + " \n") for part in (attached["before"], attached["caption"]) if part and part.strip()
    )
    return words, {"kind": _kind(name), "name": name}


def _kind(name: str) -> str:
    ending = name.rpartition(".")[2].lower()
    if ending in _PHOTOS:
        return "photo"
    return "video" if ending in _VIDEOS else "audio" if ending in _SOUNDS else "document"
