"""Request keys: equal requests have equal keys, and the key of a request never changes between releases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from arbitrary import json_value, text
from hypothesis import assume, given
from hypothesis import strategies as st

from freezeframe_schemas import values
from freezeframe_schemas.exchange import Kind, Request
from freezeframe_schemas.keys import KEY_VERSION, RequestKey, canonical_json, request_key

VECTORS = Path(__file__).parents[1] / "golden/keys/vectors.json"
BODY: dict[str, Any] = {"model": "gpt-x", "messages": [{"role": "user", "content": "hi"}], "temperature": 0.2}


def key_of(
    body: Any = BODY, *, kind: Kind = Kind.MODEL, url: str = "http://127.0.0.1:1/v1/chat/completions", **given: Any
) -> RequestKey:
    headers = given.pop("headers", ())
    request = Request(method="POST", url=url, headers=headers, body=json.dumps(body).encode())
    return request_key(kind, "", request, **given)


def call_key(*args: Any, **kwargs: Any) -> RequestKey:
    body = values.encode({"args": list(args), "kwargs": kwargs}).encode()
    return request_key(Kind.TOOL, "lookup", Request(body=body))


def vectors() -> list[dict[str, Any]]:
    return json.loads(VECTORS.read_text())["vectors"]


@pytest.mark.parametrize("vector", vectors(), ids=lambda vector: vector["name"])
def test_the_key_of_a_golden_request_has_not_changed(vector: dict[str, Any]) -> None:
    """Fixtures hold these digests: a changed one needs a new `KEY_VERSION`."""
    given = vector["request"]
    request = Request(
        method=given.get("method", ""),
        url=given.get("url", ""),
        headers=tuple((name, value) for name, value in given.get("headers", [])),
        body=bytes.fromhex(given["body_hex"]) if "body_hex" in given else given["body"].encode(),
        omitted=given.get("omitted"),
    )
    key = request_key(
        Kind(vector["kind"]),
        vector.get("call", ""),
        request,
        transient=vector.get("transient", ()),
        ignore=vector.get("ignore", ()),
    )
    assert [list(component) for component in key.components] == vector["components"]
    assert key.digest == vector["digest"]


def test_the_vectors_are_of_this_version() -> None:
    assert json.loads(VECTORS.read_text())["key_version"] == KEY_VERSION


@given(value=json_value)
def test_white_space_and_the_order_of_keys_do_not_decide(value: Any) -> None:
    """An SDK may write its fields in another order tomorrow."""
    assume(isinstance(value, dict))
    backwards = dict(reversed(list(value.items())))
    spaced = Request(method="POST", url="http://h/", body=json.dumps(backwards, indent=3).encode())
    tight = Request(method="POST", url="http://h/", body=json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())
    assert request_key(Kind.HTTP, "", spaced) == request_key(Kind.HTTP, "", tight)


@given(value=json_value, other=json_value)
def test_different_values_have_different_text(value: Any, other: Any) -> None:
    """Canonical text is one-to-one, types included: `1`, `1.0`, `true` and `"1"` are four requests."""
    assert (canonical_json(value) == canonical_json(other)) == (repr_of(value) == repr_of(other))


def repr_of(value: Any) -> Any:
    if isinstance(value, dict):
        return ("dict", sorted((key, repr(repr_of(item))) for key, item in value.items()))
    if isinstance(value, list):
        return [repr_of(item) for item in value]
    return (type(value).__name__, repr(value))


@given(field=text, first=json_value, second=json_value)
def test_one_changed_field_is_the_one_component_that_differs(field: str, first: Any, second: Any) -> None:
    """So that a miss can say which field of the request changed."""
    assume(canonical_json(first) != canonical_json(second))
    before, after = key_of({**BODY, field: first}), key_of({**BODY, field: second})
    assert before.digest != after.digest
    assert before.differing(after) == (f"body.{field}",)
    assert set(before.agreeing(after)) | set(before.differing(after)) == {name for name, _ in before.components}


def test_a_missing_field_differs_from_both_sides() -> None:
    more, less = key_of({**BODY, "seed": 1}), key_of(BODY)
    assert more.differing(less) == less.differing(more) == ("body.seed",)


def test_an_ignored_component_does_not_decide() -> None:
    ignore = ["body.temperature"]
    assert key_of(BODY, ignore=ignore) == key_of({**BODY, "temperature": 0.9}, ignore=ignore)


def test_a_transient_field_does_not_decide() -> None:
    assert key_of({**BODY, "prompt_cache_key": "a"}, transient=["prompt_cache_key"]) == key_of(BODY)


def test_a_recorded_model_call_serves_any_base_url() -> None:
    """A stub on loopback answers for the provider; another API on another host does not answer for this one."""
    local, remote = "http://127.0.0.1:4000/v1/chat/completions", "https://api.openai.com/v1/chat/completions"
    assert key_of(url=local) == key_of(url=remote)
    assert key_of(url=local, kind=Kind.HTTP).differing(key_of(url=remote, kind=Kind.HTTP)) == ("host",)


def test_headers_of_the_transport_do_not_decide() -> None:
    """Retry counts, package versions and trace context differ in every run; the API's version does decide."""
    assert key_of(headers=(("x-stainless-retry-count", "1"), ("traceparent", "00-a-b-01"))) == key_of()
    assert key_of(headers=(("Anthropic-Version", "2023-06-01"),)).differing(key_of()) == ("header.anthropic-version",)


def test_the_boundary_of_a_form_does_not_decide() -> None:
    """A client chooses it again for each request."""

    def key(boundary: str, field: str) -> RequestKey:
        body = f'--{boundary}\r\ncontent-disposition: form-data; name="a"\r\n\r\n{field}\r\n--{boundary}--\r\n'.encode()
        headers = (("accept", "*/*"), ("Content-Type", f"multipart/form-data; boundary={boundary}"))
        return request_key(Kind.HTTP, "", Request(method="POST", url="http://h/x", headers=headers, body=body))

    assert key("f1a2", "1") == key("9c8d", "1") != key("9c8d", "2")


def test_a_surrogate_and_its_value_have_one_key_by_alias() -> None:
    plain, redacted = {**BODY, "user": "ann@example.com"}, {**BODY, "user": "u1@d1.example.com"}

    def alias(text: str) -> str:
        return text.replace("ann@example.com", "u1@d1.example.com")

    assert key_of(plain, alias=alias) == key_of(redacted)


def test_the_arguments_of_a_call_decide_each_by_name() -> None:
    assert call_key("AC-1", limit=3).differing(call_key("AC-1", limit=4)) == ("kwargs.limit",)
    assert call_key("AC-1").differing(call_key("AC-2")) == ("args",)


def test_an_argument_that_is_left_to_its_default_is_the_same_as_one_that_is_given() -> None:
    body = values.encode({"args": ["AC-1"], "kwargs": {"limit": 3}, "defaults": {"limit": 9, "page": 1}}).encode()
    unsaid = request_key(Kind.TOOL, "lookup", Request(body=body))
    assert unsaid == call_key("AC-1", limit=3, page=1)
    assert unsaid != call_key("AC-1", limit=9, page=1)
    told = key_of({"args": [], "kwargs": {}, "defaults": {"page": 1}})  # a model's: its body is not a call
    assert told != key_of({"args": [], "kwargs": {"page": 1}})


def test_an_argument_that_cannot_be_rebuilt_decides_by_its_class() -> None:
    """Its text may hold a memory address."""
    assert call_key(object()) == call_key(object())


@given(body=st.binary(max_size=40))
def test_any_body_has_a_key(body: bytes) -> None:
    request = Request(method="POST", url="http://h/x", body=body)
    assert request_key(Kind.HTTP, "", request) == request_key(Kind.HTTP, "", request)
