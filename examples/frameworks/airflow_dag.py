"""An agent in tasks of Airflow: each attempt at a task that calls a model is a run.

pip install apache-airflow openai
airflow db migrate && OPENAI_API_KEY=... python airflow_dag.py   # or put it into the DAGs' folder
"""

# pyright: reportMissingImports=false, reportUntypedFunctionDecorator=false, reportAttributeAccessIssue=false, reportCallIssue=false

from typing import Any

from airflow.sdk import dag, task
from openai import OpenAI

import freezeframe

freezeframe.instrument()


@freezeframe.tool
def find_order(user: str) -> str:
    """Look up a user's order; in a replay it is answered from the recording."""
    return f"order of {user}: packed"


def ask(text: str) -> str | None:
    """Ask the model."""
    answer = OpenAI().chat.completions.create(model="gpt-4o-mini", messages=[{"role": "user", "content": text}])
    return answer.choices[0].message.content


@dag(schedule=None, params={"user": "maria"})
def shop() -> None:
    """Answer a user, then sum up the conversation."""

    @task(retries=1, retry_delay=0)
    def answer(params: dict[str, str], ti: Any) -> str:
        reply = ask(f"{find_order(params['user'])}. Where is my order?")
        return f"{reply} (attempt {ti.try_number})"

    @task
    def sum_up(said: str) -> str | None:
        return ask(f"Sum up: {said}")

    sum_up(answer())  # Airflow gives the arguments that its context has


made = shop()

if __name__ == "__main__":
    made.test()
