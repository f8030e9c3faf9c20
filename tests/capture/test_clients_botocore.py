"""boto3's engine: Bedrock calls, plain, streamed as an eventstream, failing; recorded and served. Needs botocore."""

from __future__ import annotations

import binascii
import json
import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from capture_replay import replaying
from loopback import QuietHandler, listening

from freezeframe.seams import Call
from freezeframe.testing import capture
from freezeframe_schemas.errors import ReplayMiss

pytestmark = pytest.mark.long  # imports botocore, and its descriptions of services

botocore_session: Any = pytest.importorskip("botocore.session")
botocore_config: Any = pytest.importorskip("botocore.config")


def event(name: str, payload: dict[str, Any]) -> bytes:
    """Return one message of application/vnd.amazon.eventstream."""
    headers = b""
    for key, value in ((":event-type", name), (":content-type", "application/json"), (":message-type", "event")):
        headers += bytes([len(key)]) + key.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
    body = json.dumps(payload).encode()
    prelude = struct.pack(">II", 16 + len(headers) + len(body), len(headers))
    message = prelude + struct.pack(">I", binascii.crc32(prelude)) + headers + body
    return message + struct.pack(">I", binascii.crc32(message))


class Bedrock(QuietHandler):
    count = 0
    faults: list[str] = []  # noqa: RUF012 - set by each test
    asked: list[tuple[Any, dict[str, str]]] = []  # noqa: RUF012 - cleared by the test that reads it

    def do_POST(self) -> None:
        Bedrock.asked.append((json.loads(self.rfile.read(int(self.headers["content-length"]))), dict(self.headers)))
        Bedrock.count += 1
        fault = Bedrock.faults.pop(0) if Bedrock.faults else ""
        text = {"role": "assistant", "content": [{"text": f"answer {Bedrock.count}"}]}
        if fault == "throttled":
            self.answer(429, json.dumps({"message": "slow down"}).encode(), {"x-amzn-errortype": "ThrottlingException"})
        elif fault == "cut":
            self.send_response(200)
            self.send_header("content-length", "500")
            self.end_headers()
            self.wfile.write(b'{"output": ')
            self.close_connection = True
            self.connection.shutdown(2)
        elif self.path.endswith("converse-stream"):
            events = [event("messageStart", {"role": "assistant"})]
            events += [event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": f"w{i}"}}) for i in range(3)]
            events += [event("messageStop", {"stopReason": "end_turn"})]
            self.answer(200, b"".join(events), {"content-type": "application/vnd.amazon.eventstream"})
        else:
            usage = {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3}
            body = {"output": {"message": text}, "stopReason": "end_turn", "usage": usage, "metrics": {"latencyMs": 1}}
            self.answer(200, json.dumps(body).encode(), {"content-type": "application/json"})

    def answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "content-length": str(len(body)), "x-amzn-requestid": "r1"}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def bedrock() -> Iterator[str]:
    with listening(Bedrock) as url:
        yield url


def make_client(url: str) -> Any:
    return botocore_session.get_session().create_client(
        "bedrock-runtime",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="AKIASECRET",
        aws_secret_access_key="secret",
        config=botocore_config.Config(
            retries={"total_max_attempts": 2, "mode": "standard"}, connect_timeout=400, read_timeout=60
        ),
    )


MESSAGES = [{"role": "user", "content": [{"text": "hello"}]}]


def converse(url: str) -> Any:
    return make_client(url).converse(modelId="m", messages=MESSAGES)["output"]


def stream(url: str) -> Any:
    return list(make_client(url).converse_stream(modelId="m", messages=MESSAGES)["stream"])


def failing(url: str) -> Any:
    try:
        return make_client(url).converse(modelId="m", messages=MESSAGES)["output"]
    except Exception as error:
        return [type(error).__name__, getattr(error, "response", {}).get("Error")]


CASES: list[tuple[list[str], Callable[[str], Any], int]] = [
    ([], converse, 1),
    ([], stream, 1),
    (["throttled"], converse, 2),
    (["throttled", "throttled"], failing, 2),
    (["cut"], failing, 1),  # botocore takes a short body for a complete one
]


def no_pause(seconds: float) -> None:
    del seconds


@pytest.mark.proof("seam http.botocore")
@pytest.mark.parametrize(("faults", "client", "attempts"), CASES, ids=lambda value: getattr(value, "__name__", str(value)))
def test_bedrock_is_recorded_and_served(
    faults: list[str], client: Callable[[str], Any], attempts: int, bedrock: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", no_pause)  # the SDK's pause between attempts
    Bedrock.faults = list(faults)
    with capture(record_hosts=["*"]) as captured:
        first = client(bedrock)
        exchanges = captured.exchanges
    with replaying(exchanges) as recorded:
        before = Bedrock.count
        second = client(bedrock)
    assert first == second
    assert before == Bedrock.count
    assert len(exchanges) == attempts
    assert recorded.left == []
    assert "AKIASECRET" not in repr(exchanges)


def test_an_edit_is_in_a_request_before_it_is_signed_and_once_only(bedrock: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The edit is one that would go on growing, and the first attempt is refused: each attempt is made and signed anew."""
    signed: list[bytes] = []
    auth = pytest.importorskip("botocore.auth")
    add_auth = auth.SigV4Auth.add_auth

    def watched(self: Any, request: Any) -> None:
        signed.append(bytes(request.body))
        add_auth(self, request)

    def live(call: Call) -> None:
        del call

    monkeypatch.setattr(auth.SigV4Auth, "add_auth", watched)
    monkeypatch.setattr("time.sleep", no_pause)
    Bedrock.faults, Bedrock.asked = ["throttled"], []
    with replaying([], edit=lambda request: request.body.replace(b"hello", b"hello hello")) as recorded:
        monkeypatch.setattr(recorded, "respond", live)
        converse(bedrock)
    expected = {"messages": [{"role": "user", "content": [{"text": "hello hello"}]}]}
    assert [body for body, _ in Bedrock.asked] == [expected, expected]
    assert [json.loads(body) for body in signed] == [expected, expected]


def test_a_request_that_was_signed_elsewhere_is_never_sent_unedited(bedrock: str) -> None:
    request = pytest.importorskip("botocore.awsrequest").AWSRequest(
        "POST", f"{bedrock}/model/m/converse", data=b'{"a": "hello"}'
    )
    session = pytest.importorskip("botocore.httpsession").URLLib3Session()
    Bedrock.asked = []
    with (
        replaying([], edit=lambda request: request.body.replace(b"hello", b"bye")),
        pytest.raises(ReplayMiss, match="signed outside of a botocore client"),
    ):
        session.send(request.prepare())
    assert Bedrock.asked == []
