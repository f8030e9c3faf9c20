"""An agent in a worker of Dramatiq: each message is a run.

pip install 'dramatiq[redis]' openai
OPENAI_API_KEY=... dramatiq dramatiq_tasks
python -c "import dramatiq_tasks; dramatiq_tasks.answer.send('maria', 'Where is my order?')"
"""

import dramatiq
from openai import OpenAI

import freezeframe

freezeframe.instrument()


@freezeframe.tool
def find_order(user: str) -> str:
    """Look up a user's order; in a replay it is answered from the recording."""
    return f"order of {user}: packed"


@dramatiq.actor
def answer(user: str, text: str) -> str | None:
    """Answer one question."""
    prompt = f"{find_order(user)}. {text}"
    completion = OpenAI().chat.completions.create(model="gpt-4o-mini", messages=[{"role": "user", "content": prompt}])
    return completion.choices[0].message.content
