"""Measurement of the thresholds for typed memories, with the shipped model, on made-up data: one person's 40 memories.

What is measured: whether a message bears on a memory, which memory a search text of `[DONE:]` or `[FORGET:]` means, and whether a
new memory says what an old one says. The constants are in dispatcher/memory/typed/memories.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import typer

#: Memory → a message that it is relevant to, in the words that people would use.
BEARS = {
    "User is allergic to peanuts": "Can you suggest a snack for the train?",
    "Anna is the user's wife; her birthday is 14 March": "What should I give my wife this year?",
    "The user works as a nurse at the harbour clinic": "My shift at work was awful today",
    "The user has a cat called Mishka": "The cat threw up again, what should I do?",
    "The user drives a 2014 Skoda Octavia": "Which winter tyres fit my car?",
    "The wifi password at the cottage is heron-4711": "how do I get online at the cottage?",
    "The user lives in Ghent, near the castle": "Any nice walk close to my home?",
    "The user's son Tom is eight and plays chess": "Recommend a present for a boy who likes board games",
    "The boiler is a Vaillant ecoTEC from 2009": "The heating shows F28 again",
    "The user does not drink alcohol": "Which wine goes with fish?",
    "The user studies Spanish on Tuesdays": "How do I say 'the day before yesterday' in Spanish?",
    "The user's sister Vera lives in Lisbon": "I am flying to Portugal next month",
    "The user broke the left wrist in 2019": "My wrist hurts when it rains",
    "The user plays the cello in an amateur orchestra": "How do I get rosin off strings?",
    "The landlord is Mr De Smet, phone 0470 12 34 56": "The roof leaks, whom do I call about the flat?",
    "The user takes 50 mg of levothyroxine every morning": "May I take iron together with my thyroid pills?",
    "The dentist is Dr Peeters on Korenmarkt": "I have a toothache",
    "The garage door code is 7731": "What was the code for the garage?",
    "The user is afraid of flying": "Is the train to Vienna an option instead of a plane?",
    "The user's mother has diabetes": "What dessert can I make when my mum visits?",
    "The user reads science fiction, above all Lem": "I need something new to read",
    "The user grows tomatoes on the balcony": "The leaves of my tomato plants turn yellow",
    "The user's laptop runs Debian 12": "How do I install a newer kernel on my laptop?",
    "The user banks with Argenta": "My bank card was swallowed by the machine",
    "The user's brother Pieter is getting married on 6 June": "I have to write a speech for the wedding",
    "Learn to swim crawl before summer": "I was at the pool today, my breathing is all wrong",
    "Finish the tax return": "Where do I enter the mortgage in the tax form?",
    "Run the half marathon of Bruges in May": "My training run today was 15 km",
    "Paint the kitchen light green": "How many litres of paint for a room of 12 square metres?",
    "Save 3000 euros for a trip to Japan": "I put another 200 euros aside for Kyoto",
    "Repair the bicycle's back brake": "The brake of my bike squeaks",
    "Write the application for the head nurse position": "Could you look over my cover letter?",
    "Call grandmother every Sunday": "I forgot to phone gran yesterday",
    "Read War and Peace": "Who is Pierre Bezukhov?",
    "Lose five kilos": "I weigh 82 now, how many calories should I eat?",
    "Answers should be short, without lists": "Please give me a long list of cities",
    "Recipes in metric units": "How much flour for pancakes?",
    "Address the user informally, by first name": "Write me a greeting",
    "The user wants code examples in Python": "Show me how to read a CSV file",
    "No spoilers about series": "How does Severance go on?",
}
#: Messages that none of them is relevant to.
BEARS_NOT = [
    "good morning", "thanks!", "ok, and why?", "What is the capital of Mongolia?", "tell me a joke", "who won the 1998 world cup?",
    "translate 'Regenschirm' into English", "what is 17 times 23?", "how far is the moon?", "is it raining in Oslo?",
    "write a haiku about snow", "what does HTTP 503 mean?", "explain photosynthesis", "are you there?", "never mind",
    "convert 5 miles to km", "who painted the Night Watch?", "please repeat that", "why is the sky blue?", "set a timer for ten minutes",
    "what is inflation?", "how do bees find their hive?", "what rhymes with orange?", "when did the Berlin wall fall?",
    "how does a microwave oven work?", "name three prime numbers above 100", "what time is it in Tokyo?", "sounds good, let us do it",
    "what is the difference between a fjord and a bay?", "who is the president of Chile?", "you are great", "I am bored",
    "how tall is Mont Blanc?", "what is a black hole?", "summarise the plot of Hamlet", "is glass a liquid?", "hm, I am not sure",
    "how many bones has a hand?", "what is the plural of octopus?", "flip a coin",
]  # fmt: skip
#: Search text → the memories it may mean: one for a clear one, several for an ambiguous one (it must ask), none for a wrong one.
SEARCHES: list[tuple[str, list[str]]] = [
    ("tax return", ["Finish the tax return"]),
    ("taxes", ["Finish the tax return"]),
    ("half marathon", ["Run the half marathon of Bruges in May"]),
    ("the race in Bruges", ["Run the half marathon of Bruges in May"]),
    ("paint the kitchen", ["Paint the kitchen light green"]),
    ("kitchen walls painted green", ["Paint the kitchen light green"]),
    ("swimming crawl", ["Learn to swim crawl before summer"]),
    ("bike brake repaired", ["Repair the bicycle's back brake"]),
    ("head nurse application", ["Write the application for the head nurse position"]),
    ("War and Peace", ["Read War and Peace"]),
    ("lose weight", ["Lose five kilos"]),
    ("saving for Japan", ["Save 3000 euros for a trip to Japan"]),
    ("peanut allergy", ["User is allergic to peanuts"]),
    ("cat Mishka", ["The user has a cat called Mishka"]),
    ("wifi password", ["The wifi password at the cottage is heron-4711"]),
    ("garage code", ["The garage door code is 7731"]),
    ("wife's birthday", ["Anna is the user's wife; her birthday is 14 March"]),
    ("the landlord's phone number", ["The landlord is Mr De Smet, phone 0470 12 34 56"]),
    ("thyroid medication levothyroxine", ["The user takes 50 mg of levothyroxine every morning"]),
    ("does not drink alcohol", ["The user does not drink alcohol"]),
    ("short answers without lists", ["Answers should be short, without lists"]),
    ("the code", ["The garage door code is 7731", "The user wants code examples in Python", "The wifi password at the cottage is heron-4711"]),
    ("nurse", ["The user works as a nurse at the harbour clinic", "Write the application for the head nurse position"]),
    ("2009 or 2014", ["The boiler is a Vaillant ecoTEC from 2009", "The user drives a 2014 Skoda Octavia"]),
    ("my siblings", ["The user's sister Vera lives in Lisbon", "The user's brother Pieter is getting married on 6 June"]),
    ("the dog's vaccination", []),
    ("parking permit", []),
    ("learn guitar", []),
    ("the meeting with the architect", []),
    ("favourite football club", []),
]  # fmt: skip
#: Two ways to say the same.
SAME = [
    ("User is allergic to peanuts", "The user has a peanut allergy"),
    ("The user has a cat called Mishka", "The user has a cat named Mishka"),
    ("The user lives in Ghent", "User lives in Ghent"),
    ("The user's name is Dana", "User's name is Dana"),
    ("The user works as a nurse", "The user is a nurse by profession"),
    ("The user does not drink alcohol", "The user doesn't drink alcohol"),
    ("The user is vegetarian", "The user is a vegetarian"),
    ("The user prefers short answers", "User prefers short answers"),
    ("The user prefers short answers", "The user likes answers to be short"),
    ("The user is afraid of flying", "The user has a fear of flying"),
    ("The user's sister Vera lives in Lisbon", "Vera, the user's sister, lives in Lisbon"),
    ("The user plays the cello", "The user plays cello"),
    ("Finish the tax return", "Finish tax return"),
    ("Run the half marathon in May", "Run a half marathon in May"),
    ("The user's birthday is 14 March", "The user was born on 14 March"),
    ("The garage door code is 7731", "The code of the garage door is 7731"),
    ("Mr De Smet is the landlord", "The landlord is Mr De Smet"),
    ("The user works from home on Fridays", "On Fridays the user works from home"),
    ("The user wants code examples in Python", "The user wants Python code examples"),
    ("Learn to swim before summer", "Learn how to swim before the summer"),
]
#: Similar, but different statements.
NEWS = [
    ("The user has a cat called Mishka", "The user has a cat called Mira"),
    ("The user lives in Ghent", "The user lives in Bruges"),
    ("The user's sister Vera lives in Lisbon", "The user's sister Vera lives in Porto"),
    ("The user likes coffee", "The user does not like coffee"),
    ("The user drinks tea in the morning", "The user drinks tea in the evening"),
    ("The user works as a nurse", "The user worked as a nurse"),
    ("The user works from home on Fridays", "The user works from home on Mondays"),
    ("The garage door code is 7731", "The garage door code is 7732"),
    ("The user's birthday is 14 March", "The user's birthday is 15 March"),
    ("The user's son is allergic to peanuts", "The user is allergic to peanuts"),
    ("The user's brother Pieter is married", "The user's brother Jan is married"),
    ("The dentist is Dr Peeters", "The dentist is Dr Maes"),
    ("The user's car is red", "The user's car is blue"),
    ("Read War and Peace", "Read Anna Karenina"),
    ("The user's mother has diabetes", "The user's father has diabetes"),
    ("Answers in English", "Answers in Dutch"),
    ("The meeting is before lunch", "The meeting is after lunch"),
    ("The user wants to learn Spanish", "The user wants to learn Portuguese"),
    ("The user can eat gluten", "The user cannot eat gluten"),
    ("Buy milk", "Buy oat milk"),
]


def measure() -> None:
    """Print what the constants in dispatcher/memory/typed/memories.py were chosen by, and what its neighbours would give."""
    import numpy as np

    from dispatcher.memory.relevance import coverage
    from dispatcher.memory.typed import judging, memories
    from dispatcher.memory.typed.comparing.contradiction import relation
    from shared.embedding.known_models import MINILM
    from shared.embedding.local import LocalEmbedder

    vector = LocalEmbedder(MINILM).embed_query
    kept = list(BEARS)
    rows = np.stack([vector(text) for text in kept])
    bears = [(at, rows @ vector(message)) for at, message in enumerate(BEARS.values())]
    bears_not = [rows @ vector(message) for message in BEARS_NOT]
    for floor in (0.20, 0.25, 0.30, 0.35, 0.40):
        own = sum(cosines[at] >= floor and (cosines > cosines[at]).sum() < 5 for at, cosines in bears)
        idle = sum(cosines.max() >= floor for cosines in bears_not)
        typer.echo(
            f"shown from {floor:.2f}: {own} of {len(bears)} with a relevant memory, {idle} of {len(bears_not)} without one"
        )
    found = [
        (wanted, [coverage(text, one) for one in kept], np.maximum(rows @ vector(text), 0)) for text, wanted in SEARCHES
    ]
    for least in (0.35, 0.40, 0.45, 0.50, 0.55):
        scored = [(wanted, (np.array(words) + cosines) / 2) for wanted, words, cosines in found]
        typer.echo(f"matched from {least:.2f}: {_outcomes(kept, scored, least, memories.MARGIN)}")
    for least in (0.45, 0.50, 0.60, 0.75):
        scored = [(wanted, np.array(words)) for wanted, words, _ in found]
        typer.echo(f"matched by words from {least:.2f}: {_outcomes(kept, scored, least, memories.MARGIN)}")
    for label, pairs in (("say the same", SAME), ("are news", NEWS)):
        cosines = [float(vector(a) @ vector(b)) for a, b in pairs]
        judged = Counter(str(relation(a, b, cosine)) for (a, b), cosine in zip(pairs, cosines, strict=True))
        near = sum(cosine >= judging.NEAR_LIKENESS for cosine in cosines)
        typer.echo(
            f"{len(pairs)} pairs that {label}: {near} looked at from {judging.NEAR_LIKENESS}, judged {dict(judged)}"
        )


def _outcomes(kept: Sequence[str], found: Sequence[tuple[list[str], Any]], least: float, margin: float) -> str:
    """What the search texts would have done."""
    counts = dict.fromkeys(("right", "wrong", "asked", "nothing"), 0)
    idle = 0
    for wanted, scores in found:
        near = [at for at, score in enumerate(scores) if score >= least and max(scores) - score < margin]
        acts = len(near) == 1
        if len(wanted) == 1:
            word = ("right" if kept[near[0]] in wanted else "wrong") if acts else "asked" if near else "nothing"
            counts[word] += 1
        else:
            idle += acts
    clear = ", ".join(f"{count} {word}" for word, count in counts.items())
    return f"of the clear ones {clear}; of {sum(len(wanted) != 1 for wanted, _ in found)} ambiguous and wrong ones {idle} acted"
