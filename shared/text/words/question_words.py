"""Words that show what a question asks for: who is meant, a time, advice. Tables only; shared/ranking/question.py reads them."""

from __future__ import annotations

import re

#: Words that form a question rather than say what it is about; asked for, they drown the others (measured on LoCoMo: +6.4 points
#: of recall@10 without them, +4.5 and +3.1 on two other kinds of conversation).
ENGLISH_QUESTION_WORDS = frozenset(
    """
    a about am an and any are as at be been but by can could did do does for from had has have how i if in into is
    it its me my of on or our she he her his they them their than that the then there these this to us was we were
    what when where which who whom whose why will with would you your
    """.split()
)
#: The same kinds of words in Russian, in every form, with ё and without.
_RUSSIAN = """
    а без бы был была были было быть в вам вами вас ваш ваша ваше вашего вашей вашем вашему ваши вашим вашими ваших вашу ведь во вот вы где да для
    до его ее ей ему если есть еще ещё её ею же за зачем и из или им ими их к как какая какие каким какими каких какого какое какой каком какому
    какую ко когда кого ком кому которая которого которое которой котором которому которую которые который которым которых кто куда ли либо меня
    мне мной мною мое моего моей моем моему моею мои моим моими моих мой мою моя моё моём мы на нам нами нас наш наша наше нашего нашей нашем
    нашему наши нашим наших нашу него нее ней нем нему нет неё ни ним ними них но нём о об обо он она они оно от откуда отчего по под почему при
    про с сам со сколько та так такая такие таким таких такого такое такой такую там твое твоего твоей твоем твоему твои твоим твоими твоих твой
    твою твоя твоё твоём те тебе тебя тем теми тех то тобой того тоже той том тому тот ту ты у уже чего чей чем чему через что чтобы чье чьего
    чьей чьему чьи чьим чьих чью чья чьё чём эта эти этим этими этих это этого этой этом этому этот эту я
"""
QUESTION_WORDS = ENGLISH_QUESTION_WORDS | frozenset(_RUSSIAN.split())

#: Words of the one who asks, and of the one who is asked.
ASKER = frozenset(
    "i my me mine я меня мне мной мною мой моя моё мое моего моей моему моим моём моем моею мои моих моими мою".split()
)
ASKED = frozenset(
    """
    you your yours ты тебя тебе тобой твой твоя твоё твое твоего твоей твоему твоим твоём твоем твои твоих твоими твою
    вы вас вам вами ваш ваша ваше вашего вашей вашему вашим вашем ваши ваших вашими вашу
    """.split()
)

#: What tells a time, so that it may answer "when" or "how long".
TIME = re.compile(
    r"\b(?:yesterday|today|tomorrow|tonight|ago|last|next|since|recently|week|weekend|month|year"
    r"|monday|tuesday|wednesday|thursday|friday|saturday|sunday"
    r"|january|february|march|april|june|july|august|september|october|november|december"
    r"|вчера|позавчера|сегодня|завтра|послезавтра|назад|недавно|прошл\w+|следующ\w+|выходн\w+"
    r"|недел\w{1,3}|месяц\w{0,3}|год(?:а|у|ом|е|ы|ов|ах|ам)?|лет"
    r"|понедельник\w{0,3}|вторник\w{0,3}|сред(?:а|у|ы|е|ой)|четверг\w{0,3}|пятниц\w{0,3}|суббот\w{0,3}|воскресень\w{1,3}"
    r"|(?:январ|феврал|март|апрел|июн|июл|август|сентябр|октябр|ноябр|декабр)\w{0,3}|ма(?:й|я|е|ю|ем)"
    r"|\d{4}|\d+(?:st|nd|rd|th))\b",
    re.IGNORECASE,
)
#: The same in other languages, plain: words that no English text has ("mars", "mayo" and "marco" are left out).
OTHER_TIMES = frozenset(
    """
    vorgestern gestern heute morgen ubermorgen uebermorgen neulich kurzlich letzte letzten letzter nachste nachsten nachster woche wochen
    wochenende monat monate monaten jahr jahre jahren montag dienstag mittwoch donnerstag freitag samstag sonnabend sonntag montags dienstags
    mittwochs donnerstags freitags samstags sonntags januar februar marz maerz juni juli oktober dezember
    aujourd demain recemment semaine semaines mois annee annees dernier derniere prochain prochaine lundi mardi mercredi jeudi vendredi
    samedi dimanche janvier fevrier juin juillet aout septembre octobre novembre decembre
    ayer anteayer anoche hoy manana pasado pasada proximo proxima semana semanas lunes martes miercoles jueves viernes sabado enero febrero
    marzo abril junio agosto septiembre setiembre octubre noviembre diciembre anos
    ieri oggi domani dopodomani stamattina stasera scorso scorsa prossimo prossima settimana settimane anni lunedi martedi mercoledi giovedi
    venerdi sabato domenica gennaio febbraio aprile maggio giugno luglio settembre ottobre dicembre
    ontem anteontem hoje amanha passado passada janeiro fevereiro maio junho julho setembro outubro novembro dezembro
    """.split()
)
UNSPACED_TIME = re.compile(
    r"[\d〇一二三四五六七八九十]+\s*(?:年|月|日|号|點|点|時|时)|昨|今[天日晚早]|明[天日年]|前天|后天|後天|[上下本这來来先今]个?[周週月]|去年|今年|来年"
    r"|星期|周[一二三四五六日末]|週末|曜日|今週|어제|오늘|내일|지난|다음|요일|\d+\s*(?:년|월|일)|เมื่อวาน|วันนี้|พรุ่งนี้|สัปดาห์|อาทิตย์|เดือน|ปีที่แล้ว|ปีหน้า|ปีนี้|วันจันทร์|วันพ|วันศุกร์|วันเสาร์"
)
#: Words that, standing together in a question, ask for a time.
WHEN = (
    "when", "how long", "когда", "как долго", "как давно", "сколько времени", "wann", "wie lange", "combien de temps", "cuándo", "cuando",
    "cuánto tiempo", "cuanto tiempo", "quando", "quanto tempo", "da quanto", "什么时候", "多久", "哪天", "几点", "几号", "いつ", "何時", "何日",
    "언제", "เมื่อไหร่", "เมื่อไร", "กี่โมง", "วันไหน",
)  # fmt: skip

#: What asks for advice, in seven languages.
ADVICE = (
    # English
    r"suggest\w*|recommend\w*|advi[cs]e\w*|should i|(?:can|could) you help|how (?:can|could|should|do|would) i|help me|walk me through"
    r"|what (?:would|do) you|where do you think|options|ideas",
    # German
    r"empfiehl\w*|empfehl\w*|vorschlag\w*|vorschläg\w*|schlägst|rätst|ratschl\w*|soll(?:te)? ich|hilf mir|wie kann ich|ideen|tipps",
    # French
    r"conseil\w*|recommand\w*|suggèr\w*|suggér\w*|propos\w*|devrais je|aide moi|comment puis je|idées",
    # Spanish
    r"recom(?:iend|end)\w*|sug(?:ier|er)\w*|aconsej\w*|consejos?|debería|ayúdame|cómo puedo|opciones",
    # Italian
    r"consigl\w*|suggeri\w*|raccomand\w*|dovrei|aiutami|come posso|idee",
    # Portuguese
    r"sugest\w*|sug[ei]r\w*|conselh\w*|devo|deveria|ajuda me|dicas|ideias",
    # Russian
    r"посовет\w*|совет\w*|порекоменд\w*|рекоменд\w*|предлож\w*|помоги\w*|стоит ли мне|как мне",
)
#: It asks what was advised, not for advice.
TOLD = frozenset({"did", "when"})
#: By these words a person says what he prefers; each by itself, and the index holds English ones by their stem.
PREFERENCE = tuple(
    (
        "prefer preferred preference rather favorite favourite "
        "bevorzuge bevorzugt lieber liebsten "
        "préfère préférer préféré préférée "
        "prefiero preferido preferida favorito favorita "
        "preferisco preferito preferita "
        "prefiro "
        "предпочитаю предпочла любимый любимая любимое"
    ).split()
)
