"""Words that carry no content, of further languages, in the kinds of function_words.py.

Italian and Portuguese are without accents. Of what is written without blanks each word stands for its pairs of characters, since a question's
words are these pairs; `particles` are characters that make any pair idle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from shared.text.writing import spaced


@dataclass(frozen=True)
class FunctionWords:
    """The words of one language, with a blank between, by kind; `shown_by`: those by which a chat's turns show it, and as few other turns."""

    sentence: str
    courtesy: str
    talking: str
    light: str
    asking: str
    asker: str
    to_asker: str
    shown_by: str
    letters: str = ""  # that few other languages have
    particles: str = ""

    def of(self, kind: str) -> frozenset[str]:
        """The words of a kind, as `query_words` makes them."""
        return frozenset(spaced(getattr(self, kind)).split())


MORE: Mapping[str, FunctionWords] = {
    "it": FunctionWords(
        sentence="""
            a ad al alla alle allo ai agli all anche ancora avere aveva avevo avevano avete abbiamo b c ce che chi ci cio come con cosa cui d da
            dal dalla dalle dai dagli dallo de degli dei del dell della delle dello di dove e ed era erano eravamo ero essere fino fra gia gli ha
            hai hanno ho i il in io l la le lei li lo loro lui ma me mentre mi mia mie miei mio ne nei nel nella nelle nello negli nell no noi non
            nostra nostre nostri nostro o od ogni per perche pero piu poi prima qual quale quali quando quanta quante quanti quanto quegli quel
            quella quelle quelli quello questa queste questi questo s sara se sei senza si sia siamo siete solo sono sopra sotto sta stai stanno
            stata state stati stato sto su sua sue sugli sui sul sulla suo suoi t te ti tra tu tua tue tuo tuoi un una uno vi voi vostra vostro
        """,
        courtesy="""
            ciao salve buongiorno buonasera buonanotte buona buono notte sera grazie mille prego favore scusa scusi si no ok va bene bravo
            perfetto ottimo certo arrivederci domani presto
        """,
        talking="""
            parlare parlato parlavamo parliamo detto dicevi dicevo dire dici raccontato raccontare discusso menzionato fatto successo tema ricordi
            ricorda argomento qualcosa scorso scorsa passato passata
        """,
        light="""
            adesso aiuto aiutami allora altra altri altro bisogno cose devo dopo ecco fare forse meglio meno mai molta molto nulla niente nuovo
            nuova ora poco posso potresti puoi quasi sai sempre tanto tempo troppo tutta tutte tutti tutto vediamo volta volte voglio vorrei
        """,
        asking="che chi come cosa cos dov dove perche qual quale quali quando quanta quante quanti quanto",
        asker="io mio mia miei mie noi nostro nostra nostri nostre ho abbiamo sono devo avevo dissi",
        to_asker="me mi ci",
        shown_by="il di che sono gli della ho alla nel anche",
        letters="ìòù",
    ),
    "pt": FunctionWords(
        sentence="""
            a ao aos aquela aquelas aquele aqueles aquilo as ate com como cada da das de dela dele deles depois desde do dos e ela elas ele eles em
            entre era eram essa essas esse esses esta estas estava estavam este estes estou eu foi fomos foram fui ha havia isso isto ja la lhe
            mais mas me mesmo meu meus mim minha minhas muito muita na nao nas nem no nos nossa nossas nosso nossos num numa o onde os ou para pela
            pelas pelo pelos per por porque pra qual quais quando quanta quantas quanto quantos que quem se sem sera seu seus sao so sobre somos
            sou sua suas tambem te tem temos tenho teu teus teve tinha tinham tu tua tuas um uma umas uns vai vao voce voces vou
        """,
        courtesy="""
            oi ola alo bom boa dia dias tarde noite obrigado obrigada valeu favor tudo bem tchau adeus ate logo sim nao ok claro certo beleza otimo
            perfeito legal desculpa amanha kkk rsrs
        """,
        talking="""
            falar falamos falei falou falado conversamos conversa conversar disse dito dizer digo contei contou contar discutimos mencionei
            mencionou comentei comentou aconteceu feito fez fizemos fiz tema temas assunto lembra lembras lembre passado passada ultima ultimo
        """,
        light="""
            agora ajuda ajude ajudar ainda algo algum alguma alguns assim coisa coisas deve devo entao fazer hora melhor menos nada novo nova nunca
            outra outras outro outros pode podia poderia posso pouco precisa preciso quero queria saber sabe sempre tempo toda todas todo todos vez
            vezes
        """,
        asking="que quem qual quais quando quanta quantas quanto quantos onde aonde como porque",
        asker="eu meu minha meus minhas nos nosso nossa nossos nossas tenho estou sou fui fiz falei disse moro preciso devo posso temos",
        to_asker="me mim nos",
        shown_by="os um uma nao meu foi muito voce isso ela",
        letters="ãõêâ",
    ),
    "zh": FunctionWords(
        sentence="什么 怎么 怎样 哪里 哪儿 哪个 为什么 什么时候 多少 几个 一个 没有 有没有 是不是 可以 因为 所以 但是 如果 还是 或者 已经 以后 以前",
        courtesy="你好 您好 谢谢 多谢 不客气 再见 早上好 晚上好 晚安 好的 请问 麻烦 对不起 没关系 哈哈",
        talking="说过 聊过 提到 提过 谈到 告诉 记得 说了 聊了 讨论 上次 之前",
        light="现在 一下 一些 东西 事情 知道 觉得 需要 帮我 时候 想要 应该 可能 这样 那样",
        asking="什么 怎么 怎样 哪里 哪儿 哪个 哪天 哪位 为什么 多少 几个 几点 几天 谁的 谁在 是谁",
        asker="我的 我们 我是 我在 我有 我把 我要 我会 我家 我吃 我说",
        to_asker="给我 告诉我 对我 跟我",
        shown_by="我们 什么 没有 可以 一个 这个 是不 还是 因为 所以",
        particles="的了吗呢吧啊么我你您他她它们这那哪谁是",
    ),
    "ja": FunctionWords(
        sentence="""
            です ます でした ました ません ですか ますか でしたか ましたか どこ いつ だれ なに なぜ どう どんな どの どれ これ それ あれ
            この その あの ここ そこ から まで ので のに って して した ている てい いた いる ある あった ない なかった こと もの ため よう という
            何が 何を 何の 何で 誰が 誰の 私の 私は 私が
        """,
        courtesy="こんにちは こんばんは おはよう ありがとう ございます すみません ごめん おやすみ さようなら お願い はい いいえ",
        talking="言った 話した 話し 言って 教えて 覚えて 前に 話題",
        light="今日 とても 少し たくさん もう まだ また いま 必要 知って 思う",
        asking="どこ いつ だれ 誰が 誰の 誰と なに 何が 何を 何の 何で 何時 なぜ どう どんな どの どれ いくら いくつ",
        asker="私の 私は 私が 僕の 僕は 僕が 俺の うちの 我が 私た",
        to_asker="私に 僕に",
        shown_by="です ます した して ので から まし いた いる ない",
        particles="を私僕俺",
    ),
    "ko": FunctionWords(
        sentence="""
            무엇 뭐 언제 어디 누구 왜 어떻게 어떤 어느 몇 얼마 나는 내가 저는 제가 나의 그리고 하지만 입니다 습니다 습니까 있어 없어 있나요
            했어 했나요 인가요
        """,
        courtesy="안녕 안녕하세요 감사합니다 고마워 고맙습니다 미안 죄송합니다 네 아니요 잘자",
        talking="말했 말한 이야기 얘기 기억",
        light="지금 조금 많이 아주 정말 다시 그냥",
        asking="무엇 뭐 뭘 언제 어디 누가 누구 왜 어떻게 어떤 어느 얼마 며칠",
        asker="나는 내가 저는 제가 나의 우리 내 제",
        to_asker="나에게 저에게 나한테",
        shown_by="습니 니다 있어 없어 그리 하지 지만 나는 내가 저는",
    ),
    "th": FunctionWords(
        sentence="""
            ที่ไหน เมื่อไหร่ เมื่อไร อะไร ใคร ทำไม อย่างไร ยังไง เท่าไหร่ เท่าไร กี่ ไหม หรือ และ แต่ ครับ ค่ะ คะ นะ ของ เป็น คือ แล้ว จะ ได้ ให้ กับ ว่า ที่ มี อยู่
            ฉัน ผม คุณ เรา
        """,
        courtesy="สวัสดี ขอบคุณ ขอโทษ ลาก่อน ฝันดี โอเค",
        talking="พูด บอก คุย เล่า จำได้ เรื่อง",
        light="ตอนนี้ มาก เลย อีก ต้อง อยาก ช่วย รู้",
        asking="ที่ไหน ไหน เมื่อไหร่ เมื่อไร อะไร ใคร ทำไม อย่างไร ยังไง เท่าไหร่ เท่าไร กี่",
        asker="ฉัน ผม เรา ดิฉัน หนู",
        to_asker="ให้ฉัน กับฉัน",
        shown_by="และ ที่ ของ เป็น แล้ว กับ ว่า อยู่ ครับ",
    ),
}  # fmt: skip
#: The languages whose words are pairs of characters.
UNSPACED_LANGUAGES = frozenset({"zh", "ja", "ko", "th"})


@dataclass(frozen=True)
class Persons:
    """Words of the one who asks, and of the one who is asked; `characters` of the former and the latter in any pair."""

    asker: frozenset[str]
    asked: frozenset[str]
    characters: tuple[str, str] = ("", "")


def _persons(asker: str, asked: str, characters: tuple[str, str] = ("", "")) -> Persons:
    return Persons(frozenset(spaced(asker).split()), frozenset(spaced(asked).split()), characters)


#: By language. Of English and Russian they are in shared/ranking/question.py.
PERSONS: Mapping[str, Persons] = {
    "de": _persons(
        "ich mich mir mein meine meinem meinen meiner meines",
        "du dich dir dein deine deinem deinen deiner deines ihnen ihr ihre",
    ),
    "fr": _persons("je j me m moi mon ma mes", "tu t te toi ton ta tes vous votre vos"),
    "es": _persons(
        "yo me mi mis mia mio conmigo tengo soy estoy dije hice conte puse vivo",
        "tu te ti tus contigo usted dijiste recomendaste sugeriste aconsejaste tienes eres",
    ),
    "it": _persons("io mi me mio mia miei mie ho sono avevo", "tu ti te tuo tua tuoi tue lei hai sei avevi"),
    "pt": _persons("eu me mim meu minha meus minhas tenho estou sou fui fiz", "voce voces tu te teu tua teus tuas lhe"),
    "zh": _persons("", "", ("我", "你您")),
    "ja": _persons("", "あなた 君の", ("私僕俺", "")),
    "ko": _persons("나는 내가 나의 저는 제가", "당신 너는 네가"),
    "th": _persons("ฉัน ผม", "คุณ เธอ"),
}
