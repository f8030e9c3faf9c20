"""An agent in activities of Temporal: each attempt at one is a run, and those of a workflow are a session.

pip install temporalio openai
temporal server start-dev
OPENAI_API_KEY=... python temporal_activities.py
"""

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor

from openai import OpenAI
from temporalio import activity
from temporalio.client import Client
from temporalio.worker import Worker

import freezeframe

freezeframe.instrument()


@freezeframe.tool
def find_order(user: str) -> str:
    """Look up a user's order; in a replay it is answered from the recording."""
    return f"order of {user}: packed"


@activity.defn
def answer(user: str, text: str) -> str:
    """Answer one question."""
    prompt = f"{find_order(user)}. {text}"
    completion = OpenAI().chat.completions.create(model="gpt-4o-mini", messages=[{"role": "user", "content": prompt}])
    return f"{completion.choices[0].message.content} (attempt {activity.info().attempt})"


async def main() -> None:
    """Work until interrupted."""
    client = await Client.connect(os.environ.get("TEMPORAL_ADDRESS", "localhost:7233"))
    with ThreadPoolExecutor(8) as threads:
        await Worker(client, task_queue="shop", activities=[answer], activity_executor=threads).run()


if __name__ == "__main__":
    asyncio.run(main())
