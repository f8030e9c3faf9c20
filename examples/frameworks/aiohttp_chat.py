"""A chat behind aiohttp's server: each request is a run.

pip install aiohttp openai
OPENAI_API_KEY=... python aiohttp_chat.py
curl -X POST localhost:8080/chat/maria -H 'content-type: application/json' -d '{"text": "Where is my order?"}'
"""

from aiohttp import web
from openai import AsyncOpenAI

import freezeframe

freezeframe.instrument()

client = AsyncOpenAI()


async def ask(text: str) -> str | None:
    """Ask the model."""
    answer = await client.chat.completions.create(model="gpt-4o-mini", messages=[{"role": "user", "content": text}])
    return answer.choices[0].message.content


@freezeframe.tool
async def find_order(user: str) -> str:
    """Look up a user's order; in a replay it is answered from the recording."""
    return f"order of {user}: packed"


async def chat(request: web.Request) -> web.Response:
    """Answer in one piece."""
    order = await find_order(request.match_info["user"])
    return web.json_response({"answer": await ask(f"{order}. {(await request.json())['text']}")})


async def stream(request: web.Request) -> web.StreamResponse:
    """Answer sentence by sentence."""
    response = web.StreamResponse(headers={"content-type": "text/plain"})
    await response.prepare(request)
    for _ in range(3):
        await response.write((await ask(request.query["text"]) or "").encode())
    return response


app = web.Application()
app.add_routes([web.post("/chat/{user}", chat), web.get("/stream", stream)])

if __name__ == "__main__":
    web.run_app(app)
