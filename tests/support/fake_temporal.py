"""The part of a Temporal server that hands out activities: a worker's own core polls it over gRPC, and it retries as asked.

Temporal's own servers, for development and for tests, are programs that its SDK downloads.
"""

from __future__ import annotations

import importlib
import queue
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import grpc

_SERVICE: Final = "temporal.api.workflowservice.v1.WorkflowService"


@dataclass(slots=True, kw_only=True)
class Scheduled:
    """One activity of a workflow."""

    activity: str
    arguments: tuple[Any, ...]
    workflow: str
    attempt: int = 1


@dataclass(slots=True, kw_only=True)
class Temporal:
    """The server: what it hands out, and what came of that."""

    attempts: int = 2
    """Maximum attempts of an activity."""
    port: int = 0
    ended: queue.Queue[tuple[Scheduled, Any]] = field(default_factory=lambda: queue.Queue[tuple[Scheduled, Any]]())
    """Each activity at its end, with its result, or with the text of its failure."""
    _due: queue.Queue[Scheduled] = field(default_factory=lambda: queue.Queue[Scheduled]())
    _begun: dict[bytes, Scheduled] = field(default_factory=lambda: dict[bytes, Scheduled]())
    _over: threading.Event = field(default_factory=threading.Event)

    def schedule(self, activity: str, *arguments: Any, workflow: str) -> None:
        """Hand out an activity."""
        self._due.put(Scheduled(activity=activity, arguments=arguments, workflow=workflow))

    def answer(self, method: str, request: Any, response: Any) -> None:
        """Answer one call of a worker."""
        if method == "PollActivityTaskQueue":
            self._hand_out(response)
        elif method == "RespondActivityTaskCompleted":
            self._end(request.task_token, _converter().from_payloads(request.result.payloads)[0])
        elif method == "RespondActivityTaskFailed":
            self._end(request.task_token, request.failure.message, again=True)

    def _hand_out(self, response: Any) -> None:
        while not self._over.is_set():
            try:
                task = self._due.get(timeout=0.05)
            except queue.Empty:
                continue
            token = f"{task.workflow}/{task.activity}/{task.attempt}".encode()
            self._begun[token] = task
            response.task_token, response.attempt = token, task.attempt
            response.activity_id, response.activity_type.name = "1", task.activity
            response.workflow_namespace, response.workflow_type.name = "default", "Chat"
            response.workflow_execution.workflow_id, response.workflow_execution.run_id = task.workflow, f"{task.workflow}-run"
            response.start_to_close_timeout.FromSeconds(100)
            for moment in (response.scheduled_time, response.started_time, response.current_attempt_scheduled_time):
                moment.GetCurrentTime()
            response.input.payloads.extend(_converter().to_payloads(list(task.arguments)))
            return

    def _end(self, token: bytes, outcome: Any, *, again: bool = False) -> None:
        task = self._begun.pop(token)
        self.ended.put((task, outcome))
        if again and task.attempt < self.attempts:
            self._due.put(
                Scheduled(activity=task.activity, arguments=task.arguments, workflow=task.workflow, attempt=task.attempt + 1)
            )

    def stop(self) -> None:
        """Let those that poll go."""
        self._over.set()


def _converter() -> Any:
    return importlib.import_module("temporalio.converter").default().payload_converter


class _Handler(grpc.GenericRpcHandler):
    def __init__(self, temporal: Temporal) -> None:
        self._temporal = temporal
        self._messages: Any = importlib.import_module("temporalio.api.workflowservice.v1")

    def service(self, handler_call_details: Any) -> Any:
        service, _, method = str(handler_call_details.method).lstrip("/").partition("/")
        if service != _SERVICE or not hasattr(self._messages, f"{method}Request"):
            return None
        kinds: tuple[Any, Any] = getattr(self._messages, f"{method}Request"), getattr(self._messages, f"{method}Response")

        def answer(request: Any, context: Any) -> Any:
            response = kinds[1]()
            self._temporal.answer(method, request, response)
            return response

        serialize: Callable[[Any], bytes] = kinds[1].SerializeToString
        return grpc.unary_unary_rpc_method_handler(
            answer, request_deserializer=kinds[0].FromString, response_serializer=serialize
        )


@contextmanager
def temporal_server() -> Generator[Temporal]:
    """Yield the server, while it runs."""
    temporal = Temporal()
    with ThreadPoolExecutor(32) as pool:
        server = grpc.server(pool, handlers=[_Handler(temporal)])
        temporal.port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield temporal
        finally:
            temporal.stop()
            server.stop(1).wait()
