"""SessionAuthority: a certificate authority that one program trusts, for as long as it runs.

Its key is made in memory and never written. With it, our server answers a program that uses us as its https proxy.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
import tempfile
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.installing import install_command

if TYPE_CHECKING:
    from cryptography import x509

TRUST: Final = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "AWS_CA_BUNDLE")
"""Variables that name a file of authorities: OpenSSL, Go and httpx; requests; curl; Node; boto3."""
_LASTS: Final = dt.timedelta(days=30)


class SessionAuthority:
    """Makes a certificate for each host that the program calls. Safe to call from any thread.

    Raises:
        ConfigError: cryptography is not installed.
    """

    def __init__(self, folder: Path, others: bytes = b"") -> None:
        try:
            from cryptography.hazmat.primitives.asymmetric import ec
            from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
        except ImportError as error:
            raise ConfigError("--proxy needs the package cryptography", do=install_command("replay")) from error
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._leaf_key = ec.generate_private_key(ec.SECP256R1())
        self._leaf_pem = self._leaf_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        self._name = "freezeframe session"
        self._folder = folder
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._lock = threading.Lock()
        self.bundle = folder / "authorities.pem"
        """The file that a program trusts: this authority, and `others`."""
        self.bundle.write_bytes(self._certificate(self._name, is_authority=True) + others)

    def context_for(self, host: str) -> ssl.SSLContext:
        """Return the TLS context of a server that answers as the host."""
        with self._lock:
            if host not in self._contexts:
                file = self._folder / f"{len(self._contexts)}.pem"
                file.write_bytes(self._leaf_pem + self._certificate(host, is_authority=False))
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(file)
                context.set_alpn_protocols(["http/1.1"])
                self._contexts[host] = context
            return self._contexts[host]

    def _certificate(self, name: str, *, is_authority: bool) -> bytes:
        from cryptography import x509
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.serialization import Encoding
        from cryptography.x509.oid import ExtendedKeyUsageOID

        def named(text: str) -> x509.Name:
            return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text[:64])])

        key = self._key if is_authority else self._leaf_key
        begun = dt.datetime.now(dt.UTC) - dt.timedelta(days=1)
        made = (
            x509.CertificateBuilder(issuer_name=named(self._name), subject_name=named(name), public_key=key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begun)
            .not_valid_after(begun + _LASTS)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if is_authority:
            usage = dict.fromkeys(_USAGES, False) | {"key_cert_sign": True, "crl_sign": True}
            made = made.add_extension(x509.KeyUsage(**usage), critical=True)
        else:
            made = made.add_extension(x509.SubjectAlternativeName([_alternative(name)]), critical=False)
            made = made.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        return made.sign(self._key, SHA256()).public_bytes(Encoding.PEM)


_USAGES: Final = (
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
)


def _alternative(host: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host.encode("idna").decode())


@contextmanager
def session_authority(environment: Mapping[str, str] | None = None) -> Generator[SessionAuthority]:
    """Make an authority for as long as the block runs.

    Args:
        environment: of a program that also calls servers past us: its own authorities stay trusted. None trusts ours alone.

    Raises:
        ConfigError: cryptography is not installed.
    """
    others = b""
    if environment is not None:
        own = environment.get("SSL_CERT_FILE") or ssl.get_default_verify_paths().cafile
        others = Path(own).read_bytes() if own and Path(own).is_file() else b""
    with tempfile.TemporaryDirectory(prefix="freezeframe-") as folder:
        yield SessionAuthority(Path(folder), others)
