"""An agent in a worker of RQ: each job is a run.

pip install rq openai
OPENAI_API_KEY=... freezeframe run -- rq worker
rq.Queue(connection=redis.Redis()).enqueue(rq_tasks.answer, "maria", "Where is my order?")
"""

from openai import OpenAI

import freezeframe


@freezeframe.tool
def find_order(user: str) -> str:
    """Look up a user's order; in a replay it is answered from the recording."""
    return f"order of {user}: packed"


def answer(user: str, text: str) -> str | None:
    """Answer one question."""
    prompt = f"{find_order(user)}. {text}"
    said = OpenAI().chat.completions.create(model="gpt-4o-mini", messages=[{"role": "user", "content": prompt}])
    return said.choices[0].message.content
