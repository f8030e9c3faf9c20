"""A chat behind Flask: each request is a run.

pip install flask httpx
OPENAI_API_KEY=... flask --app flask_chat run
curl -X POST localhost:5000/chat/maria -H 'content-type: application/json' -d '{"text": "Where is my order?"}'
"""

import os
from collections.abc import Iterator

import httpx
from flask import Flask, Response, request

import freezeframe

freezeframe.instrument()

app = Flask(__name__)


def ask(text: str) -> str:
    """Ask the model."""
    answer = httpx.post(
        f"{os.environ.get('OPENAI_BASE_URL', 'https://api.openai.com/v1')}/chat/completions",
        headers={"authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"},
        json={"model": "gpt-4o-mini", "messages": [{"role": "user", "content": text}]},
        timeout=60,
    )
    return answer.raise_for_status().json()["choices"][0]["message"]["content"]


@freezeframe.tool
def find_order(user: str) -> str:
    """Look up a user's order; in a replay it is answered from the recording."""
    return f"order of {user}: packed"


@app.post("/chat/<user>")
def chat(user: str) -> dict[str, str]:
    """Answer in one piece."""
    return {"answer": ask(f"{find_order(user)}. {request.get_json()['text']}")}


@app.get("/stream")
def stream() -> Response:
    """Answer sentence by sentence: what the client has when it leaves is known."""

    text = request.args["text"]

    def pieces() -> Iterator[str]:
        for _ in range(3):
            yield ask(text)

    return Response(pieces(), mimetype="text/plain")
