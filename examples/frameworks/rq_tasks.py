"""An agent in a worker of RQ: each job is a run.

pip install rq openai
OPENAI_API_KEY=... freezeframe run -- rq worker
rq_tasks.ask(rq.Queue(connection=redis.Redis()), "maria", "Where is my order?")
"""

from openai import OpenAI
from rq import Queue

import freezeframe


@freezeframe.tool
def find_order(user: str) -> str:
    """Look up a user's order; in a replay it is answered from the recording."""
    return f"order of {user}: packed"


def answer(user: str, text: str) -> str | None:
    """Answer one question."""
    prompt = f"{find_order(user)}. {text}"
    completion = OpenAI().chat.completions.create(model="gpt-4o-mini", messages=[{"role": "user", "content": prompt}])
    return completion.choices[0].message.content


def ask(queue: Queue, user: str, text: str) -> None:
    """Queue one question. By this call, a replay knows that `answer` is a task: RQ does not mark it."""
    queue.enqueue(answer, user, text=text)
