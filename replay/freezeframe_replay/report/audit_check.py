"""Check an audit export without freezeframe: `python check.py [FOLDER]`. Needs Python 3.8 or newer and nothing else.

Exit code 0: every line is unchanged, none is missing, added or moved. 1: otherwise; the first fault is named.
"""

import base64
import hashlib
import json
import os
import sys


def check(folder: str) -> "list[str]":
    """Return the checks made, one line each; raises ValueError with the first fault."""
    with open(os.path.join(folder, "seal.json"), "rb") as file:
        seal = json.loads(file.read())
    with open(os.path.join(folder, "record.jsonl"), "rb") as file:
        lines = file.read().splitlines()
    if len(lines) != seal["lines"]:
        raise ValueError(f"record.jsonl: found {len(lines)} lines, seal.json says {seal['lines']}")
    link, gaps = "", []
    for number, line in enumerate(lines, 1):
        entry = json.loads(line)
        if json.dumps(entry, sort_keys=True, separators=(",", ":")).encode() != line:
            raise ValueError(f"record.jsonl line {number}: not canonical JSON")
        if entry["previous"] != link:
            raise ValueError(f"record.jsonl line {number}: does not follow the line before it")
        gaps += entry.get("gaps", [])
        for part in ("request", "response"):
            if part in entry:
                body = base64.b64decode(entry[part]["body_base64"], validate=True)
                if hashlib.sha256(body).hexdigest() != entry[part]["sha256"]:
                    raise ValueError(f"record.jsonl line {number}: the {part} does not match its hash")
        link = hashlib.sha256(line).hexdigest()
    if link != seal["last"]:
        raise ValueError(f"record.jsonl: ends with {link}, seal.json says {seal['last']}")
    signed = "signed, see README.txt" if os.path.exists(os.path.join(folder, "seal.sig")) else "not signed"
    state = "as they were sealed and in order" if len(lines) > 1 else "as it was sealed; it made no calls"
    lacks = [f"the recording itself lacks: {gap}".encode("unicode_escape").decode() for gap in gaps]
    return [f"run {seal['run']}: {len(lines) - 1} exchanges, {state}", f"seal {link}, {signed}", *lacks]


if __name__ == "__main__":
    try:
        print("\n".join(check(sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__)))))
    except (ValueError, KeyError, TypeError, OSError) as error:
        sys.exit(f"NOT AS WRITTEN: {error}")
