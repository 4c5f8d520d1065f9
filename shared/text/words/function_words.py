"""Words that carry no content, and the language that they show. Pure functions over words in lower case.

Three kinds. Words that form a sentence ("what", "der", "avons") are not searched for. Words of courtesy ("hello", "merci") and words that ask
for what was said ("tell", "gesprochen") are searched for, but are no evidence that a message bears on anything. English and Russian sentence
words are dropped always (question.py); the others only from a message of their language, since "die", "car" and "son" are English words too.
Italian, Portuguese, Chinese, Japanese, Korean and Thai are in more_function_words.py.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping

from shared.text.caches import cached
from shared.text.words.more_function_words import MORE
from shared.text.words.stemming import KEPT_WORDS
from shared.text.writing import is_unspaced, normalized


@cached(KEPT_WORDS)
def plain(word: str) -> str:
    """Without accents, in lower case; ё is е, and й stays a letter of its own."""
    kept = normalized("NFKD", word.lower().replace("й", "\ue000"))
    return "".join(one for one in kept if not unicodedata.combining(one)).replace("\ue000", "й")


def _with_more(kind: str, known: Mapping[str, frozenset[str]]) -> Mapping[str, frozenset[str]]:
    """These words of a kind, by language, and those of the further languages."""
    return {**known, **{language: frozenset(map(plain, words.of(kind))) for language, words in MORE.items()}}


#: Kept without accents, as people type them with and without.
GERMAN = frozenset(
    """
    ab aber alle allem allen aller alles als also am an auch auf aus bei beim bin bis bist da damit dann darf das dass dein deine deinem
    deinen deiner dem den denn der des dich die dies diese diesem diesen dieser dieses dir doch dort du durch ein eine einem einen einer
    eines er es euch euer eure fuer fur gab gibt hab habe haben habt hast hat hatte hatten hattest hier ich ihm ihn ihnen ihr ihre ihrem
    ihren ihrer im in ins ist ja jetzt kann kannst konnen konnte mal man mein meine meinem meinen meiner meines mich mir mit mochte muss
    musst nach nein nicht noch nun nur ob oder ohne schon sehr sein seine seinem seinen seiner seit sich sie sind so soll sollen sollte uber
    ueber um und uns unser unsere unserem unseren unserer unter viel viele vom von vor war waren warst warum was weil welche welchem welchen
    welcher welches wem wen wenn wer werden wessen wie wieder wieso will wir wird wo wobei wofur wohin womit woran woruber worum wovon wurde
    wurden zu zum zur wann
    """.split()
)
FRENCH = frozenset(
    """
    a ai aie as au aux avais avait avec avez avions avoir avons ayant c ca car ce cela celle celui ces cet cette ceux chez comme comment
    combien d dans de depuis des deja donc dont du elle elles en encore es est et etaient etais etait ete etes etre eu eux faut il ils j je
    l la laquelle le lequel les lesquels leur leurs lui m ma mais me mes moi mon n ne ni nos notre nous on ont ou par pas peux peut plus
    pour pourquoi qu quand que quel quelle quelles quels qui quoi s sa sans se sera ses si soit sommes son sont suis sur t ta te tes toi ton
    toujours tres tu un une va vais vas vers vont vos votre vous y
    """.split()
)
SPANISH = frozenset(
    """
    a ahora al algo ante aqui asi aun aunque cada como con cual cuales cuando cuanta cuantas cuanto cuantos de del desde donde dos el ella
    ellas ellos en entonces entre era eran eras eres es esa esas ese eso esos esta estaba estado estan estar estas este esto estos estoy fue
    fueron fui ha haber habia han has hasta hay he hemos hoy la las le les lo los mas me mi mia mio mis mucha mucho muy ni no nos nosotros
    nuestra nuestro o os para pero por porque puede puedes que quien quienes se sea ser si sin sobre sois somos son soy su sus tambien te
    tengo tiene tienes ti tu tus un una uno unos y ya yo
    """.split()
)
#: Written with the other kinds of English sentence words (shared/ranking/question.py) only to tell the language: "s" is what is left of "what's".
ENGLISH_MARKS = frozenset(
    """
    a about am and any are at be been but by can could did do does for from had has have how i if in into is it its me my of on or our she
    that the their them then there they this to us was we were what when where which who why will with would you your he his her much many
    not s t ll ve re
    """.split()
)
#: What an apostrophe leaves of English words; single letters are never telling.
CUT_OFF = frozenset("ll ve re don didn doesn isn wasn won couldn shouldn".split())
OTHERS = _with_more("sentence", {"de": GERMAN, "fr": FRENCH, "es": SPANISH})

#: Words of courtesy, of greeting and of agreement, by language: what small talk is made of. Without accents.
COURTESY = _with_more(
    "courtesy",
    {
        language: frozenset(words.split())
        for language, words in {
            "en": """
            hello hi hey hiya greetings welcome bye goodbye thanks thank thx cheers please sorry ok okay yes yeah yep no nope sure fine
            good great nice
            cool best perfect awesome wonderful lovely amazing super well morning afternoon evening night luck sleep later see soon haha
            hahaha lol wow
            oh ah hm hmm going funny everything alright right really very so just all
        """,
            "de": """
            hallo servus moin guten gute guter gutes morgen abend nacht tschuss danke dank dankeschon bitte vielen herzlichen ok okay klar
            gut prima toll
            schon schlaf geht gehts bis spater bald nett witzig lustig wunderbar genau stimmt los tag super perfekt hey hi haha
        """,
            "fr": """
            bonjour bonsoir salut coucou adieu merci beaucoup bonne bon bien nuit soiree journee matin plaisir svp plait vraiment genial
            parfait super
            drole accord bientot demain oui non allez ok haha
        """,
            "es": """
            hola buenos buenas buen dias tardes noches adios gracias muchas muchisimas favor vale bien genial perfecto tal estupendo luego
            hasta gusto
            claro gracioso si encantado manana ok jaja jajaja
        """,
            "ru": """
            привет здравствуй здравствуйте доброе добрый доброй утро утра день дня вечер вечера ночи пока спасибо большое огромное
            пожалуйста ладно
            хорошо отлично супер класс дела нормально понятно ясно ага угу смешно ха хаха круто прекрасно замечательно спокойной свидания
            удачи да нет
            поживаешь
        """,
        }.items()
    },
)
#: Words that ask for what was said or done, whatever it was, or stand beside a time ("lundi dernier").
TALKING = _with_more(
    "talking",
    {
        language: frozenset(words.split())
        for language, words in {
            "en": """
            talk talked talking speak spoke spoken discuss discussed discussing say said saying tell told telling mention mentioned chat
            chatted
            conversation remember recall remind topic topics happen happened happening doing done anything something everything day last
            past this ago
        """,
            "de": """
            reden redeten geredet sprachen sprechen gesprochen besprochen erzahlt erzahlte erzahlen gesagt sagte sagen erwahnt unterhalten
            gemacht
            passiert getan geschehen thema themen weisst erinnerst etwas letzten letzte letzter vergangenen
        """,
            "fr": """
            parle parler parlions dit dis disais raconte racontais discute discuter mentionne evoque fait passe sujet sujets souviens
            rappelle
            quelque chose dernier derniere passee
        """,
            "es": """
            hablamos hablar hablado hablabamos hablaste hable dije dijiste dijo dicho conte contado contaste contamos comente comentado
            comentamos
            mencione paso hice hicimos hiciste tema temas recuerdas acuerdas pasado pasada
        """,
            "ru": """
            говорили говорил говорила говорить сказал сказала сказали рассказывал рассказывала рассказал рассказала рассказывали обсуждали
            обсуждал
            обсуждала упоминал упоминала разговаривали беседовали болтали делал делала делали сделал сделала случилось происходило
            произошло помнишь
            тема темы речь шла шел прошлый прошлую прошлое
        """,
        }.items()
    },
)
#: Words that nearly every chat holds and that say little of what is meant. As evidence only: they are searched for.
LIGHT = _with_more(
    "light",
    {
        language: frozenset(words.split())
        for language, words in {
            "en": """
            again also another back come do each else even ever every get give go got help here it's kind know let like little long lot
            make many maybe
            mean mind more most much need new now one ones only other out own put show some still such take than thing things think time
            try up use want way
        """,
            "de": """
            anderen andere bisschen brauche danach eben eigentlich einfach etwa ganz gar geben gehen gerade gern heisst hilf hilfe immer
            jemand kennst
            kommen kommt leicht lieber mach mache machen mehr neu neue nie niemand nochmal oft sag schreib sonst uhr vielleicht weiter
            wieviel zeig zeit
        """,
            "fr": """
            aide aider aller apres assez aussi autre autres besoin chaque chose choses encore faire heure jamais juste mieux moins nouveau
            nouvelle parce
            petit peu pouvez rien savoir sais temps tout toute toutes tous trop veux voudrais
        """,
            "es": """
            algun alguna alguno ayuda ayudar cada cosa cosas debo entonces gran hacer hora ir mejor menos mismo mucha nada nuevo nueva
            nunca otra otro
            poco podrias puedo quiero saber se siempre solo todo todos vez voy llama
        """,
            "ru": """
            больше будет быстро весь время всё все вообще всегда где-то давай даже другой ещё если знаешь можешь можно может мочь надо
            нужно немного
            никогда новый новая очень поможешь помоги просто раз сделай снова совсем тогда только хочу хотел час часов лишь скажи расскажи
            напомни
        """,
        }.items()
    },
)
#: Letters and words that one of the languages has alone.
_MARKS: Mapping[str, str] = {
    "de": "äöüß",
    "fr": "àâçèêëîïôùûœ",
    "es": "áíñóú",
    "it": MORE["it"].letters,
    "pt": MORE["pt"].letters,
}
_ACCENTED: Mapping[str, frozenset[str]] = {
    "es": frozenset("qué está él sé después también".split()),
    "pt": frozenset("está é você não são já também só até há à".split()),
}
_TIMES: Mapping[str, frozenset[str]] = {
    "de": frozenset("gestern vorgestern heute".split()),
    "fr": frozenset("aujourd avant".split()),
    "es": frozenset("ayer anteayer anoche hoy hace".split()),
    "it": frozenset("ieri stamattina stasera oggi fa".split()),
    "pt": frozenset("ontem anteontem hoje ha atras".split()),
}
#: By which a chat's turns show their language: frequent sentence words that the other four do not have.
SHOWN_BY: Mapping[str, list[str]] = {
    "en": "the and is to of my it you for i".split(),
    "de": "ich und der das ist nicht ein zu mit den".split(),
    "fr": "le les je est une et pour du au pas".split(),
    "es": "el los y por una con del mi lo para".split(),
    "ru": "и в не на я что с за у по".split(),
    **{language: words.shown_by.split() for language, words in MORE.items()},
}
#: Words that ask: a message that holds one, or a question mark, is a question. And those of who asks; not "me", to whom anything may be told.
ASKING = _with_more(
    "asking",
    {
        "en": frozenset("what when where who whom whose which why how".split()),
        "de": frozenset(
            """
        wann warum was welche welchem welchen welcher welches wem wen wer weshalb wessen wie wieso wo wofur wohin woher womit woran woruber
        worum wovon
        """.split()
        ),
        "fr": frozenset(
            "combien comment laquelle lequel lesquels pourquoi quand quel quelle quelles quels qui quoi qu".split()
        ),
        "es": frozenset("cual cuales cuando cuanta cuantas cuanto cuantos donde que quien quienes como".split()),
        "ru": frozenset(
            """
        где зачем как какая какие каким каких какого какое какой каком какую когда кого кому кто куда откуда отчего почему сколько чего чей
        чем чему что
        """.split()
        ),
    },
)
ASKER = _with_more(
    "asker",
    {
        "en": frozenset("i my mine we our ours".split()),
        "de": frozenset("ich mein meine meinem meinen meiner meines wir unser unsere unserem unseren unserer".split()),
        "fr": frozenset("je j mon ma mes nous notre nos ai avons suis".split()),
        "es": frozenset(
            """
        yo mi mis mia mio nos nosotros nuestra nuestro tengo soy estoy he hemos hablamos dije hice hicimos conte puedo debo quiero necesito
        puse vivo trabajo peso llamo
        """.split()
        ),
        "ru": frozenset(
            """
        я меня мной мой моя мое моего моей моему моим моем моею мои моих моими мою мы нас наш наша наше наши нашу нашей нашего нашем нашим
        наших
        """.split()
        ),
    },
)


#: To whom something is said or happens: of who asks beside a word that asks ("What did the doctor give me?"), not in a request ("Tell me a joke").
TO_ASKER = _with_more(
    "to_asker",
    {
        "en": frozenset("me us".split()),
        "de": frozenset("mich mir uns".split()),
        "fr": frozenset("m me moi".split()),
        "es": frozenset("me nos".split()),
        "ru": frozenset("мне нас нам".split()),
    },
)


#: Messages whose language is kept: it is asked for several times while one is answered.
KEPT_MESSAGES = 256


def language_of(words: Iterable[str]) -> str:
    """The language that the words of a message show: de, fr, es, it or pt where most are of it, ru if there is Cyrillic, zh, ja, ko or th where most
    is in their script, else en."""
    return _language(" ".join(words))


@cached(KEPT_MESSAGES)
def _language(said: str) -> str:
    words = said.split(" ")
    if not said.isascii() and (language := _language_of_script(said, words)):
        return language
    told = [plain(word) for word in words]
    counts = {language: sum(word in known for word in told) for language, known in _KNOWN.items()}
    if not said.isascii():
        for language, letters in _LETTERS.items():
            counts[language] += sum(letters.search(word) is not None for word in words)
        for language, accented in _ACCENTED.items():
            counts[language] += sum(word in accented for word in words)
    return max(counts, key=counts.__getitem__)  # the first of equals


#: By script; kana comes first, since Japanese has Chinese characters too.
_SCRIPTS = {
    "ja": re.compile("[\u3041-\u30ff]"),
    "ko": re.compile("[\uac00-\ud7a3]"),
    "th": re.compile("[\u0e01-\u0e4e]"),
    "zh": re.compile("[\u3400-\u9fff]"),
}


def _language_of_script(said: str, words: list[str]) -> str | None:
    """Russian if there is Cyrillic; the language of pairs of characters, if most words are that."""
    if _CYRILLIC.search(said):
        return "ru"
    unspaced = [word for word in words if is_unspaced(word)]
    if 2 * len(unspaced) <= len(words):
        return None
    told = "".join(unspaced)
    return next((language for language, script in _SCRIPTS.items() if script.search(told)), None)


_CYRILLIC = re.compile(r"[\u0400-\u04ff]")
_LETTERS = {language: re.compile(f"[{letters}]") for language, letters in _MARKS.items()}
#: All words that speak for a language.
_KNOWN: Mapping[str, frozenset[str]] = {"en": ENGLISH_MARKS | TALKING["en"] | COURTESY["en"]} | {
    language: OTHERS[language] | TALKING[language] | COURTESY[language] | times for language, times in _TIMES.items()
}
#: What begins a question in any of the languages.
ANY_ASKING = frozenset().union(*ASKING.values())


def sentence_words(language: str) -> Collection[str]:
    """What is not searched for in a message of this language, beside the English and Russian ones."""
    return OTHERS.get(language, frozenset())


def is_idle_pair(word: str, language: str) -> bool:
    """Whether a pair of characters holds a particle of its language (one of UNSPACED_LANGUAGES), which makes it no word."""
    return not set(MORE[language].particles).isdisjoint(word)
