"""An agent in a worker of Dramatiq: each message is a run.

pip install 'dramatiq[redis]' httpx
OPENAI_API_KEY=... dramatiq dramatiq_tasks
python -c "import dramatiq_tasks; dramatiq_tasks.answer.send('maria', 'Where is my order?')"
"""

import os

import dramatiq
import httpx

import freezeframe

freezeframe.instrument()


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


@dramatiq.actor
def answer(user: str, text: str) -> str:
    """Answer one question."""
    return ask(f"{find_order(user)}. {text}")
