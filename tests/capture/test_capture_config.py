"""Settings: declared once, every fault at once, and a page that says the same."""

from __future__ import annotations

import pytest
from settings_pages import DOCS, pages

from freezeframe._config import OPTIONS, load_settings
from freezeframe_schemas.errors import ConfigError


def test_the_page_is_generated_from_the_settings() -> None:
    """``python tests/support/settings_pages.py``"""
    page = DOCS / "configuration.md"
    assert page.read_text() == pages()[page]


def test_an_option_in_code_wins_over_the_environment_and_that_over_the_default() -> None:
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:1", "FREEZEFRAME_MAX_BODY_BYTES": "2M", "OTEL_SERVICE_NAME": "shop"}
    settings = load_settings({"endpoint": "http://b:2"}, environ)
    assert (settings.endpoint, settings.max_body_bytes, settings.service_name) == ("http://b:2", 2 * 1024 * 1024, "shop")
    assert load_settings({}, {}).endpoint is None


def test_a_list_may_be_given_as_its_variable_has_it() -> None:
    told = {"record_hosts": "*, shop.example", "headers": "authorization=Bearer%20x"}
    settings = load_settings(told, {})
    assert settings == load_settings({}, {f"FREEZEFRAME_{name.upper()}": text for name, text in told.items()})
    assert settings.record_hosts == ("*", "shop.example")


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
    assert "instrument(colour=...): no such setting" in message
    assert "FREEZEFRAME_ROOT: found 'perhaps', expected auto, always or never" in message
    assert "FREEZEFRAME_MAX_BODY_BYTES: found 'x'" in message


def test_every_option_says_what_it_expects_and_accepts_its_default() -> None:
    for option in OPTIONS.values():
        assert option.help
        assert option.kind.expected
        assert option.default is None or option.kind.accepts(option.default)


@pytest.mark.parametrize("text", ["Bearer hunter2", "cookie=hunter2; b=2", "a,key=hunter2", "a b=hunter2", "a=hunter2é"])
def test_a_fault_of_headers_does_not_show_them(text: str, caplog: pytest.LogCaptureFixture) -> None:
    """Headers hold the collector's token."""
    with pytest.raises(ConfigError) as caught:
        load_settings({"headers": text}, {"FREEZEFRAME_FILE": "x"})
    assert "hunter2" not in str(caught.value) + caplog.text
    assert "instrument(headers=...): found a value that is not shown, expected key=value pairs" in str(caught.value)


@pytest.mark.parametrize(
    ("environ", "endpoint"),
    [
        ({"FREEZEFRAME_ENDPOINT": "http://a:1/"}, "http://a:1"),
        ({"FREEZEFRAME_ENDPOINT": "http://a:1/to"}, "http://a:1/to/v1/traces"),
        ({"FREEZEFRAME_ENDPOINT": "http://a:1/v1/traces"}, "http://a:1/v1/traces"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:1/v1/traces"}, "http://a:1/v1/traces"),
        ({"FREEZEFRAME_ENDPOINT": "[::1]:1", "FREEZEFRAME_PROTOCOL": "grpc"}, "https://[::1]:1"),
        ({"FREEZEFRAME_ENDPOINT": "a:1", "FREEZEFRAME_PROTOCOL": "GRPC", "FREEZEFRAME_INSECURE": "1"}, "http://a:1"),
    ],
)
def test_an_endpoint_is_completed(environ: dict[str, str], endpoint: str) -> None:
    assert load_settings({}, environ).endpoint == endpoint


def test_an_endpoint_without_its_scheme_is_a_fault_over_http() -> None:
    with pytest.raises(ConfigError, match=r"instrument\(endpoint=...\): found 'a:1', expected a URL, http://host:port"):
        load_settings({"endpoint": "a:1"}, {})


def test_a_misspelt_option_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"instrument\(end_point=...\): no such setting; did you mean endpoint\?"):
        load_settings({"end_point": "http://a:1"}, {})


@pytest.mark.parametrize("text", ["nan", "inf", "-1"])
def test_a_time_that_no_clock_reaches_is_a_fault(text: str) -> None:
    with pytest.raises(ConfigError, match=r"FREEZEFRAME_EXIT_TIMEOUT_S: found .*, expected a number of seconds, at least 0"):
        load_settings({}, {"FREEZEFRAME_EXIT_TIMEOUT_S": text})
