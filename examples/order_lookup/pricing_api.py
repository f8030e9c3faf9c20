"""The shop's pricing API: `GET /prices/{sku}` on loopback, in the state of the world in `world.py`.

At "3pm" it is over its limit: it answers 429, announces a JSON body, sends half of it and hangs up.

    python pricing_api.py WORLD --port 0    # prints {"PRICING_URL": "http://127.0.0.1:..."}
"""

import argparse
import asyncio
import contextlib
import json
from pathlib import Path

import world
from aiohttp import web

WORLD = web.AppKey("world", Path)


async def price(request: web.Request) -> web.StreamResponse:
    """Answer with the price of an article."""
    directory, sku = request.app[WORLD], request.match_info["sku"]
    amount = world.price_of(directory, sku)
    if world.get_state(directory) == "3pm":
        return await half_an_answer(request)
    if amount is None:
        return web.json_response({"error": {"code": "unknown_sku", "sku": sku}}, status=404)
    return web.json_response({"sku": sku, "amount": amount, "currency": "EUR"})


async def half_an_answer(request: web.Request) -> web.StreamResponse:
    """Announce a body, send half of it, hang up."""
    error = {"code": "rate_limited", "message": "Too many price requests", "retry_after_s": 30}
    body = json.dumps({"error": error}).encode()
    response = web.StreamResponse(status=429, headers={"retry-after": "30"})
    response.content_type = "application/json"
    response.content_length = len(body)
    await response.prepare(request)
    await response.write(body[: len(body) // 2])
    if request.transport is not None:
        request.transport.close()  # flushes first, so the client gets the half that was written
    return response


async def serve(directory: Path, port: int) -> None:
    """Serve until cancelled; print the address as one JSON line once it listens."""
    application = web.Application()
    application[WORLD] = directory
    application.router.add_get("/prices/{sku}", price)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
        print(json.dumps({"PRICING_URL": "http://{}:{}".format(*runner.addresses[0][:2])}), flush=True)
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="The shop's pricing API.")
    parser.add_argument("world", type=Path, help="the directory that `world.py` keeps")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one (default)")
    options = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(options.world, options.port))


if __name__ == "__main__":
    main()
