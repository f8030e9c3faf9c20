"""A server on loopback for what HTTP does besides answering: redirects, refusals, cuts, forms, cookies.

Every answer holds a number that is different from the one before, so that a replay that went live would be seen.
"""

from __future__ import annotations

import itertools
import json

from loopback import LoopbackProvider, QuietHandler


class HttpCases(LoopbackProvider):
    """The server; `seen` holds method, path, content type and body of each request, as they came."""

    def __init__(self) -> None:
        super().__init__(_Handler)
        self.seen: list[tuple[str, str, str, bytes]] = []
        self.numbers = itertools.count(1)

    @property
    def bodies(self) -> list[bytes]:
        """Requests sent, in order."""
        return [body for _, _, _, body in self.seen]


class _Handler(QuietHandler):
    provider: HttpCases

    def handle_any(self) -> None:
        body = self.read_body()
        path = self.path.partition("?")[0]
        self.provider.seen.append((self.command, path, self.headers.get("content-type", ""), body))
        number = next(self.provider.numbers)
        if path.startswith("/moved-"):  # /moved-308-307/end goes to /moved-307/end, and then to /end
            hops, _, rest = path.removeprefix("/moved-").partition("/")
            status, _, left = hops.partition("-")
            self._answer(b"", int(status), {"location": f"/moved-{left}/{rest}" if left else f"/{rest}"})
        elif path == "/flaky" and [asked for _, asked, _, _ in self.provider.seen].count(path) < 3:
            self._answer(b"busy %d" % number, 503, {"retry-after": "7"})
        elif path == "/cut-length":
            self._cut(b"", {"content-length": "100"}, b"%d: twenty bytes or so" % number)
        elif path == "/cut-chunked":
            self._cut(b"a\r\n0123456789\r\n28\r\n", {"transfer-encoding": "chunked"}, b"%d: twenty bytes or so" % number)
        elif path == "/cookie":
            names = sorted(pair.partition("=")[0].strip() for pair in self.headers.get("cookie", "").split(";") if pair.strip())
            self._answer(
                json.dumps({"number": number, "cookies": names}).encode(),
                cookies=(f"session=secret-{number}; Path=/; HttpOnly", "theme=dark-secret; Path=/"),
            )
        elif path == "/old":
            self.protocol_version = "HTTP/1.0"
            self.close_connection = True
            self._answer(b"%d" % number)
        elif path == "/model":
            self._answer(json.dumps({"object": "list", "number": number, "data": []}).encode())
        else:
            self._answer(json.dumps({"number": number, "path": path, "size": len(body)}).encode())

    do_GET = do_POST = do_PUT = do_HEAD = handle_any  # noqa: N815 - the base class's names

    def _answer(
        self, body: bytes, status: int = 200, headers: dict[str, str] | None = None, cookies: tuple[str, ...] = ()
    ) -> None:
        self.send_response(status)
        for name, value in {"content-type": "application/json", "content-length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        for cookie in cookies:
            self.send_header("set-cookie", cookie)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _cut(self, lead: bytes, headers: dict[str, str], body: bytes) -> None:
        self.send_response(200)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(lead + body)
        self.wfile.flush()
        self.close_connection = True
        self.connection.shutdown(2)
