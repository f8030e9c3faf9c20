"""What a configuration's values do not show: whether the files and the directory that it names are what they are to be.

The start finds the same faults, one after the other; ``--check`` names all of them at once. Nothing is opened but these files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from freezeframe_collector.auth import Authenticator
from freezeframe_collector.config import CollectorConfig
from freezeframe_collector.files import directory_fault
from freezeframe_collector.tls import http_context
from freezeframe_redaction.policy import load_policy
from freezeframe_schemas.errors import ConfigError


def file_faults(config: CollectorConfig) -> Iterator[str]:
    """Yield a line or more for each that has faults: the data directory, the policy, the tokens, the certificates.

    A file that is not there is left out: the configuration's own check has named it.
    """
    if fault := directory_fault(config.data_directory):
        yield f"service.data: {config.data_directory}: {fault}"
    looks: tuple[Callable[[], object], ...] = (
        lambda: load_policy(config.redaction.policy),
        lambda: Authenticator(config.tokens_path if config.tokens_path and config.tokens_path.exists() else None),
        lambda: http_context(config.tls),
    )
    for look in looks:
        try:
            look()
        except FileNotFoundError:
            continue
        except (ConfigError, OSError) as error:
            yield str(error)
