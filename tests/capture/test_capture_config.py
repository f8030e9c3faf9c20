"""Settings: one table, every fault at once, and a page that says the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from freezeframe._config import OPTIONS, load_settings, to_markdown
from freezeframe_schemas.errors import ConfigError

DOCS = Path(__file__).parents[2] / "docs" / "configuration.md"


def test_the_page_is_generated_from_the_table() -> None:
    """``python -m freezeframe._config > docs/configuration.md``"""
    assert DOCS.read_text() == to_markdown()


def test_an_option_in_code_wins_over_the_environment_and_that_over_the_default() -> None:
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:1", "FREEZEFRAME_MAX_BODY_BYTES": "2M", "OTEL_SERVICE_NAME": "shop"}
    settings = load_settings({"endpoint": "http://b:2"}, environ)
    assert (settings.endpoint, settings.max_body_bytes, settings.service_name) == ("http://b:2", 2 * 1024 * 1024, "shop")
    assert load_settings({}, {}).endpoint == "http://127.0.0.1:4318"


def test_headers_are_read_as_the_specification_writes_them() -> None:
    settings = load_settings({}, {"OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20x,tenant=acme"})
    assert settings.headers == (("authorization", "Bearer x"), ("tenant", "acme"))


def test_every_fault_is_named_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings(
            {"endpoint": "nowhere", "colour": "red"}, {"FREEZEFRAME_ROOT": "perhaps", "FREEZEFRAME_MAX_BODY_BYTES": "x"}
        )
    message = str(caught.value)
    assert "instrument(endpoint=...): found 'nowhere'" in message
    assert "instrument(colour=...): no such option" in message
    assert "FREEZEFRAME_ROOT: found 'perhaps', expected auto, always or never" in message
    assert "FREEZEFRAME_MAX_BODY_BYTES: found 'x'" in message


def test_every_option_says_what_it_expects_and_accepts_its_default() -> None:
    for option in OPTIONS:
        assert option.help
        assert option.form.expected
        assert option.default is None or option.form.accepts(option.default)
