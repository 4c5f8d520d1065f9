"""Ten languages: other forms of words, words without blanks; and that English stays as it was."""

from __future__ import annotations

from contextlib import closing

import pytest

from dispatcher.memory.day.read_for_prompt import PromptRequest
from shared.ranking.question import asks_when, meant_speakers, query_terms, query_words, tells_time
from shared.ranking.tokeniser import Tokeniser
from shared.search.history import HistoryQuery, history
from shared.search.recall import OpenRelease
from shared.search.types import Query
from shared.text.words.function_words import SHOWN_BY, language_of
from shared.turns.records import Turn
from tests.support.day.day_recall import NOON
from tests.support.day.prompts import assembled
from tests.support.languages import talks
from tests.support.world import World

TALKS = talks()


#: What was said in one language, with a name in another script, and asked for in a third one.
ACROSS = (
    ("Запись к стоматологу, доктору 田中, перенесли на четверг в девять", "Wann ist mein Zahnarzttermin bei 田中?"),
    ("Meine Schwester Αλεξάνδρα zieht im Mai nach Lissabon", "Where is Αλεξάνδρα moving?"),
    ("The plumber Дмитрий fixed the boiler for 140 euros", "¿Cuánto costó que Дмитрий arreglara la caldera?"),
    ("昨日、Müllerさんに自転車を貸しました", "Кому я одолжил велосипед, Müller?"),
    ("صديقي 李明 يعمل طبيبا في مستشفى برلين", "Dans quel hôpital travaille 李明 ?"),
    ("La contraseña del wifi de casa de बाबा está en la nevera", "Wo steht das WLAN-Passwort bei बाबा?"),
)


def test_questions_find_what_was_said_in_other_forms_and_in_another_language_with_a_name_in_a_third_script(
    world: World,
) -> None:
    """By words and meaning together; each language is a chat of its own, and one chat has all of them."""
    for language, talk in TALKS.items():
        for turn in talk.turns:
            for chat in (language, "all"):
                world.say(f"{chat}-{language}-{turn.task_id}", turn.content, chat_id=chat, timestamp=turn.timestamp)
    for number, (said, _) in enumerate(ACROSS):
        world.say(f"across-{number}", said, chat_id="all", timestamp=NOON + number)
    world.night()
    settings = world.settings()
    with closing(OpenRelease(settings, (world.memory_dir / "current").resolve())) as release:
        release.open_vectors()
        for language, talk in TALKS.items():
            for asked in (talk.questions, talk.words):
                missed = []
                for number, question in asked:
                    hits = release.recall(Query(language, question, 3)).hits
                    if not any(f"{language}-{language}-t{number}:user" in hit.chunk.turn_ids for hit in hits):
                        missed.append(question)
                assert len(asked) - len(missed) >= 9, (language, missed)
        for said, question in ACROSS:
            assert said in assembled(PromptRequest("all", question), settings, release).text, question


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("昨天把洗衣机修好了", "洗衣机"),
        ("冷蔵庫から水が漏れた", "冷蔵庫"),
        ("か\u3099っこう", "がっこう"),
        ("한국어를 배워요", "한국어"),
        ("ภาษาไทยยากมาก", "ภาษาไทย"),
        ("မြန်မာစာ", "မြန်မာ"),
        ("ＡＢＣ１２３", "abc123"),
        ("Tie\u0302\u0301ng đường", "tiếng duong"),
        ("die Straße", "strasse STRASSE"),
        ("ığdır Isparta", "IGDIR ısparta"),
        ("Łódź", "lodz"),
        ("كِتَابٌ جديد", "الكتاب"),
        ("שָׁלוֹם", "שלום"),
        ("हिन्दी में", "हिन्दी"),
        ("τα σπίτια", "ΣΠΊΤΙ"),
        ("ЁЛКУ ПРИВЕЗЛИ", "елка"),
        ("за\u0301мка на горе", "замки"),
        ("привіт, друже", "ПРИВІТ"),
        ("running boats", "boat"),
    ],
)
def test_letters_and_characters_are_folded_on_both_sides(said: str, asked: str) -> None:
    tokeniser = Tokeniser()
    assert set(tokeniser.terms(" ".join(query_words(asked)))) <= set(tokeniser.terms(said))
    assert not set(tokeniser.terms(said)) & set(tokeniser.terms("лад собор сервер")), "other words stay other words"


@pytest.mark.parametrize(
    ("question", "language"),
    [
        ("Dove abbiamo messo le chiavi?", "it"),
        ("Cosa ti ho detto ieri?", "it"),
        ("Onde deixei as minhas chaves?", "pt"),
        ("O que você recomendou há dois dias?", "pt"),
        ("我的钥匙在哪里？", "zh"),
        ("鍵はどこですか？", "ja"),
        ("열쇠가 어디 있어?", "ko"),
        ("กุญแจอยู่ที่ไหน", "th"),
        ("¿Dónde dejé las llaves?", "es"),
        ("Où sont mes clés ?", "fr"),
        ("Where are my keys?", "en"),
        ("what does 你好 mean in English", "en"),
    ],
)
def test_the_language_that_a_question_shows(question: str, language: str) -> None:
    assert language_of(query_words(question)) == language


@pytest.mark.parametrize(
    ("question", "terms"),
    [
        ("Dove abbiamo messo le chiavi?", ["messo", "chiavi"]),
        ("Onde eu deixei as minhas chaves?", ["deixei", "chaves"]),
        ("我的钥匙在哪里？", ["钥匙", "匙在"]),
        ("鍵をどこに置いた？", ["こに", "に置", "置い"]),
        ("А что я тебе говорил про её лодку?", ["говорил", "лодку"]),
        ("что это?", ["что", "это"]),  # there is nothing else
    ],
)
def test_sentence_words_are_not_searched_for(question: str, terms: list[str]) -> None:
    assert query_terms(query_words(question)) == terms


def test_a_question_for_a_time_and_a_text_that_tells_one() -> None:
    for asked in (
        "Wann kommt der Klempner?",
        "¿Cuándo viene?",
        "Как долго шёл ремонт?",
        "什么时候去医院？",
        "เจอกันเมื่อไหร่",
        "When was it?",
        "How long did it take?",
    ):
        assert asks_when(query_words(asked)), asked
    for asked in ("Wie heißt der Hund?", "Сколько стоила лодка?", "什么东西坏了？", "a long story"):
        assert not asks_when(query_words(asked)), asked
    for told in (
        "Wir kommen, morgen!",
        "lunedì prossimo",
        "他昨天来过",
        "火曜日に会う",
        "어제 샀어",
        "в прошлую пятницу",
        "12 мая",
        "три года",
        "I did it last Friday",
        "the 3rd one",
    ):
        assert tells_time(told), told
    for told in (
        "Der Hund bellt",
        "猫很可爱",
        "mayo on the sandwich, on Mars",
        "мои майки",
        "годный средний маяк",
        "a fortnightly weekly",
    ):
        assert not tells_time(told), told


@pytest.mark.parametrize(
    ("question", "meant"),
    [
        *(("Was hast du empfohlen?", [1]), ("Wo ist mein Schlüssel?", [0]), ("Qu'est-ce que tu as conseillé ?", [1])),
        *(("¿Qué me dijiste?", []), ("Onde está a minha chave?", [0]), ("Cosa hai consigliato?", [1])),
        *(("你推荐了什么？", [1]), ("我的钥匙在哪里？", [0]), ("私の鍵はどこ？", [0]), ("猫在哪里？", [])),
        *(
            ("что я говорил?", [0]),
            ("где моя лодка?", [0]),
            ("что ты посоветовал?", [1]),
            ("какой был ваш совет?", [1]),
        ),
        *(("что ты мне посоветовал?", []), ("что с лодкой?", [])),
    ],
)
def test_whose_words_a_question_is_about(question: str, meant: list[int]) -> None:
    assert meant_speakers(query_words(question), [("user", "user", None), ("asst", "asst", None)]) == meant


def test_a_name_without_blanks_means_its_speaker() -> None:
    assert meant_speakers(query_words("王小明说了什么？"), [("user", "王小明", None), ("user", "李华", None)]) == [0]


def test_words_by_which_a_chat_shows_its_language_are_terms_of_their_own() -> None:
    tokeniser = Tokeniser()
    for words in SHOWN_BY.values():
        assert all(len(tokeniser.terms(word)) >= 1 for word in words)


def test_history_finds_chinese_words_and_single_characters(light: World) -> None:
    said = ["昨天把洗衣机修好了", "给猫打了疫苗", "衣服在机房", "เครื่องซักผ้าเสีย"]
    for at, text in enumerate(said):
        light.say(f"t{at}", text, timestamp=NOON - (9 - at) * 3600)
    light.night()
    day = [Turn("d1", "user", "9912", "洗衣机又坏了，猫也病了", NOON)]
    with closing(OpenRelease(light.settings(), (light.memory_dir / "current").resolve())) as release:

        def found(word: str) -> list[str]:
            return [turn.task_id for turn in history(HistoryQuery("9912", 9, contains=word), release, day).turns]

        assert found("洗衣机") == ["t0", "d1"]
        assert found("猫") == ["t1", "d1"]
        assert found("衣") == ["t0", "t2", "d1"]
        assert found("ซักผ้า") == ["t3"]
        assert found("房机") == []
