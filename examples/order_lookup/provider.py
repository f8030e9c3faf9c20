"""A local model provider that speaks the real wire of OpenAI and Anthropic, sync and streamed.

    python provider.py --port 0                      # prints {"OPENAI_BASE_URL": ..., "ANTHROPIC_BASE_URL": ...}
    python provider.py --port 0 --model packaged     # a real small model writes the answers (extra `model`)

`POST /v1/chat/completions`, `POST /v1/embeddings` (OpenAI) and `POST /v1/messages` (Anthropic), with the ids,
fingerprints, usage, headers and error shapes of the real ones. Nothing about an answer is repeatable: ids and
wording are random, and a stream is cut at random places, in tokens and in bytes, so that only a byte-exact
recording can return the same answer twice. It must keep no state between two requests.
"""

import argparse
import asyncio
import contextlib
import json

from aiohttp import web
from aiohttp.typedefs import Handler
from answers import ANTHROPIC, MODEL, RANDOM, WIRES, RequestRefused, answer
from model import RuleModel, Writer


@web.middleware
async def _refusals(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse in the error format of the wire that the request used."""
    request_id = f"req_{RANDOM.getrandbits(128):032x}"
    try:
        return await handler(request)
    except RequestRefused as refused:
        no = refused
    except web.HTTPException as http:
        no = RequestRefused(http.status, "invalid_request_error", f"Invalid URL ({request.method} {request.path})")
    if request.path == ANTHROPIC:
        error = {"type": "error", "error": {"type": no.kind, "message": no.message}, "request_id": request_id}
        return web.json_response(error, status=no.status, headers={"request-id": request_id})
    fields = {"message": no.message, "type": no.kind, "param": no.param, "code": no.code}
    return web.json_response({"error": fields}, status=no.status, headers={"x-request-id": request_id})


def make_application(model: RuleModel) -> web.Application:
    """Build the provider around a model."""
    application = web.Application(middlewares=[_refusals], client_max_size=32 * 1024**2)
    application[MODEL] = model
    for path in WIRES:
        application.router.add_post(path, answer)
    return application


async def serve(model: RuleModel, port: int) -> None:
    """Serve on loopback until cancelled; print the addresses as one JSON line once it listens."""
    runner = web.AppRunner(make_application(model), access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
        address = "http://{}:{}".format(*runner.addresses[0][:2])
        print(json.dumps({"OPENAI_BASE_URL": f"{address}/v1", "ANTHROPIC_BASE_URL": address}), flush=True)
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="A local provider that speaks OpenAI's and Anthropic's wire.")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one (default)")
    parser.add_argument(
        "--model",
        choices=("rules", "packaged"),
        default="rules",
        help="what writes the answers: rules with random wording, or a small real model on this machine",
    )
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        writer: Writer | None = None
        if options.model == "packaged":
            from packaged_model import PackagedModel

            writer = stack.enter_context(PackagedModel.start())
        stack.enter_context(contextlib.suppress(KeyboardInterrupt))
        asyncio.run(serve(RuleModel(writer), options.port))


if __name__ == "__main__":
    main()
