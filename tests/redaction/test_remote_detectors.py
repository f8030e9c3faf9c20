"""Detectors of one's own behind HTTP, asked over a real socket."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from freezeframe_collector.processors.redact import RedactStage
from freezeframe_collector.settings.policies import Policies
from freezeframe_redaction import Cast, Policy, Redactor, TenantKey
from freezeframe_redaction.deadline import NEVER, Deadline
from freezeframe_redaction.keyring.keys import load_or_create_keys
from freezeframe_redaction.policies import remote
from freezeframe_redaction.policies.plugins import DetectorFailedError
from freezeframe_redaction.policies.policy import parse_policy
from freezeframe_redaction.policies.remote import MAX_ANSWER, PAUSE_S, RemoteDetector
from freezeframe_redaction.surrogates.known import surrogates_of
from freezeframe_schemas import genai
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.gaps import span_gaps
from freezeframe_schemas.span import Resource, SpanRecord

KEY = TenantKey(id="test/1", secret=b"k" * 32)
NOTE = "the plan of Nightjar is late"


class Detector(ThreadingHTTPServer):
    """A server that finds one word; `answer` replaces what it answers."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[list[str]] = []
        self.answer: Callable[[BaseHTTPRequestHandler], None] | None = None
        self.done = threading.Event()

    def handle_error(self, request: object, client_address: object) -> None:
        """Stay quiet: a client that waited long enough hangs up."""

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.server_address[1]}/find?lang=en"


class _Handler(BaseHTTPRequestHandler):
    @property
    def detector(self) -> Detector:
        """Its server."""
        assert isinstance(self.server, Detector)
        return self.server

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Stay quiet."""

    def do_POST(self) -> None:
        """Answer with the places of a word."""
        assert self.path == "/find?lang=en"
        texts = json.loads(self.rfile.read(int(self.headers["content-length"])))["texts"]
        self.detector.asked.append(texts)
        if self.detector.answer is not None:
            self.detector.answer(self)
            return
        found = [[[at, at + 8]] if (at := text.find("Nightjar")) >= 0 else [] for text in texts]
        send(self, json.dumps({"spans": found}))


def send(handler: BaseHTTPRequestHandler, body: str, status: int = 200, **headers: str) -> None:
    """Send an answer."""
    handler.send_response(status)
    for name, value in {"content-length": str(len(body.encode())), **headers}.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body.encode())


@pytest.fixture
def server() -> Iterator[Detector]:
    """A server with a detector."""
    remote.remote_detector.cache_clear()
    with Detector() as made:
        threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True).start()
        yield made
        made.done.set()
        made.shutdown()


def _policy(url: str, more: str = "") -> Policy:
    return parse_policy(f'name = "acme"\nversion = 1\n[[class]]\nname = "PROJECT"\ndetector = "{url}"\n{more}')


def _span(**attributes: str) -> SpanRecord:
    return SpanRecord(
        trace_id="1" * 32,
        span_id="2" * 16,
        name="chat Nightjar",
        start_time_unix_nano=1,
        end_time_unix_nano=2,
        resource=Resource(attributes={"service.name": "support", "team": "Nightjar"}),
        attributes={genai.TOOL_NAME: "lookup", genai.EXCHANGE_KIND: "tool", **attributes},
    )


def test_a_detector_behind_http_gets_new_texts_in_one_batch_and_its_findings_are_replaced(server: Detector) -> None:
    redactor = Redactor(_policy(server.url), KEY)
    document = json.dumps({"note": NOTE, "mail": "Nightjar is ours", "other": "nothing here"})
    made = redactor.redact_span(_span(result=document))
    assert "Nightjar" not in repr(made)
    assert set(surrogates_of([made]).values()) == {"PROJECT"}
    assert [NOTE, "Nightjar is ours", "nothing here"] in [texts[-3:] for texts in server.asked]
    count = len(server.asked)
    assert redactor.redact_span(_span(result=document)).attributes == made.attributes
    assert len(server.asked) == count


def _redirect(handler: BaseHTTPRequestHandler) -> None:
    send(handler, "", 302, location="/find?lang=en")


def _hang(handler: BaseHTTPRequestHandler) -> None:
    assert isinstance(handler, _Handler)
    handler.detector.done.wait(300)


def _close(handler: BaseHTTPRequestHandler) -> None:
    handler.connection.close()


def _with(body: str) -> Callable[[BaseHTTPRequestHandler], None]:
    return lambda handler: send(handler, body)


def _trickle(handler: BaseHTTPRequestHandler) -> None:
    assert isinstance(handler, _Handler)
    handler.send_response(200)
    handler.end_headers()
    while not handler.detector.done.wait(0.01):
        handler.wfile.write(b" ")
        handler.wfile.flush()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (_redirect, "status 302"),
        (_hang, "no answer within 0.3 s"),
        (_trickle, "no answer within 0.3 s"),
        (_close, "RemoteDisconnected"),
        (_with("<html>"), "expected {"),
        (_with('{"spans": []}'), "a list for each text"),
        (_with('{"spans": [[[0, 9000]]]}'), "a span is not in its text"),
        (_with('{"spans": [[[true, 2]]]}'), "a span is not in its text"),
        (_with(" " * (MAX_ANSWER + 1)), "an answer of over"),
    ],
    ids=["redirect", "hang", "trickle", "closed", "page", "too few", "beyond", "no number", "large"],
)
def test_an_answer_that_is_late_or_in_another_form_is_a_failure_without_content(
    server: Detector, answer: Callable[[BaseHTTPRequestHandler], None], reason: str
) -> None:
    server.answer = answer
    with pytest.raises(DetectorFailedError) as failed:
        list(RemoteDetector(server.url, 0.3, "replace")([NOTE], NEVER))
    assert reason in failed.value.message
    assert "Nightjar" not in failed.value.message


def test_a_detector_that_failed_rests_and_is_asked_again_later(server: Detector) -> None:
    now = [100.0]
    detector = RemoteDetector(server.url, 1.0, "replace", clock=lambda: now[0])
    server.answer = _redirect
    outcomes: list[bool] = []
    for step in (0.0, PAUSE_S - 1, 2.0):
        now[0] += step
        try:
            assert list(detector([NOTE], NEVER)) == [[(12, 20)]]
        except DetectorFailedError as failed:
            outcomes.append(failed.is_first)
        server.answer = None
    assert outcomes == [True, False]
    assert len(server.asked) == 2


def test_all_questions_of_a_span_share_one_time_limit(server: Detector) -> None:
    deadline = Deadline(60)
    detector = RemoteDetector(server.url, 60.0, "replace")
    assert list(detector([NOTE, "a\ud800b Nightjar"], deadline)) == [[(12, 20)], [(4, 12)]]
    assert 0 < deadline.waited < 60
    deadline.waited = 60.0
    with pytest.raises(DetectorFailedError, match="no answer within 60 s"):
        list(detector([NOTE], deadline))
    assert len(server.asked) == 1


def test_texts_that_a_detector_did_not_read_become_hashes_and_are_read_again_later(server: Detector) -> None:
    server.answer = _redirect
    failures: list[DetectorFailedError] = []
    redactor = Redactor(_policy(server.url), KEY, on_failure=failures.append)
    made, _ = redactor.redact_in_run(_span(result=NOTE, prompt="short"), Cast())
    assert "Nightjar" not in repr(made)
    assert "short" not in repr(made)
    assert made.text(genai.TOOL_NAME) == "lookup"
    assert (made.text("result") or "").startswith("unread:")
    assert set(surrogates_of([made]).values()) == {"UNREAD"}
    assert [gap.do for gap in span_gaps(made)][:1] == ["see that the detector answers in time"]
    assert len(failures) == 1
    server.answer = None
    remote.remote_detector(server.url, 1.0, "replace")._asked_again_at = 0.0
    again = redactor.redact_span(_span(result=NOTE, prompt="short"))
    assert again.text("prompt") == "short"
    assert "Nightjar" not in repr(again)


def test_texts_may_stay_as_the_other_rules_leave_them(server: Detector) -> None:
    server.answer = _redirect
    redactor = Redactor(_policy(server.url, 'on_error = "keep"'), KEY)
    made = redactor.redact_span(_span(result=f"{NOTE}, ask jane.roe@corp-mail.io"))
    assert NOTE in (made.text("result") or "")
    assert "jane.roe" not in (made.text("result") or "")
    assert genai.REDACTION_UNREAD not in made.attributes


def test_the_collector_counts_and_logs_a_failure_without_the_text(
    server: Detector, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stage = RedactStage(Policies(default=_policy(server.url)), load_or_create_keys(tmp_path))
    failures, unread = list[bool](), list[bool]()
    stage.on_detector_failure, stage.on_unread = lambda: failures.append(True), lambda: unread.append(True)
    server.answer = _redirect
    with caplog.at_level(logging.WARNING):
        for number in range(3):
            stage(_span(result=f"{NOTE} {number}"), "")
    assert (len(failures), len(unread)) == (3, 3)
    (logged,) = caplog.messages
    assert "status 302" in logged
    assert "Nightjar" not in logged


@pytest.mark.parametrize(
    ("entry", "fault"),
    [
        ('detector = "http://10.0.0.7/find"', "expected https, or http on this machine"),
        ('detector = "http://localhost.evil.org/find"', "expected https, or http on this machine"),
        ('detector = "ftp://127.0.0.1/find"', "expected https, or http on this machine"),
        ('detector = "https://user:word@acme.org/find"', "without a login"),
        ('detector = "http://127.0.0.1:x/find"', "Port could not be cast"),
        ('detector = "https://acme.org/find"\ntimeout_s = 60', "timeout_s: found 60"),
        ('detector = "https://acme.org/find"\non_error = "pass"', "expected one of replace, keep"),
        ('detector = "projects"\ntimeout_s = 2', "require a detector with an address"),
    ],
)
def test_a_wrong_address_or_option_is_refused(entry: str, fault: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_policy(f'name = "acme"\nversion = 1\n[[class]]\nname = "PROJECT"\n{entry}')
    assert fault in refused.value.message


def test_a_policy_with_an_address_is_its_text_and_options_change_its_hash() -> None:
    policies = [_policy("http://[::1]:9000/find", more) for more in ("", "timeout_s = 2", 'on_error = "keep"')]
    assert [parse_policy(policy.text) for policy in policies] == policies
    assert len({policy.hash for policy in policies}) == 3


def test_a_failure_does_not_show_the_query_of_an_address() -> None:
    assert "s3cret" not in DetectorFailedError("https://detector.corp.io/find?key=s3cret", "keep", "status 401").message
