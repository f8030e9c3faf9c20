"""The order-lookup agent is wrong at 3 PM, right once the world has healed, and right with the fix."""

from pathlib import Path

import httpx
import pytest
from order_shop import Shop, copy_example, fix

VARIANTS = ["sync", "langgraph", *(pytest.param(variant, marks=pytest.mark.soak) for variant in ("async", "stream"))]


@pytest.mark.long
@pytest.mark.usefixtures("warm_python")
@pytest.mark.parametrize("variant", VARIANTS)
def test_at_3pm_the_agent_answers_with_another_customers_order(shop: Shop, variant: str) -> None:
    """Three candidates came back and the newest was taken; the price is missing; each tool ran once."""
    answer = shop.ask(variant=variant)
    assert "A-1057" in answer
    assert "A-1042" not in answer
    assert "EUR" not in answer
    assert shop.calls() == {"file_note": 1, "find_orders": 1, "pricing_api": 1}


@pytest.mark.long
@pytest.mark.usefixtures("warm_python")
@pytest.mark.parametrize("variant", VARIANTS)
def test_in_the_healed_world_the_same_agent_is_right(shop: Shop, variant: str) -> None:
    """The fault is gone: one candidate, a price, the customer's own order."""
    shop.set("healed")
    answer = shop.ask(variant=variant)
    assert "A-1042" in answer
    assert "39.90 EUR" in answer


@pytest.mark.long
@pytest.mark.usefixtures("warm_python")
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_fix_is_right_at_3pm(shop: Shop, variant: str, tmp_path: Path) -> None:
    """The patch that comes with the example applies, and fixes the agent in every style."""
    fixed = copy_example(tmp_path / "fixed")
    fix(fixed)
    answer = shop.ask(variant=variant, example=fixed)
    assert "A-1042" in answer
    assert "A-1057" not in answer


@pytest.mark.long
@pytest.mark.usefixtures("warm_python")
def test_the_agent_says_what_to_set_when_it_has_no_provider(shop: Shop) -> None:
    """Without addresses it names the two variables, and calls no one."""
    with pytest.raises(AssertionError, match="set OPENAI_BASE_URL and ANTHROPIC_BASE_URL"):
        Shop(directory=shop.directory, environment={}).ask()
    assert shop.calls() == {}


@pytest.mark.long
@pytest.mark.usefixtures("warm_python")
def test_the_busy_pricing_api_sends_half_of_what_it_announces(shop: Shop) -> None:
    """429, a JSON body cut in the middle, the connection closed; a client sees a protocol error."""
    with httpx.stream("GET", f"{shop.environment['PRICING_URL']}/prices/KT-20") as response:
        received = b""
        with pytest.raises(httpx.RemoteProtocolError, match="peer closed connection"):
            for chunk in response.iter_raw():
                received += chunk
    assert response.status_code == 429
    assert len(received) == int(response.headers["content-length"]) // 2
    assert received.startswith(b'{"error": ')


@pytest.mark.long
@pytest.mark.usefixtures("warm_python")
def test_the_healed_pricing_api_quotes(shop: Shop) -> None:
    """A known article has a price, an unknown one is a 404 in whole JSON."""
    shop.set("healed")
    url = f"{shop.environment['PRICING_URL']}/prices"
    assert httpx.get(f"{url}/KT-20").json() == {"sku": "KT-20", "amount": "39.90", "currency": "EUR"}
    assert httpx.get(f"{url}/XX-99").status_code == 404
