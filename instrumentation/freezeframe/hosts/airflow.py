"""Tasks of Airflow that call a Python function, TaskFlow's among them: each attempt that makes a call is a run (`workers`).

A replay finds the function by its DAG, since it may be nested in the function that makes the DAG.
"""

from __future__ import annotations

import functools
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from freezeframe._guard import guard
from freezeframe.hosts import workers
from freezeframe.runs.run import file_of
from freezeframe.seams.recorder.patching import Patches
from freezeframe_schemas.rebuilding import lost_in_rebuilding

ABOUT: Final = ("dag_id", "task_id", "run_id", "map_index", "try_number")
"""Recorded attributes of a task instance."""
INSTANCES: Final = frozenset({"ti", "task_instance"})
"""Arguments of a function that are the task instance."""


def hook(module: ModuleType, patches: Patches) -> None:
    """Patch ``airflow.providers.standard.operators.python``."""
    patches.around(module.PythonOperator, "execute_callable", _call)
    if hasattr(module.PythonOperator, "aexecute_callable"):
        patches.around(module.PythonOperator, "aexecute_callable", _await)


def _call(original: Any, operator: Any) -> Any:
    return workers.attempt(_begin(operator), functools.partial(original, operator))


async def _await(original: Any, operator: Any) -> Any:
    return await workers.attempt_async(_begin(operator), functools.partial(original, operator))


def _begin(operator: Any) -> workers.Task | None:
    with guard("airflow.begin"):
        from airflow.sdk import get_current_context  # pyright: ignore[reportMissingImports]  # has its own environment

        context: Any = get_current_context()
        about = {name: getattr(context["ti"], name, None) for name in ABOUT}
        file = file_of(operator.python_callable)
        place = f"DAG({about['dag_id']!r}, {operator.task_id!r})"
        return workers.begin(
            operator.python_callable,
            (about, *operator.op_args),
            {name: value for name, value in operator.op_kwargs.items() if name not in context or _is_data(value)},
            by="airflow",
            name=f"{about['dag_id']}.{operator.task_id}",
            task_id="/".join(str(about[name]) for name in ABOUT[:-1]),
            attempt=(about["try_number"] or 1) - 1,
            where=(f"{Path(file).stem if file else ''}:{place}", file),
        )
    return None


def _is_data(value: Any) -> bool:
    return not any(lost.opaque for lost in lost_in_rebuilding(value))
