"""Words that show whether two facts are the same, or exclude each other: tables for dispatcher/memory/typed/comparing/contradiction.py.

English in full; German, French and Russian only for numbers, negations and "X is Y". Words in no table decide nothing: both facts are stored.
"""

from __future__ import annotations


def _classes(lines: str) -> dict[str, str]:
    """Each word of a line → the first of its line."""
    return {word: words[0] for line in lines.strip().splitlines() if (words := line.split()) for word in words}


def _sets(lines: str) -> dict[str, str]:
    """`name: a b c` → each word's set."""
    found: dict[str, str] = {}
    for line in lines.strip().splitlines():
        name, _, words = line.strip().partition(":")
        found |= dict.fromkeys(words.split(), name)
    return found


#: Synonyms in statements about a person's life; each is replaced by the first of its line.
SYNONYMS = _classes(
    """
    work works working worked job profession occupation employed employer employee
    live lives living reside resides residing residence dwell dwells home-town hometown
    name names named called
    like likes liked enjoy enjoys love loves adore adores fond keen prefer prefers preference preferred
    dislike dislikes hate hates detest detests loathe loathes
    want wants wish wishes
    fear fears afraid scared frightened phobia
    have has having own owns owned possess possesses got
    begin begins beginning start starts
    end ends finish finishes
    buy buys purchase purchases
    physician doctor
    child children kid kids
    car cars automobile
    phone phones telephone mobile cellphone
    flat apartment
    short brief concise
    big large
    quick fast
    repair repairs fix fixes mend mends
    learn learns learning study studies
    mother mum mom mama
    father dad daddy papa
    grandmother grandma gran granny
    grandfather grandpa granddad
    email e-mail mail
    film movie films movies
    holiday holidays vacation vacations
    shop store shops stores
    trip journey
    password passcode passphrase passwords
    birthday born birthdate birth birthdays
    favourite favorite
    colour color colours colors
    allergy allergic allergies
    intolerance intolerant
    vegetarian vegetarians
    drive drives driving
    weigh weighs weight
    cost costs price
    meet meets meeting meetings
    metre meter metres meters
    kilo kilos kg kilogram kilograms
    hour hours h
    minute minutes min
    euro euros eur €
    bike bicycle bikes bicycles
    tv television
    speak speaks spoken
    reply replies answer answers response responses respond responds
    locate located situated
    keep kept stored keeps
    spouse partner
    boss manager supervisor
    ill sick
    train trains training
    wlan wifi wi-fi wlans
    every each
    company firm
    компания компании компанию фирма фирме фирмы фирму
    kurz kurze kurzen knapp knappe knappen
    aubergine eggplant
    courgette zucchini
    coriander cilantro
    rocket arugula
    prawn prawns shrimp
    autumn fall
    lift elevator
    lorry truck
    petrol gasoline
    pavement sidewalk
    rubbish trash garbage
    nappy nappies diaper diapers
    biscuit biscuits cookie cookies
    sweets candy
    jumper sweater
    torch flashlight
    tap faucet
    football soccer
    chemist pharmacy
    lawyer attorney solicitor
    timetable schedule
    plane planes aeroplane airplane
    """
)
#: Sets of words of which only one applies to a thing at a time: another word of the set corrects it.
EXCLUSIVE = _sets(
    """
    weekday: monday tuesday wednesday thursday friday saturday sunday mondays tuesdays wednesdays thursdays fridays saturdays sundays
    weekday: montag dienstag mittwoch donnerstag freitag samstag sonntag lundi mardi mercredi jeudi vendredi samedi dimanche
    weekday: понедельник вторник среда среду четверг пятница пятницу суббота субботу воскресенье
    month: january february march april may june july august september october november december
    month: januar februar märz mai juni juli oktober dezember janvier février mars avril juin juillet août septembre octobre novembre décembre
    month: января февраля марта апреля мая июня июля августа сентября октября ноября декабря
    marital: single engaged married divorced widowed separated verheiratet ledig geschieden verwitwet marié mariée divorcé divorcée
    marital: женат замужем холост разведён разведен разведена
    colour: red blue green yellow black white grey gray brown orange purple pink violet beige turquoise silver golden
    colour: rot blau grün gelb schwarz weiß grau braun rouge bleu bleue vert verte jaune noir noire blanc blanche gris grise
    colour: красный синий зелёный зеленый жёлтый желтый чёрный черный белый серый красная синяя зелёная зеленая
    season: spring summer autumn winter
    language: english german french dutch spanish italian portuguese russian polish swedish danish norwegian finnish czech greek turkish
    language: chinese japanese korean arabic hebrew hindi ukrainian hungarian romanian
    """
)
#: Pairs of words that exclude each other.
_OPPOSITES = """
    up down
    on off
    open closed
    open shut
    online offline
    enabled disabled
    active inactive
    alive dead
    working broken
    available unavailable
    available busy
    empty full
    hot cold
    light dark
    short long
    big small
    high low
    early late
    new old
    cheap expensive
    safe unsafe
    safe dangerous
    happy unhappy
    happy sad
    employed unemployed
    like dislike
    always never
    left right
    inside outside
    public private
    male female
    healthy ill
    formal informal
    formally informally
    metric imperial
    true false
    possible impossible
    allowed forbidden
    legal illegal
    pregnant unpregnant
    locked unlocked
    remote onsite
    vegetarian omnivore
    finished unfinished
    paid unpaid
    correct wrong
    begin end
    gained lost
    cancelled confirmed
    accepted rejected
    passed failed
    smoker non-smoker
    """
OPPOSITES = frozenset(frozenset(line.split()) for line in _OPPOSITES.strip().splitlines())
#: Head nouns of subjects that have one value at a time.
ATTRIBUTES = frozenset(
    """
    favourite password code pin number address birthday name nickname surname age height weigh size cost rent salary income budget deadline date
    time
    capital version model brand location place timezone hostname ip port url status plan provider bank salary shift
    landlord dentist employer insurer title rank rate limit speed temperature length width depth passport
    passwort kennwort code pin nummer telefonnummer adresse geburtstag name alter größe preis miete gehalt frist
    adresse anniversaire nom prénom âge taille prix loyer numéro mot
    пароль код номер адрес имя возраст рост цена
    """.split()
)
#: … and prefixes of such nouns.
ATTRIBUTE_STARTS = ("lieblings", "préféré", "любим")
#: Head nouns of which there may be several: another name means another one.
SEVERAL = frozenset(
    """
    friend colleague neighbour neighbor child son daughter brother sister cousin uncle aunt nephew niece cat dog pet hobby goal plan interest
    teacher
    student client customer contact member player book song film instrument allergy server host machine device medicine medication pill skill sport
    freund freundin kollege kollegin nachbar nachbarin sohn tochter bruder schwester hund katze ami amie fils fille frère sœur друг подруга сын
    дочь брат сестра
    """.split()
)
#: Verbs with one object, place or time at a time: another one corrects it.
ONE_AT_A_TIME = frozenset(
    "live work weigh cost begin end open close sit lie stand locate keep park expire drive".split()
)
#: Prepositions of a verb's one place, job or company ("lives with" and "lives in" are two things); verbs with one time.
SOMEWHERE = frozenset(("in", "on", "at", "near", "under", "behind"))
_WHEN = frozenset(("", "on", "at", "in"))
WHERE = {
    "live": frozenset(("in", "on", "at")),
    "work": frozenset(("in", "on", "at", "for", "as")),
    "drive": frozenset(("",)),
    "weigh": frozenset(("",)),
    "cost": frozenset(("",)),
} | dict.fromkeys(("begin", "end", "open", "close", "expire"), _WHEN)
TIMES = frozenset("begin end expire".split())
#: Forms of the past, and forms that only look like it.
PAST = frozenset(
    "was were had went ran bought sold paid read ate drank saw met flew drove wrote won lost took gave got".split()
)
TIMELESS = frozenset(
    "named called employed located situated parked married divorced engaged need based speed bed red".split()
)
#: Verbs of a lasting state; another number corrects it.
STATES = ONE_AT_A_TIME | frozenset(
    """
    be have take need earn pay sleep contain hold smoke drink eat like dislike want speak wear use last measure count run walk cycle play teach read
    support employ
    """.split()
)
#: Forms of verbs → as written above.
VERBS = _classes(
    """
    be is are am was were ist sind bin war waren est sont suis étaient était это —  – = : heißt heisst
    open opens
    close closes
    sit sits
    lie lies liegt лежит
    stand stands steht
    park parks parked
    expire expires
    live wohnt wohne lebt lebe habite vit живёт живет живу
    work arbeitet arbeite travaille работает работаю
    cost kostet coûte стоит
    weigh wiegt pèse весит
    have hat habe haben ai avons есть
    like mag aime любит люблю
    """
)
#: Words before a number that is a label and not an amount: "bus 7", "chapter 3".
LABELS = frozenset(
    "room bus line chapter server phase track platform gate chapter level volume part season episode highway route team unit step task ticket".split()
)
#: Negations. An odd number of them negates a statement.
DENIALS = frozenset(
    """
    not no never without neither nor none nicht kein keine keinen keiner nie niemals ohne ne pas jamais sans aucun aucune не нет ни никогда без
    """.split()
)
#: With a negation they negate each of the joined words.
EITHER = frozenset("or nor oder noch ou или".split())
#: Filler words, and words for the present: they do not change the statement.
LIGHT = frozenset(
    """
    always a an the this that these those user users i me my mine myself we us our am do does did done very really quite just so also too still
    already now currently
    presently today nowadays recently lately again anymore more longer any since actually fact instead rather how to of at in on for by as with own
    time
    must need needs should about roughly approximately around some go goes going get gets bitte möchte halten verwenden nutzen machen tun und et и
    be been being has had would should will can could there it its well kind sort way some please remember note correction update and
    bei beim der die das den dem des ein eine einen einem einer eines mein meine meinen meiner meines nutzer nutzers benutzer benutzers ich jetzt
    nun derzeit aktuell von vom im in am an auf für zu zum zur
    mehr
    le la les un une mon ma mes de du des d l utilisateur je j maintenant désormais actuellement à au aux en dans sur plus c'est
    я мой моя моё мое мои у меня пользователь пользователя пользователю в на теперь сейчас больше
    """.split()
)
#: Prepositions of place, time and manner, in groups; they start a phrase.
LEADS = _classes(
    """
    in at inside within im dans en à в
    on am an auf sur на
    for
    as
    with mit avec с
    bei beim chez
    from
    near by
    under below
    above over
    before
    after
    behind
    to
    until till
    """
)
NUMBERS = {
    word: str(at)
    for words in (
        "zero one two three four five six seven eight nine ten eleven twelve",
        "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf",
        "zéro un deux trois quatre cinq six sept huit neuf dix onze douze",
        "ноль один два три четыре пять шесть семь восемь девять десять одиннадцать двенадцать",
        "- - двое трое четверо пятеро",
    )
    for at, word in enumerate(words.split())
    if word not in ("-", "un", "в")
} | {"двое": "2", "трое": "3", "четверо": "4", "once": "1", "twice": "2", "thrice": "3"}
NUMBERS |= {
    word: f"{at}."
    for words in (
        "first second third fourth fifth sixth seventh eighth ninth tenth",
        "ersten zweiten dritten vierten fünften sechsten siebten achten neunten zehnten",
        "premier deuxième troisième quatrième cinquième sixième septième huitième neuvième dixième",
        "первом втором третьем четвёртом пятом шестом седьмом восьмом девятом десятом",
    )
    for at, word in enumerate(words.split(), start=1)
}
#: Words of German, French and Russian that do not exist in English.
FOREIGN = frozenset(
    """
    der die das den dem des ein eine ist sind und nicht mein meine hat wohnt arbeitet heißt mag kein keine vom im am auf ich sie er
    le la les est sont une mon ma mes du pas ne aime habite travaille dans sur avec je elle il
    """.split()
)
