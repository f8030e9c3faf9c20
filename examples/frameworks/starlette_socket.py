"""A chat over a WebSocket, behind Starlette: each connection is a run, with its messages in order.

pip install starlette uvicorn websockets openai
OPENAI_API_KEY=... uvicorn starlette_socket:app
"""

from openai import AsyncOpenAI
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket

import freezeframe

freezeframe.instrument()

client = AsyncOpenAI()


@freezeframe.tool
async def find_order(user: str) -> str:
    """Look up a user's order; in a replay it is answered from the recording."""
    return f"order of {user}: packed"


async def chat(socket: WebSocket) -> None:
    """Answer each message, until the client leaves."""
    await socket.accept()
    async for text in socket.iter_text():
        prompt = f"{await find_order(socket.path_params['user'])}. {text}"
        await socket.send_text("one moment")
        answer = await client.chat.completions.create(model="gpt-4o-mini", messages=[{"role": "user", "content": prompt}])
        await socket.send_text(answer.choices[0].message.content or "")


app = Starlette(routes=[WebSocketRoute("/chat/{user}", chat)])
