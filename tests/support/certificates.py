"""Certificates for tests of TLS: a separate authority, a server and a client."""

from __future__ import annotations

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Certificates:
    """PEM files of an authority, a server and a client."""

    authority: Path
    server: tuple[Path, Path]
    client: tuple[Path, Path]


def issue_certificates(directory: Path) -> Certificates:
    """Write the certificates of a new authority into `directory`: a server's for 127.0.0.1 and a client's, good for a day."""
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])

    def issue(name: str, key: ec.EllipticCurvePrivateKey, *, authority: bool) -> x509.Certificate:
        now = dt.datetime.now(dt.UTC)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        return (
            x509.CertificateBuilder()
            .subject_name(authority_name if authority else subject)
            .issuer_name(authority_name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=1))
            .not_valid_after(now + dt.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(address, critical=False)
            # Python 3.13 asks for both, and for an authority's use of its key.
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
            .add_extension(_usage(authority=authority), critical=True)
            .sign(authority_key, hashes.SHA256())
        )

    def write(name: str, key: ec.EllipticCurvePrivateKey, *, authority: bool = False) -> tuple[Path, Path]:
        certificate_file, key_file = directory / f"{name}.pem", directory / f"{name}.key"
        certificate_file.write_bytes(issue(name, key, authority=authority).public_bytes(serialization.Encoding.PEM))
        key_file.write_bytes(
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        )
        return certificate_file, key_file

    authority_file, _ = write("authority", authority_key, authority=True)
    server, client = (write(name, ec.generate_private_key(ec.SECP256R1())) for name in ("server", "client"))
    return Certificates(authority=authority_file, server=server, client=client)


def _usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )
