"""Text of memory made harmless for a prompt: what could pass for a mark of the prompt, for another speaker or for an order is broken visibly.

Marks are known by their shape, not by a list of names: the next version of a model or of the CLI has other names. All text of memory goes
through here on its way to a model; what is stored stays as it was said.
"""

from __future__ import annotations

import re
import unicodedata

from shared.text.writing import normalized

# ── What a text looks like, in plain letters: for comparing with a word that must not be imitated, never for showing or storing.


#: Characters that look like a Latin letter in either case: those of Unicode's confusables.txt (UTS 39) that no decomposition leads to the letter,
#: small capitals, and letters on signs. "i" stands for I, l and 1 alike.
_LETTERS = {
    "a": "ɑΑαАаᎪᗅᴀ⍶⍺ꓮ𐊠𖽀🅐🅰🇦",
    "b": "ƀƂƃƄɓʙΒБВЬѢѣҌҍᏏᏴᑲᑳᖯᗷꓐꞴ𐊂𐊡𐌁🅑🅱🇧",
    "c": "¢©ȼСсҪҫᏟᴄ₡Ⲥⲥꓚꮯ𐊢𐌂𐐕𐐽𐔜𑣲🅒🅮🅲🇨🝌",
    "d": "ÐĐđƉƌɖɗԁᎠᏧᑯᗞᗪᴅ₫ꓒꓓ🅓🅳🇩",
    "e": "ɆɇΕЕеҽҿᎬᴇ℮⋿ⴹꓰꬲ𐊆𑢦𑢮🅔🅴🇪",
    "f": "ƑƒϜքᖴᵮẝꓝꜰꞘꞙꬵ𐊇𐊥𐔥𑢢𑣂𝈓🅕🅵🇫",
    "g": "ƍǤǥɠɡɢԌցᏀᏳᶃꓖ🅖🅶🇬",
    "h": "ĦħɦʜΗНћҢһӇӉհᎻᏂᏲᕼⱧⲎꓧꚕ𐋏🅗🅷🇭",
    "i": "ıŁłƖƗƚǀɨɩɪɫɭʟΙιІіӀӏᎥᏞᒪᛁᣳᵻᵼ∣⍳⍸⏽ⲒⳐⵏꓡꓲꙇꭵ𐊊𐌉𐌠𐐛𐔦𑢣𑢲𑣃𖼖𖼨𝈪🅘🅛🅸🅻🇮🇱",
    "j": "ɈɉͿϳЈјᎫᒍᴊꓙꞲ🅙🅹🇯",
    "k": "ƙΚКҚҞᏦᛕᴋ₭ⱩⲔꓗꝀ𐔘🅚🅺🇰",
    "m": "ΜϺМӍᎷᗰᛖᴍⲘꓟꭑ𐊰𐌑🅜🅼🇲",
    "n": "ƝƞɲɳɴΝηոռᵰⲚꓠ𐆎𐔓🅝🅽🇳",
    "o": "ØøƟɵΘΟθοσОоѲѳӨөՕօଠంಂംഠංတဝჿዐᎾᏫᴏᴑ⊖⊝⍬Ⲟⲟⴱⵁⵔ〇ꓳꝊꝋꬽꬾꭴꮎꮻ𐊒𐊫𐐄𐐬𐓂𐓪𐔖𑢵𑣈𑣗𝈚🅞🅾🇴🜔",
    "p": "ƥΡρРрᏢᑭᣖᴘᵽ℗⍴Ⲣⲣꓑ𐊕🅟🅿🇵",
    "q": "ʠԛգզⵕꞯ🅠🆀🇶",
    "r": "®ƦɍɼɽʀгғᎡᏒᖇᣴᴦᵲⲅꓣꭇꭈꮁ𐒴𖼵𝈖🅡🆁🇷",
    "s": "ƽʂЅѕՏᏕᏚᣵᵴꓢꜱꮪ𐊖𐐠𐑈𑣁𖼺🅢🆂🇸",
    "t": "ŦŧƫƭƮȾΤТҬᎢᴛᵵ₮⊤⍡⟙Ⲧꓔ𐊗𐊱𐌕𑢼𖼊🅣🆃🇹🝨",
    "u": "ɄʋυՍսሀᏌᑌᴜᵾ∪⋃ꓴꞟꭎꭒꮜ𐓎𐓶𑢸𑣘𖽂🅤🆄🇺",
    "v": "νѴѵᏙᐯᴠ∨⋁ⴸꓦꛟꮩ𐆗𐔝𑜆𑢠𑣀𖼈𝈍🅥🆅🇻🜈",
    "w": "ɯѡѽԜԝաᎳᏔᴡ₩ꓪꝡꮃ𑓅𑜊𑜎𑜏𑣯🅦🆆🇼",
    "x": "×ΧХхҲᕁᕽ᙭᙮ᚷ╳⤫⤬⨯⨰ⲬⵝꓫꞳ𐆖𐊐𐊴𐌗𐌢𐔧𑣬🅧🆇🇽",
    "y": "¥ƴɎɏɣʏΥγУуҮүҰұყᎩᎽᶌỿⲨꓬꭚ𐊲𑢤𑣜𖽃🅨🆈🇾",
    "z": "ƵƶȤȥʐΖᏃᙆᴢᵶꓜꮓ𐋵𑢩𑣄🅩🆉🇿",
}
#: Letters that show nothing.
_BLANK = "\u115f\u1160\u17b4\u17b5\u2800\uffa0"
#: The only signs that compatibility forms do not lead to and that end a label.
_COLONS = "\u02d0\u02f8\u0589\u0903\u0a83\u16ec\u1803\u1809\u205a\u2236\ua4fd\ua789"


def _table() -> dict[int, str]:
    same = {character: letter for letter, some in _LETTERS.items() for character in some}
    lower = {character.lower(): letter for character, letter in same.items() if len(character.lower()) == 1}
    return {
        ord(one): as_one
        for one, as_one in (lower | same | dict.fromkeys(_BLANK, "") | dict.fromkeys(_COLONS, ":")).items()
    }


_SAME = _table()


def skeleton(text: str) -> str:
    """The text in lower case without accents, invisible characters and line breaks, look-alikes as the Latin letter that they pass for.

    For ASCII it is the text in lower case without control characters.
    """
    if text.isascii():
        return (text if text.isprintable() else "".join(filter(str.isprintable, text))).lower()
    plain = normalized("NFKD", text).translate(_SAME)
    return "".join(
        one for one in plain if one.isprintable() and not unicodedata.category(one).startswith("M")
    ).casefold()


#: The words of tags in an answer (dispatcher/memory/typed/tags.py), those of features too: in memory they are words and no order.
TAG_WORDS = ("REMEMBER", "GOAL", "DONE", "FORGET", "PREFERENCE", "REMIND", "PICTURE")
#: Who takes part in a prompt.
_ROLES = "human|user|assistant|system|claude|ai"

#: It begins with the set: so a text without any is passed over four times as fast.
_LINE_BREAK = re.compile(r"[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029](?:(?<=\r)\n)?")
_ANGLES = "<\uff1c\ufe64\u02c2\u276e\u276c\u2770\u27e8\u2329\u3008\u29fc\u2991\u227a\u22d6\U0001d236"
#: `<` or what looks like it, with all that may stand ahead of a name without showing: what is no letter, digit or visible ASCII. Two letters look
#: like it, too: in a text of their own script they are letters.
_OPENING = re.compile(
    rf"(?:[{_ANGLES}]|[\u1438\u16b2](?![\u1400-\u167f\u16a0-\u16f8]))(?P<gap>[^\w\x21-\x3b\x3d-\x7e\u2039\u203a]*+)"
)
_ANGLE = re.compile(rf"[{_ANGLES}\u1438\u16b2]")
_NAME = re.compile(r"[^\W\d]|[/!?|]")
#: What plain blanks may part from the `<`: a name that is closed or has an attribute; `a < b` is none.
_SPACED_NAME = re.compile(r"[/!?]? *+[^\W\d][\w.:-]*+(?: *>| +[^\W\d][\w.:-]*+ *=)|\|\w")
#: What begins another speaker's turn, or a part of the prompt, at the start of a line; of a skeleton.
_LINE_START = re.compile(rf"\s*(?:[*_~]*(?:{_ROLES})[*_~]*\s*:|#|```|\[/?inst\])")
#: A line that may be one: list items and what is broken already are none.
_LINE = re.compile(r"^(?!- |› )[^\n]+", re.MULTILINE)
_TAG = re.compile(rf"\s*(?:{'|'.join(TAG_WORDS).lower()})(?:\s+\w{{1,16}})?\s*:")
#: A bracket, and the characters after it in which a tag's word is looked for.
_BRACKET = re.compile(r"[\[\uff3b](?=([^\[\]\uff3b\n]{1,64}))")


def harmless(text: str) -> str:
    """The text with marks broken: `<` of a tag as `‹`, `› ` ahead of a role or heading and inside an order such as `[› FORGET: x]`.

    Line breaks of any kind become line feeds first, so that what begins a line for a reader begins one here. Applied twice it is the same.
    """
    text = _LINE_BREAK.sub("\n", text)
    if "<" in text or (not text.isascii() and _ANGLE.search(text)):
        text = _OPENING.sub(_opening, text)
    if "[" in text or "\uff3b" in text:
        text = _BRACKET.sub(_bracket, text)
    return text if text.startswith("- ") and "\n" not in text else _LINE.sub(_line, text)


def _opening(match: re.Match[str]) -> str:
    text, end, gap = match.string, match.end(), match["gap"]
    blank, odd = " " in _ANGLE.split(gap)[-1], bool(gap.strip(" <"))  # "< <a" is an opening, too
    if (_NAME.match(text, end) and (odd or not blank)) or (odd and text.startswith(">", end)):
        return _ANGLE.sub("‹", match[0])
    return _ANGLE.sub("‹", match[0]) if blank and _SPACED_NAME.match(text, end) else match[0]


def _bracket(match: re.Match[str]) -> str:
    return f"{match[0]}› " if _TAG.match(skeleton(match[1])) else match[0]


def _line(match: re.Match[str]) -> str:
    return f"› {match[0]}" if _LINE_START.match(skeleton(match[0])) else match[0]
