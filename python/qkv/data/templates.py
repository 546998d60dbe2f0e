"""The sentences of the three tasks.

``{country}`` and the like are slots. The same slot twice takes two different words; ``{country 1}`` keeps its word
within an example.
"""

from __future__ import annotations

_NAMES = """
    anna boris clara david elena farid grace hugo ines jonas kenji lena mina nadia omar petra quentin rosa samir tessa
    uma viktor wanda xenia yusuf zoe
"""
_ADJECTIVES = "bright cold empty quiet heavy narrow old pale quick red small strange tall warm wide young"
_PLACES = "garden harbour library market museum office school station theatre village"
_NUMBERS = "two three four five six seven eight nine ten eleven twelve twenty"
NAMES, ADJECTIVES, PLACES, NUMBERS = (tuple(s.split()) for s in (_NAMES, _ADJECTIVES, _PLACES, _NUMBERS))

# What a sentence is about. Countries, months and names are in all kinds, so they do not give it away.
TOPICS = {
    "travel": (
        "{name} took the night train from {country} to {country}",
        "the flight to {country} leaves in {month}",
        "in {month} {name} crossed {country} by bus",
        "we booked a room in {country} for {weekday}",
        "{name} walked along the coast of {country} last {month}",
        "how do we get from {country} to {country} on {weekday} ?",
    ),
    "money": (
        "{name} paid the bill in {country} on {weekday}",
        "prices in {country} rose again in {month}",
        "how much does {name} owe the bank since {month} ?",
        "{name} saved every coin until {month}",
        "the bank in {country} lends {number} million to {country}",
        "{name} sold the house in {country} for {number} thousand",
    ),
    "calendar": (
        "the meeting with {name} moves from {weekday} to {weekday}",
        "{month} comes before {month} in {country} too",
        "is {weekday} a holiday in {country} ?",
        "{name} was born on a {weekday} in {month}",
        "remind {name} next {weekday} and not in {month}",
        "how long until {weekday} , asked {name}",
    ),
    "language": (
        "{name} speaks {language} at home in {country}",
        "how do you say {weekday} in {language} ?",
        "{name} translated the letter from {language} into {language}",
        "the word for {month} is short in {language}",
        "{name} learns {language} every {weekday}",
        "nobody in {country} understood the {language} of {name}",
    ),
}

# Words with their part of speech. Many of them (book, light, watch, plan, can, open, may, march) are two of these.
TAGS = ("ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "NOUN", "NUM", "PART", "PRON", "PROPN", "PUNCT", "VERB")
TAGGED = (
    "{name}/PROPN will/AUX book/VERB a/DET {adjective}/ADJ room/NOUN in/ADP {country}/PROPN ./PUNCT",
    "the/DET {adjective}/ADJ book/NOUN about/ADP {country}/PROPN is/AUX {adjective}/ADJ ./PUNCT",
    "{name}/PROPN may/AUX march/VERB to/ADP {country}/PROPN in/ADP {month}/PROPN ./PUNCT",
    "in/ADP {month}/PROPN the/DET march/NOUN through/ADP {country}/PROPN began/VERB ./PUNCT",
    "a/DET {adjective}/ADJ light/NOUN burns/VERB in/ADP the/DET {place}/NOUN ./PUNCT",
    "they/PRON light/VERB the/DET {adjective}/ADJ lamp/NOUN on/ADP {weekday}/PROPN ./PUNCT",
    "the/DET light/ADJ {place}/NOUN is/AUX {adjective}/ADJ in/ADP {month}/PROPN ./PUNCT",
    "{name}/PROPN and/CCONJ {name}/PROPN watch/VERB {number}/NUM {adjective}/ADJ birds/NOUN ./PUNCT",
    "the/DET watch/NOUN of/ADP {name}/PROPN stopped/VERB in/ADP {month}/PROPN ./PUNCT",
    "we/PRON plan/VERB to/PART visit/VERB {country}/PROPN before/ADP {month}/PROPN ./PUNCT",
    "the/DET plan/NOUN of/ADP {name}/PROPN needs/VERB {number}/NUM {adjective}/ADJ days/NOUN ./PUNCT",
    "can/AUX {name}/PROPN open/VERB the/DET {adjective}/ADJ can/NOUN ?/PUNCT",
    "the/DET open/ADJ {place}/NOUN in/ADP {country}/PROPN closes/VERB early/ADV on/ADP {weekday}/PROPN ./PUNCT",
    "{name}/PROPN rarely/ADV speaks/VERB {language}/PROPN at/ADP the/DET {place}/NOUN ./PUNCT",
)

# A sentence, what agrees with it, and what contradicts it.
PAIRS = (
    (
        "{name 1} flew to {country 1} in {month 1}",
        ("in {month 1} {name 1} was in {country 1}", "{name 1} visited {country 1} in {month 1}"),
        ("{name 1} stayed away from {country 1} in {month 1}", "{name 1} never visited {country 1}"),
    ),
    (
        "the {place 1} in {country 1} opens on {weekday 1}",
        ("on {weekday 1} the {place 1} is open", "{name 1} can enter the {place 1} on {weekday 1}"),
        ("on {weekday 1} the {place 1} is closed", "{name 1} cannot enter the {place 1} on {weekday 1}"),
    ),
    (
        "{name 1} speaks {language 1} and {language 2}",
        ("{name 1} knows {language 1}", "{name 1} understands {language 2} well"),
        ("{name 1} knows no {language 1}", "{name 1} never learned {language 2}"),
    ),
    (
        "all tickets to {country 1} in {month 1} are sold",
        ("there are no tickets to {country 1}", "nobody can buy a ticket for {month 1}"),
        ("there are many tickets to {country 1}", "{name 1} can buy a ticket for {month 1}"),
    ),
    (
        "it never rains in {country 1} in {month 1}",
        ("{month 1} is dry in {country 1}", "{country 1} sees no rain in {month 1}"),
        ("{month 1} is wet in {country 1}", "{country 1} sees much rain in {month 1}"),
    ),
    (
        "{name 1} works in {country 1} and {name 2} lives in {country 2}",
        ("{name 1} works in {country 1}", "{name 2} lives in {country 2}"),
        ("{name 1} does not work in {country 1}", "{name 2} does not live in {country 2}"),
    ),
    (
        "nobody saw {name 1} in {country 1} on {weekday 1}",
        ("{name 1} was not seen in {country 1}", "on {weekday 1} nobody met {name 1}"),
        ("{name 1} was seen in {country 1}", "on {weekday 1} everybody met {name 1}"),
    ),
)
