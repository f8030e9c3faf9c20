"""Count what it costs to start a service: the modules that it imports, and bytecode instructions to make it of them.

python tests/costs/start_costs.py      prints the counts as one JSON object
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

COUNTED: Final = Path(__file__).parent / "counted_process"
SERVICES: Final = {
    "collector": (
        "from freezeframe_collector.service import Service\n"
        "from freezeframe_collector.settings.config_file import load_config\n",
        "Service(load_config(None, {}, {'service.data': 'data', 'grpc.port': 0, 'http.port': 0, 'clickhouse.port': 0}))\n",
    ),
    "pages": (
        "from pathlib import Path\n"
        "from freezeframe_replay.service.app import make_app\n"
        "from freezeframe_replay.local.home import Home\n",
        "make_app(Home(directory=Path('data').resolve()))\n",
    ),
}
"""Service -> what it imports, and what makes it. Calls of the first are not counted: most of them compile patterns, and 3 % of
them are more than ten milliseconds."""


def main() -> None:
    """Print the counts."""
    print(json.dumps({f"start.{name}": counted(*parts) for name, parts in SERVICES.items()}))


def counted(imports: str, make: str) -> dict[str, int]:
    """Return the counts of a service: the first start has compiled its modules, and its patterns."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "data").mkdir(mode=0o700)
        run(folder, imports + make, {})
        imported = run(folder, imports, {})
        made = run(folder, f"{imports}import sys\nsys.count_from_here()\n{make}", {"COUNT_INSTRUCTIONS": "marked"})
    return {"modules": imported["modules"], **made}


def run(folder: str, program: str, more: dict[str, str]) -> dict[str, int]:
    """Run a program in the folder; return what it counted.

    Raises:
        RuntimeError: it fails.
    """
    with tempfile.TemporaryDirectory() as counts:
        ours = {"PYTHONPATH": str(COUNTED), "COUNT_PROCESSES_INTO": counts}
        environ = {**os.environ, **ours, **more}
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=400, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr[-2000:])
        [file] = Path(counts).iterdir()
        return json.loads(file.read_text())


if __name__ == "__main__":
    main()
