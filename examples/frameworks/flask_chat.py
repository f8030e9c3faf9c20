"""A chat behind Flask: each request is a run.

pip install flask openai
OPENAI_API_KEY=... flask --app flask_chat run
curl -X POST localhost:5000/chat/maria -H 'content-type: application/json' -d '{"text": "Where is my order?"}'
"""

from collections.abc import Iterator

from flask import Flask, Response, request
from openai import OpenAI

import freezeframe

freezeframe.instrument()

app = Flask(__name__)
client = OpenAI()


def ask(text: str) -> str | None:
    """Ask the model."""
    answer = client.chat.completions.create(model="gpt-4o-mini", messages=[{"role": "user", "content": text}])
    return answer.choices[0].message.content


@freezeframe.tool
def find_order(user: str) -> str:
    """Look up a user's order; in a replay it is answered from the recording."""
    return f"order of {user}: packed"


@app.post("/chat/<user>")
def chat(user: str) -> dict[str, str | None]:
    """Answer in one piece."""
    return {"answer": ask(f"{find_order(user)}. {request.get_json()['text']}")}


@app.get("/stream")
def stream() -> Response:
    """Answer sentence by sentence, so that the run records how much a leaving client has received."""

    text = request.args["text"]

    def pieces() -> Iterator[str]:
        for _ in range(3):
            yield ask(text) or ""

    return Response(pieces(), mimetype="text/plain")
