"""An edit of a request is in the field where its wire dialect has it; if none is known, the edit is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from freezeframe_replay.engine.request_edit import Part, RequestEdit, edit_request
from freezeframe_schemas.errors import ReplayError
from freezeframe_schemas.exchange import Request

SYSTEM = RequestEdit(part=Part.SYSTEM, value="be brief")
ASKED = [{"role": "user", "content": "hi"}]


def edited(url: str, body: dict[str, Any], edit: RequestEdit = SYSTEM) -> dict[str, Any]:
    """Return the body as it goes out."""
    changed = edit_request(Request(method="POST", url=url, body=json.dumps(body).encode()), [edit])
    return body if changed is None else json.loads(changed)


FIRST_MESSAGE = {"messages": [{"role": "system", "content": "be brief"}, *ASKED]}
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "https://api.openai.com/v1/chat/completions": ({"messages": ASKED}, FIRST_MESSAGE),
    "http://localhost:11434/api/chat": ({"messages": ASKED}, FIRST_MESSAGE),
    "https://api.cohere.com/v2/chat": ({"messages": ASKED}, FIRST_MESSAGE),
    "https://api.anthropic.com/v1/messages": ({"system": "old"}, {"system": "be brief"}),
    "https://api.openai.com/v1/responses": ({"input": "hi"}, {"input": "hi", "instructions": "be brief"}),
    "https://bedrock-runtime.eu-west-1.amazonaws.com/model/m/converse": ({}, {"system": [{"text": "be brief"}]}),
    "https://bedrock-runtime.eu-west-1.amazonaws.com/model/m/invoke": (
        {"anthropic_version": "bedrock-2023-05-31"},
        {"anthropic_version": "bedrock-2023-05-31", "system": "be brief"},
    ),
    "https://generativelanguage.googleapis.com/v1beta/models/m:generateContent": (
        {"systemInstruction": {"parts": [{"text": "old"}], "role": "user"}},
        {"systemInstruction": {"parts": [{"text": "be brief"}]}},
    ),
    "https://api.cohere.com/v1/chat": ({"message": "hi"}, {"message": "hi", "preamble": "be brief"}),
    "http://localhost:11434/api/generate": ({"prompt": "hi"}, {"prompt": "hi", "system": "be brief"}),
    "https://api.openai.com/v1/embeddings": ({"input": "hi"}, {"input": "hi"}),
    "https://example.org/prices": ({"a": 1}, {"a": 1}),
}


@pytest.mark.parametrize("url", CASES)
def test_the_system_prompt_is_changed_where_the_dialect_has_it(url: str) -> None:
    body, expected = CASES[url]
    assert edited(url, body) == expected


BEDROCK = "https://bedrock-runtime.eu-west-1.amazonaws.com/model/m"
WARM: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "https://api.openai.com/v1/chat/completions": ({"messages": ASKED}, {"messages": ASKED, "temperature": 0}),
    "http://localhost:11434/api/chat": ({"options": {"seed": 1}}, {"options": {"seed": 1, "temperature": 0}}),
    "https://generativelanguage.googleapis.com/v1beta/models/m:generateContent": ({}, {"generationConfig": {"temperature": 0}}),
    f"{BEDROCK}/converse": ({}, {"inferenceConfig": {"temperature": 0}}),
    f"{BEDROCK}/invoke": (
        {"inputText": "hi", "textGenerationConfig": {"topP": 1}},
        {"inputText": "hi", "textGenerationConfig": {"topP": 1, "temperature": 0}},
    ),
}


@pytest.mark.parametrize("url", WARM)
def test_a_parameter_is_changed_where_the_dialect_has_it(url: str) -> None:
    body, expected = WARM[url]
    assert edited(url, body, RequestEdit(part=Part.PARAMETER, name="temperature", value=0)) == expected


def test_a_model_that_stands_in_the_url_is_refused_with_what_to_do() -> None:
    with pytest.raises(ReplayError, match=r"the model of a bedrock\.converse request") as refused:
        edited("https://bedrock-runtime.eu-west-1.amazonaws.com/model/m/converse", {}, RequestEdit(part=Part.MODEL, value="n"))
    assert "change it in the agent's code" in str(refused.value)
