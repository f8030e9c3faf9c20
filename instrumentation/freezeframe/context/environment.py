"""The environment of the process: commit, packages, Python, time zone. Read once, on the exporter's thread."""

from __future__ import annotations

import fnmatch
import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import time
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from freezeframe._cleaning import clean_url
from freezeframe._guard import guard
from freezeframe_schemas import genai
from freezeframe_schemas.exchange import SECRET_REMOVED
from freezeframe_schemas.span import AttributeValue

if TYPE_CHECKING:
    from importlib.metadata import Distribution

    from freezeframe._config import Settings

_GIT_TIMEOUT_S: Final = 2.0
_SECRET_NAME: Final = re.compile(r"KEY|SECRET|TOKEN|PASSWORD|CREDENTIAL")

_PACKAGES: Final = (
    "freezeframe",
    "litellm", "langchain", "langchain-core", "langchain-openai", "langchain-anthropic", "langgraph", "llama-index-core",
    "openai-agents", "pydantic-ai-slim", "pydantic-ai", "pydantic", "crewai", "smolagents", "google-adk", "strands-agents",
    "mcp", "httpx", "httpx2", "requests", "aiohttp", "opentelemetry-sdk", "openinference-instrumentation", "openfeature-sdk",
    "tiktoken", "transformers", "numpy",
)  # fmt: skip
"""Distributions whose version a replay may depend on, next to the providers' SDKs."""

_VERSION: Final = re.compile(r"^Version:[ \t]*(\S+)", re.MULTILINE)

LOCK_FILES: Final = ("uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "pylock.toml", "requirements.txt")


def environment_attributes() -> dict[str, AttributeValue]:
    """Return the resource attributes of this process. Anything that cannot be determined is left out."""
    attributes: dict[str, AttributeValue] = {
        genai.RUNTIME_NAME: platform.python_implementation().lower(),
        genai.RUNTIME_VERSION: platform.python_version(),
        genai.TIMEZONE: time_zone(),
    }
    with guard("environment.packages"):
        versions = installed_versions()
        attributes[genai.PACKAGES] = json.dumps(versions)
        attributes[genai.LIBRARY_VERSION] = versions.get("freezeframe", "")
    with guard("environment.git"):
        attributes |= git_attributes(Path.cwd())
    with guard("environment.lock_file"):
        if locked := lock_file(Path.cwd()):
            attributes[genai.LOCK_FILE] = locked
    return attributes


def relevant_packages() -> tuple[str, ...]:
    """Return the distributions whose version a replay may depend on; those that are installed are recorded."""
    # On the exporter's thread: the package before its module, as a seam in the application's thread may import it right now.
    from freezeframe_schemas.wire import registry

    return (*_PACKAGES, *(package for row in registry.PROVIDERS for package in row.packages))


def installed_versions() -> dict[str, str]:
    """Return distribution -> version, for those of `relevant_packages` that are installed."""
    from importlib.metadata import PackageNotFoundError, distribution

    versions: dict[str, str] = {}
    for name in relevant_packages():
        try:
            versions[name] = version_of(distribution(name))
        except PackageNotFoundError:
            continue
    return versions


def version_of(installed: Distribution) -> str:
    """Return the version of a distribution: its property `version` parses all of the metadata, often with a whole README."""
    found = _VERSION.search(installed.read_text("METADATA") or "")
    return found[1] if found else installed.version


def lock_file(directory: Path) -> str | None:
    """Return name and hash of the nearest lock file, here or above, ``uv.lock sha256:0123456789abcdef``; None without one."""
    path = find_lock_file(directory)
    return None if path is None else f"{path.name} sha256:{hashlib.sha256(path.read_bytes()).hexdigest()[:16]}"


def find_lock_file(directory: Path) -> Path | None:
    """Return the nearest lock file, here or above, up to the repository's root; None without one."""
    for folder in (directory, *directory.parents):
        found = next((folder / name for name in LOCK_FILES if (folder / name).is_file()), None)
        if found is not None or (folder / ".git").exists():
            return found
    return None


def recorded_environment(patterns: tuple[str, ...]) -> dict[str, str]:
    """Return the environment variables whose names match a pattern; for secrets, only that they were set."""
    recorded: dict[str, str] = {}
    for name, value in os.environ.items():
        if _matches(name, patterns):
            recorded[name] = SECRET_REMOVED if _SECRET_NAME.search(name) else clean_url(value)
    return recorded


DATABASES_VARIABLE: Final = "FREEZEFRAME_RECORD_DATABASES"
FILES_VARIABLE: Final = "FREEZEFRAME_RECORD_FILES"


HASH_SEED_VARIABLE: Final = "PYTHONHASHSEED"


def is_hash_seed(text: object) -> bool:
    """Return whether a value of `HASH_SEED_VARIABLE` decides the order of sets: a number. With any other, Python draws one."""
    return isinstance(text, str) and text.isascii() and text.isdecimal() and len(text) <= 10 and int(text) < 2**32


def hash_seed() -> str | None:
    """Return the seed from which this process hashes texts, if it was set. Python does not reveal one that it drew."""
    seed = None if sys.flags.ignore_environment else os.environ.get(HASH_SEED_VARIABLE)
    return seed if is_hash_seed(seed) else None


def recorded_settings(settings: Settings) -> dict[str, str]:
    """Return the variables of a run's environment, and the settings of Python and freezeframe that a replay needs."""
    ours = {DATABASES_VARIABLE: settings.record_databases, FILES_VARIABLE: settings.record_files}
    recorded = {**recorded_environment(settings.record_env), **{name: "true" for name, is_on in ours.items() if is_on}}
    seed = hash_seed()
    return recorded if seed is None else {**recorded, HASH_SEED_VARIABLE: seed}


@lru_cache(maxsize=4096)
def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def time_zone() -> str:
    """Return the IANA name of the local time zone if it can be determined, else its abbreviation."""
    if named := os.environ.get("TZ", "").lstrip(":"):
        return named
    try:
        link = os.readlink("/etc/localtime")
    except OSError:
        return time.tzname[0]
    return link.partition("zoneinfo/")[2] or time.tzname[0]


def git_attributes(directory: Path) -> dict[str, AttributeValue]:
    """Return commit, branch, remote and dirty mark; deployments without git set ``GIT_COMMIT`` or similar."""
    root = next((path for path in (directory, *directory.parents) if (path / ".git").exists()), None)
    if root is None:
        named = next((os.environ[name] for name in _COMMIT_VARIABLES if os.environ.get(name)), None)
        return {genai.VCS_REVISION: named, genai.VCS_DIRTY: False} if named else {}
    found: dict[str, AttributeValue] = {}
    if revision := git_output(root, "rev-parse", "HEAD"):
        found[genai.VCS_REVISION] = revision
    if branch := git_output(root, "branch", "--show-current"):
        found[genai.VCS_BRANCH] = branch
    if remote := git_output(root, "config", "--get", "remote.origin.url"):
        found[genai.VCS_REPOSITORY] = remote.rpartition("@")[2] if "://" in remote else remote
    changed = git_output(root, "status", "--porcelain", "--untracked-files=no")
    if changed is not None:
        found[genai.VCS_DIRTY] = bool(changed)
    return found


def git_output(root: Path, *arguments: str) -> str | None:
    """Return git's output, or None if it fails or takes too long."""
    try:
        done = subprocess.run(
            ["git", "--no-optional-locks", *arguments],
            cwd=root,
            capture_output=True,
            text=True,
            timeout=_GIT_TIMEOUT_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


_COMMIT_VARIABLES: Final = (
    "GIT_COMMIT",
    "GITHUB_SHA",
    "CI_COMMIT_SHA",
    "SOURCE_VERSION",
    "COMMIT_SHA",
    "VERCEL_GIT_COMMIT_SHA",
)


def program_name() -> str:
    """Return a service name for a process without one."""
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    return Path(main).stem if main else "python"
