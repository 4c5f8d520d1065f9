"""Words by which an extractive summary tells who somebody is, what was done or decided, and what is planned. English and Russian."""

from __future__ import annotations

import re

#: Whom somebody lives or works with, after "my" or "I am".
PEOPLE = frozenset(
    """
    name called wife husband partner fiancé fiancée boyfriend girlfriend son daughter kids children child baby mother mom mum father dad parents
    sister brother grandma grandmother grandpa grandfather aunt uncle cousin nephew niece friend friends roommate neighbour neighbor boss
    colleague coworker teacher doctor dog cat puppy kitten pet job work career live lives born birthday married single
    зовут жена муж сын дочь дети мама мать папа отец сестра брат бабушка дедушка друг подруга начальник коллега врач собака кошка кот работаю живу
    """.split()
)
#: What was done, decided or agreed.
DONE = frozenset(
    """
    decided agreed settled chose chosen bought ordered booked paid sold signed joined started finished completed got won lost made built moved
    visited went took met adopted attended received passed accepted applied hired quit fixed repaired installed changed learned created wrote
    published opened launched ran celebrated
    решил решила решили договорились выбрал выбрала купил купила купили заказал заказала оплатил оплатила сделал сделала сделали готово закончил
    закончила начал начала получил получила переехал переехала починил починили установил установила поехал поехала ездил ездила
    """.split()
)
#: What is planned, promised, needed or waited for.
AHEAD = frozenset(
    """
    will gonna plan plans planned planning tomorrow tonight soon upcoming next want wants hope hoping need needs should todo remind
    waiting awaiting promise promised intend deadline due appointment
    буду будем будет планирую планируем завтра послезавтра скоро собираюсь собираемся хочу хотим надо нужно должен должна напомни жду обещаю обещал
    обещала следующий следующей следующую срок
    """.split()
)
#: When something happened.
WHEN = frozenset(
    """
    yesterday ago last since recently week weeks weekend month months year years monday tuesday wednesday thursday friday saturday sunday january
    february march april june july august september october november december
    вчера позавчера назад недавно прошлом прошлой прошлую неделе неделю выходные месяц году год лет понедельник вторник среду четверг пятницу субботу
    воскресенье января февраля марта апреля мая июня июля августа сентября октября ноября декабря
    """.split()
)
#: Who speaks of those that are theirs, or of what they are.
_MINE = r"my|our|мой|моя|моё|мои|меня|наш[аеи]?"
_I_AM = r"I(?:'m| am| work as) an? |я (?:работаю|живу)\b"
OWN = re.compile(rf"\b(?:(?:{_MINE})\s(?:[\w'-]+\s)?(?:{'|'.join(sorted(PEOPLE))})\b|{_I_AM})", re.IGNORECASE)
#: What is said in any chat and is no topic.
CHATTER = frozenset(
    """
    able absolutely actually after again all also always amazing another anything around awesome back best better bye check cool course definitely
    don doing each enjoy even ever every everyone everything excited far feel feeling few fine first fun glad good got great guess happy hard hear
    hello hey hope idea interesting just keep know last later let life like little long look looking looks lot love lucky made make makes many
    maybe more morning most much need never new nice not nothing now off okay one only other out over people photo please pretty proud re really
    right same say see shares should since some someone something soon sounds special start still such super sure take talk tell thank thanks
    thing things think thought time today too try trying two understand use used using very want way well while wonderful work working world wow
    yeah yes yet
    ага бывает вот все всё вообще да даже давай день ещё здравствуйте конечно ладно можно надо не нет ну ок она они очень пока понял потом привет
    просто сегодня сейчас спасибо так тебе тогда только хорошо чтото
    """.split()
)
