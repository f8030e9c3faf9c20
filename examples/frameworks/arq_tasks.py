"""An agent in a worker of arq: each job is a run.

pip install arq httpx
OPENAI_API_KEY=... arq arq_tasks.WorkerSettings
"""

import os
from typing import Any

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


async def answer(context: dict[str, Any], user: str, text: str) -> str:
    """Answer one question."""
    return f"{ask(f'{find_order(user)}. {text}')} (attempt {context['job_try']})"


class WorkerSettings:
    """What `arq` is started with."""

    functions = (answer,)
