"""What a text looks like, in plain letters: for comparing with a word that must not be imitated, never for showing or storing."""

from __future__ import annotations

import unicodedata

from shared.text.writing import normalized

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
