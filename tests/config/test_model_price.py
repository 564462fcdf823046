"""TOOLWEAVE_MODEL_PRICE is two prices, or an error that does not repeat it."""

import pytest

from toolweave.config.settings import load_settings
from toolweave.errors import ConfigError


def test_the_price_is_in_dollars_per_million_tokens_read_and_written() -> None:
    price = load_settings({"TOOLWEAVE_MODEL_PRICE": "0.30/2.50"}).model_price
    assert price is not None
    assert price.cost_usd(1_000_000, 2_000_000) == pytest.approx(5.3)
    assert price.cost_usd(0, 0) == 0


def test_without_a_price_nobody_knows_what_a_call_costs() -> None:
    assert load_settings({}).model_price is None


@pytest.mark.parametrize("wrong", ["1", "1/", "/1", "a/b", "-1/2", "nan/1", "1/inf", "1/2/3", "1,2"])
def test_what_is_not_two_prices_is_refused(wrong: str) -> None:
    with pytest.raises(ConfigError, match="TOOLWEAVE_MODEL_PRICE must be two prices"):
        load_settings({"TOOLWEAVE_MODEL_PRICE": wrong})
