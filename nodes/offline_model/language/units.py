"""Know units of measure: which words mean one, what it measures, and how many of the smallest it is."""

import re
from dataclasses import dataclass
from typing import Literal

Dimension = Literal["mass", "length", "time", "money", "stars", "count", "share", "volume", "persons"]

_UNITS: tuple[tuple[Dimension, float, str], ...] = (
    ("mass", 1, "g gram grams gramme grammes"),
    ("mass", 1_000, "kg kgs kilo kilos kilogram kilograms kilogramme kilogrammes"),
    ("mass", 1_000_000, "tonne tonnes"),
    ("mass", 453.592, "lb lbs"),
    ("mass", 28.3495, "oz ounce ounces"),
    ("length", 1, "mm millimetre millimetres millimeter millimeters"),
    ("length", 10, "cm centimetre centimetres centimeter centimeters"),
    ("length", 1_000, "m metre metres meter meters"),
    ("length", 1_000_000, "km kilometre kilometres kilometer kilometers"),
    ("length", 1_609_344, "mile miles"),
    ("time", 1, "s sec secs second seconds"),
    ("time", 60, "min mins minute minutes"),
    ("time", 3_600, "h hr hrs hour hours"),
    ("time", 86_400, "day days"),
    ("time", 604_800, "week weeks"),
    ("volume", 1, "ml millilitre millilitres milliliter milliliters"),
    ("volume", 1_000, "l litre litres liter liters"),
    ("stars", 1, "star stars"),
    ("count", 1, "piece pieces pcs unit units copy copies x times"),
    ("share", 1, "% percent"),
    ("persons", 1, "person persons people"),
    (
        "money",
        1,
        (
            "€ $ £ ¥ euro euros eur dollar dollars usd buck bucks pound pounds gbp yen jpy franc francs chf "
            "krona kronor kr sek nok dkk cent cents"
        ),
    ),
)


@dataclass(frozen=True)
class Unit:
    """What a word measures, and how many of the smallest unit of that dimension it is."""

    dimension: Dimension
    size: float


UNITS: dict[str, Unit] = {word: Unit(kind, size) for kind, size, listed in _UNITS for word in listed.split()}
UNIT_WORDS = "|".join(re.escape(word) for word in sorted(UNITS, key=lambda word: (-len(word), word)))

_MEASURED: tuple[tuple[Dimension, str], ...] = (
    ("money", "price prices cost costs fee money budget salary amount total euro euros dollars eur usd"),
    ("mass", "weight mass"),
    ("stars", "star stars rating"),
    ("time", "duration timeout"),
    ("length", "length width height distance"),
    ("count", "quantity count copies pieces units"),
    ("persons", "seat seats capacity persons people guests participants attendees"),
)
MEASURED = {kind: frozenset(listed.split()) for kind, listed in _MEASURED}
"""Words of a parameter's name or description that say what its number measures."""
