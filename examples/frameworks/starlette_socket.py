"""A chat over a WebSocket, behind Starlette: each connection is a run, with its messages in order.

pip install starlette uvicorn websockets httpx
OPENAI_API_KEY=... uvicorn starlette_socket:app
"""

import os

import httpx
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket

import freezeframe

freezeframe.instrument()


async def ask(text: str) -> str:
    """Ask the model."""
    async with httpx.AsyncClient(timeout=60) as client:
        answer = await client.post(
            f"{os.environ.get('OPENAI_BASE_URL', 'https://api.openai.com/v1')}/chat/completions",
            headers={"authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"},
            json={"model": "gpt-4o-mini", "messages": [{"role": "user", "content": text}]},
        )
    return answer.raise_for_status().json()["choices"][0]["message"]["content"]


@freezeframe.tool
async def find_order(user: str) -> str:
    """Look up a user's order; in a replay it is answered from the recording."""
    return f"order of {user}: packed"


async def chat(socket: WebSocket) -> None:
    """Answer each message, until the client leaves."""
    await socket.accept()
    async for text in socket.iter_text():
        order = await find_order(socket.path_params["user"])
        await socket.send_text("one moment")
        await socket.send_text(await ask(f"{order}. {text}"))


app = Starlette(routes=[WebSocketRoute("/chat/{user}", chat)])
