"""Print the licence of each package of a CycloneDX file; exit 1 if one is a licence that asks more than notices.

python .ci/licences.py dist/freezeframe-VERSION.cdx.json
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

KNOWN = {"protobuf": "BSD-3-Clause"}
"""Packages whose own words the file does not carry, and what their licence file is."""
ASKS_MORE = re.compile(r"\b(A?GPL|LGPL|SSPL|BUSL|EUPL|CDDL|EPL)\b|General Public|Proprietary", re.IGNORECASE)


def licences_of(component: dict[str, Any]) -> Iterator[str]:
    """Yield the licences that a package declares, as expressions first."""
    for found in component.get("licenses", []):
        yield found.get("expression") or found["license"].get("id") or found["license"]["name"]


def main(path: Path) -> int:
    """Print the table; return the exit code."""
    parts = json.loads(path.read_text(encoding="utf-8"))["components"]
    rows = {f"{part['name']} {part['version']}": "; ".join(licences_of(part)) or KNOWN.get(part["name"], "") for part in parts}
    width = max(map(len, rows))
    print("\n".join(f"{name:{width}}  {licence or 'not declared'}" for name, licence in sorted(rows.items())))
    faults = [name for name, licence in rows.items() if not licence or ASKS_MORE.search(licence)]
    if faults:
        print(f"licences to look at: {', '.join(faults)}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
