"""A chat as a Google Cloud Function: each request is a run.

pip install functions-framework openai
OPENAI_API_KEY=... functions-framework --source cloud_function.py --target chat
curl -X POST localhost:8080/chat/maria -H 'content-type: application/json' -d '{"text": "Where is my order?"}'
"""

import flask
import functions_framework
from openai import OpenAI

import freezeframe

freezeframe.instrument()

client = OpenAI()


@freezeframe.tool
def find_order(user: str) -> str:
    """Look up a user's order; in a replay it is answered from the recording."""
    return f"order of {user}: packed"


@functions_framework.http
def chat(request: flask.Request) -> dict[str, str | None]:
    """Answer one question."""
    prompt = f"{find_order(request.path.rpartition('/')[2])}. {request.get_json()['text']}"
    answer = client.chat.completions.create(model="gpt-4o-mini", messages=[{"role": "user", "content": prompt}])
    return {"answer": answer.choices[0].message.content}
