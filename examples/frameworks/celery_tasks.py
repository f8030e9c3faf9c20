"""An agent in a worker of Celery: each task is a run.

pip install celery redis openai
OPENAI_API_KEY=... celery -A celery_tasks worker
python -c "import celery_tasks; celery_tasks.answer.delay('maria', 'Where is my order?')"
"""

import os

from celery import Celery
from openai import OpenAI

import freezeframe

freezeframe.instrument()

app = Celery("celery_tasks", broker=os.environ.get("BROKER_URL", "redis://localhost"))


@freezeframe.tool
def find_order(user: str) -> str:
    """Look up a user's order; in a replay it is answered from the recording."""
    return f"order of {user}: packed"


@app.task
def answer(user: str, text: str) -> str | None:
    """Answer one question."""
    prompt = f"{find_order(user)}. {text}"
    completion = OpenAI().chat.completions.create(model="gpt-4o-mini", messages=[{"role": "user", "content": prompt}])
    return completion.choices[0].message.content
