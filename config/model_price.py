"""Read TOOLWEAVE_MODEL_PRICE: what the model costs, in US dollars per million tokens read and written."""

import math
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ModelPrice:
    """US dollars per million tokens."""

    input_usd: float
    output_usd: float

    def cost_usd(self, input_tokens: int, output_tokens: int) -> float:
        """Give what so many tokens cost."""
        return (input_tokens * self.input_usd + output_tokens * self.output_usd) / 1_000_000


def price_per_million(value: Any) -> Any:
    """Read `0.30/2.50`; raises ValueError."""
    if isinstance(value, ModelPrice):
        return value
    first, slash, second = str(value).partition("/")
    try:
        price = ModelPrice(float(first), float(second))
    except ValueError:
        price = None
    if (
        price is None
        or not slash
        or not all(math.isfinite(part) and part >= 0 for part in (price.input_usd, price.output_usd))
    ):
        raise ValueError("must be two prices in US dollars per million tokens, read and written, such as 0.30/2.50")
    return price
