"""A chat behind Quart: each request is a run.

pip install quart openai
OPENAI_API_KEY=... hypercorn quart_chat:app
curl -X POST localhost:8000/chat/maria -H 'content-type: application/json' -d '{"text": "Where is my order?"}'
"""

from collections.abc import AsyncIterator

from openai import AsyncOpenAI
from quart import Quart, Response, request

import freezeframe

freezeframe.instrument()

app = Quart(__name__)
client = AsyncOpenAI()


async def ask(text: str) -> str | None:
    """Ask the model."""
    answer = await client.chat.completions.create(model="gpt-4o-mini", messages=[{"role": "user", "content": text}])
    return answer.choices[0].message.content


@freezeframe.tool
async def find_order(user: str) -> str:
    """Look up a user's order; in a replay it is answered from the recording."""
    return f"order of {user}: packed"


@app.post("/chat/<user>")
async def chat(user: str) -> dict[str, str | None]:
    """Answer in one piece."""
    return {"answer": await ask(f"{await find_order(user)}. {(await request.get_json())['text']}")}


@app.get("/stream")
async def stream() -> Response:
    """Answer sentence by sentence."""
    text = request.args["text"]

    async def pieces() -> AsyncIterator[str]:
        for _ in range(3):
            yield await ask(text) or ""

    return Response(pieces(), mimetype="text/plain")
