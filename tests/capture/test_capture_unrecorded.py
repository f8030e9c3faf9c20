"""What a replay will miss is said on the run; the requests that SDKs make to get a key are not part of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import requests
from capture_provider import Provider
from capture_replay import replaying
from clients.provider import Provider as Script
from clients.provider import recorded

import freezeframe
from freezeframe.seams.recorder import credentials
from freezeframe.testing import capture
from freezeframe_schemas import genai
from freezeframe_schemas.exchange import Request
from freezeframe_schemas.gaps import Gap, GapKind
from freezeframe_schemas.run import Run, build_run, readiness


def gaps(run: Run) -> list[Gap]:
    """Return the gaps of a run except this one: its entry point is nested in a test."""
    return [gap for gap in run.gaps if gap.kind is not GapKind.ENTRY_UNREACHABLE]


def test_http_that_is_not_recorded_is_named_on_its_run(provider: Provider) -> None:
    @freezeframe.tool
    def price(url: str) -> Any:
        return requests.get(f"{url}/inside", timeout=400).json()

    @freezeframe.run
    def agent() -> None:
        requests.get(f"{provider.url}/outside", timeout=400)
        requests.get(f"{provider.url}/outside", timeout=400)
        price(provider.url)

    with capture() as captured:
        agent()
        run = build_run(captured.spans)
    (gap,) = gaps(run)
    assert gap.text.startswith("2 HTTP calls to 127.0.0.1 were not recorded")
    assert readiness(replace(run, verified=True)).level < 6


def test_http_that_is_recorded_is_no_gap(provider: Provider) -> None:
    @freezeframe.run
    def agent() -> None:
        requests.get(f"{provider.url}/outside", timeout=400)

    with capture(record_hosts=["127.0.0.1"]) as captured:
        agent()
        run = build_run(captured.spans)
    assert gaps(run) == []
    assert genai.UNRECORDED_HTTP not in run.spans[0].attributes


class Metadata(BaseHTTPRequestHandler):
    """The container's credential endpoint."""

    asked = 0

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Keep quiet."""

    def do_GET(self) -> None:
        Metadata.asked += 1
        body = (
            b'{"AccessKeyId": "AKIAREAL", "SecretAccessKey": "real-secret", "Token": "t", "Expiration": "2099-01-01T00:00:00Z"}'
        )
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def metadata(monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Metadata)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"http://127.0.0.1:{server.server_address[1]}/creds")
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.long
def test_a_look_up_of_aws_credentials_is_neither_recorded_nor_missed(
    metadata: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    import boto3

    @freezeframe.run
    def agent(url: str) -> Any:
        client = boto3.Session().client("bedrock-runtime", endpoint_url=url, region_name="us-east-1")
        answer: Any = client.converse(modelId="amazon.nova-micro-v1:0", messages=[{"role": "user", "content": [{"text": "?"}]}])
        return answer["output"]

    with Script(recorded("49d5df348f856844")) as script:
        url = f"http://bedrock-runtime.us-east-1.amazonaws.com:{script.port}"
        with capture() as captured:
            first = agent(url)
            run = build_run(captured.spans)
    asked = Metadata.asked
    assert asked > 0
    assert [exchange.name for exchange in run.exchanges] == ["POST /model/amazon.nova-micro-v1%3A0/converse"]
    assert gaps(run) == []
    assert "AKIAREAL" not in repr(run)
    monkeypatch.delenv("AWS_CONTAINER_CREDENTIALS_FULL_URI")  # a machine without any AWS credentials
    with replaying(run.exchanges) as left:
        assert agent(url) == first
    assert left.left == []
    assert Metadata.asked == asked


LOOK_UPS = [
    ("PUT", "http://169.254.169.254/latest/api/token"),
    ("GET", "http://169.254.169.254/latest/meta-data/iam/security-credentials/"),
    ("GET", "http://169.254.169.254/latest/meta-data/iam/security-credentials/role-1"),
    ("GET", "http://169.254.170.2/v2/credentials/1"),
    ("POST", "https://sts.eu-west-1.amazonaws.com/"),
    ("GET", "https://portal.sso.eu-west-1.amazonaws.com/federation/credentials?role_name=r&account_id=1"),
    ("GET", "http://metadata.google.internal/computeMetadata/v1/instance/service-accounts/default/token"),
    ("POST", "https://oauth2.googleapis.com/token"),
    ("POST", "https://login.microsoftonline.com/tenant/oauth2/v2.0/token"),
]


@pytest.mark.parametrize(("method", "url"), LOOK_UPS)
def test_a_look_up_is_told_by_its_address(method: str, url: str) -> None:
    assert credentials.is_look_up(url)
    assert credentials.answer_of(Request(method=method, url=url)) is not None


@pytest.mark.parametrize("url", ["https://api.openai.com/v1/token", "http://169.254.169.254/latest/meta-data/instance-id"])
def test_what_is_no_look_up_is_left_alone(url: str) -> None:
    assert not credentials.is_look_up(url)


@pytest.mark.long
def test_the_real_sdk_reads_the_answer_of_sts() -> None:
    """As botocore parses it in a replay."""
    import boto3

    parsers: Any = pytest.importorskip("botocore.parsers")
    model: Any = (
        boto3.Session()
        .client("sts", region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b")
        .meta.service_model
    )
    request = Request(method="POST", url="https://sts.amazonaws.com/", body=b"Action=AssumeRole&RoleArn=a&RoleSessionName=s")
    found = credentials.answer_of(request)
    assert found is not None
    shape = model.operation_model("AssumeRole").output_shape
    answer = parsers.create_parser("query").parse({"status_code": 200, "headers": {}, "body": found[1]}, shape)
    assert answer["Credentials"]["Expiration"].year == 2099
    assert set(answer["Credentials"]) == {"AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration"}
