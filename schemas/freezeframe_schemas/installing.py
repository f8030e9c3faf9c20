"""The command that adds an extra to this copy of freezeframe.

No package index has it, so its bare name would install something else.
"""

from __future__ import annotations

import json
import shlex
from typing import Any
from urllib.parse import unquote, urlsplit


def install_command(*extras: str, direct_url: str | None = None) -> str:
    """Return the command that installs the extras of this copy, from where it was installed.

    Args:
        extras: names of extras.
        direct_url: the record of the installation (default: of this one).

    Source: https://packaging.python.org/en/latest/specifications/direct-url/
    """
    from importlib import metadata

    version = ""
    try:
        found = metadata.distribution("freezeframe")
        version, direct_url = found.version, direct_url or found.read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        pass  # a checkout that is on the path
    named = ",".join(extras)
    try:
        origin: Any = json.loads(direct_url or "")
        url = urlsplit(origin["url"].strip())
    except (ValueError, KeyError, TypeError, AttributeError):
        wheel = f"./freezeframe-{version or 'VERSION'}-py3-none-any.whl"
        return f"pip install '{wheel}[{named}]', with the path of the wheel that you installed"
    if url.scheme != "file":
        vcs: Any = origin.get("vcs_info") or {}
        commit = f"@{vcs['commit_id']}" if "commit_id" in vcs else ""
        form = f"{vcs['vcs']}+" if "vcs" in vcs else ""
        return f"pip install {shlex.quote(f'freezeframe[{named}] @ {form}{url.geturl()}{commit}')}"
    is_editable = (origin.get("dir_info") or {}).get("editable")
    return f"pip install {'-e ' if is_editable else ''}{shlex.quote(f'{unquote(url.path)}[{named}]')}"
