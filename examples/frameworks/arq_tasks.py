"""An agent in a worker of arq: each job is a run.

pip install arq openai
OPENAI_API_KEY=... arq arq_tasks.WorkerSettings
"""

from typing import Any

from openai import AsyncOpenAI

import freezeframe

freezeframe.instrument()


@freezeframe.tool
def find_order(user: str) -> str:
    """Look up a user's order; in a replay it is answered from the recording."""
    return f"order of {user}: packed"


async def answer(context: dict[str, Any], user: str, text: str) -> str:
    """Answer one question."""
    prompt = f"{find_order(user)}. {text}"
    completion = await AsyncOpenAI().chat.completions.create(
        model="gpt-4o-mini", messages=[{"role": "user", "content": prompt}]
    )
    return f"{completion.choices[0].message.content} (attempt {context['job_try']})"


class WorkerSettings:
    """Settings with which `arq` starts."""

    functions = (answer,)
