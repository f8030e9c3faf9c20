"""``python -m freezeframe_collector.store DSN``: one request on stdin, its answer on stdout, both JSON; see `administration`.

For a store that no collector holds: a server, or the files of a collector that is stopped.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from freezeframe_collector.store import open_store
from freezeframe_collector.store.administration import administer
from freezeframe_schemas.errors import FreezeframeError


def main() -> int:
    """Carry out the request; 1 if it failed, with ``{"error": ...}``."""
    request: dict[str, Any] = json.load(sys.stdin)
    try:
        store = open_store(sys.argv[1])
        try:
            store.migrate()
            answer = administer(store, request)
        finally:
            store.close()
    except FreezeframeError as error:
        print(json.dumps({"error": str(error)}))
        return 1
    print(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main())
