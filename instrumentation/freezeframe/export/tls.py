"""TLS to the collector: trusted authorities and our own certificate.

Files are read at each connection because they may be renewed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from freezeframe_schemas.errors import ConfigError

if TYPE_CHECKING:
    import ssl


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """PEM files; None to use the system's authorities and present no certificate."""

    authorities: str | None = None
    """Authorities for the collector's certificate, in place of the system's."""
    certificate: str | None = None
    """Our certificate, for a collector that asks for one."""
    key: str | None = None
    """The key of `certificate`; None if it is in the same file."""

    def check(self) -> None:
        """Read the files once, before anything waits for them.

        Raises:
            ConfigError: one cannot be read, or they are not certificates and a key.
        """
        if self.key and not self.certificate:
            raise ConfigError("client_key requires client_certificate", do="set both, or neither")
        try:
            self.context()
        except OSError as error:  # ssl.SSLError is an OSError
            named = ", ".join(name for name in (self.authorities, self.certificate, self.key) if name)
            reason = error.strerror or type(error).__name__
            raise ConfigError(
                f"certificate, client_certificate, client_key: {named}: {reason}", do="name PEM files that belong together"
            ) from None

    def context(self) -> ssl.SSLContext:
        """Return the context of an HTTPS connection.

        Raises:
            OSError: a file cannot be read, or is not a certificate or key.
        """
        import ssl

        context = ssl.create_default_context(cafile=self.authorities)
        if self.certificate:
            # OpenSSL would ask for a password on the terminal of the user's program.
            context.load_cert_chain(self.certificate, self.key, password=b"")
        return context

    def channel_credentials(self) -> Any:
        """Return the credentials of a gRPC channel.

        Raises:
            OSError: a file cannot be read.
        """
        import grpc

        return grpc.ssl_channel_credentials(
            root_certificates=_read(self.authorities),
            private_key=_read(self.key or self.certificate),
            certificate_chain=_read(self.certificate),
        )


def _read(name: str | None) -> bytes | None:
    return Path(name).read_bytes() if name else None
