"""Tasks of Airflow, in an environment of its own (`make test-clients`): each attempt that calls a model is a run and replays.

The DAG is tested as Airflow does it (``airflow dags test``), with its database in a file of SQLite.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from recorded_tasks import recorded, replays

from freezeframe_schemas.lifecycle import RunStatus
from freezeframe_schemas.run import EntryKind

pytest.importorskip("airflow")
pytestmark = [pytest.mark.long, pytest.mark.timeout(500)]

_DAG = """
import os
import freezeframe

freezeframe.instrument()

import httpx
from airflow.sdk import dag, task


def ask(prompt):
    asked = {"model": "m", "messages": [{"role": "user", "content": prompt}]}
    answer = httpx.post(os.environ["PROVIDER_BASE_URL"] + "/v1/chat/completions", json=asked, timeout=200)
    return answer.json()["choices"][0]["message"]["content"]


@dag(schedule=None, params={"user": "maria"})
def shop():
    @task(retries=1, retry_delay=0)
    def answer(params, ti):
        said = ask(f"order of {params['user']}")
        if ti.try_number == 1:
            raise ValueError(said)
        return said

    @task
    def sum_up(said: str, *, words: int):
        return ask(f"{said} in {words} words")

    @task
    def nothing(said):
        return said

    nothing(sum_up(answer(), words=3))


shop()
"""


def test_each_attempt_at_a_task_is_a_run_and_replays_without_airflow_s_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    airflow = [str(Path(sys.executable).parent / "airflow")]
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", str(tmp_path))
    monkeypatch.setenv("AIRFLOW__CORE__LOAD_EXAMPLES", "False")
    subprocess.run([*airflow, "db", "migrate"], check=True, capture_output=True)
    with recorded(tmp_path, _DAG) as read:
        done = subprocess.run([*airflow, "dags", "test", "shop"], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "sqlite:////nowhere/airflow.db")
        worked = read()
        runs = [run for run in worked.runs if run.entry.kind is EntryKind.TASK]  # Airflow makes spans of its own, too
        assert [run.entry.name for run in runs] == ["shop.answer", "shop.answer", "shop.sum_up"]
        assert [run.status for run in runs] == [RunStatus.FAILED, RunStatus.OK, RunStatus.OK]
        assert [worked.input(run)["attempt"] for run in runs] == [0, 1, 0]
        assert runs[0].entry.run_id == runs[1].entry.run_id
        assert {run.entry.target for run in runs} == {"tasks:DAG('shop', 'answer')", "tasks:DAG('shop', 'sum_up')"}
        assert [run.gaps for run in runs] == [(), (), ()]
        for run in runs:
            assert replays(worked, run)
