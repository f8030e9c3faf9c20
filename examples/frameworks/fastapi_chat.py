"""A chat behind FastAPI: each request is a run.

pip install fastapi uvicorn openai
OPENAI_API_KEY=... uvicorn fastapi_chat:app
curl -X POST localhost:8000/chat/maria -H 'content-type: application/json' -d '{"text": "Where is my order?"}'
"""

from collections.abc import AsyncIterator

from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from openai import AsyncOpenAI
from pydantic import BaseModel

import freezeframe

freezeframe.instrument()

app = FastAPI()
client = AsyncOpenAI()


class Question(BaseModel):
    """Question of a user."""

    text: str


@freezeframe.tool
async def find_order(user: str) -> str:
    """Look up a user's order; in a replay it is answered from the recording."""
    return f"order of {user}: packed"


@app.post("/chat/{user}")
async def chat(user: str, question: Question) -> dict[str, str | None]:
    """Answer in one piece."""
    prompt = f"{await find_order(user)}. {question.text}"
    answer = await client.chat.completions.create(model="gpt-4o-mini", messages=[{"role": "user", "content": prompt}])
    return {"answer": answer.choices[0].message.content}


@app.get("/stream")
async def stream(text: str) -> StreamingResponse:
    """Answer piece by piece."""

    async def pieces() -> AsyncIterator[str]:
        chunks = await client.chat.completions.create(
            model="gpt-4o-mini", messages=[{"role": "user", "content": text}], stream=True
        )
        async for chunk in chunks:
            yield chunk.choices[0].delta.content or ""

    return StreamingResponse(pieces(), media_type="text/plain")
