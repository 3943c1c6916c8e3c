"""A certificate for a server of the tests."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


def make_certificate(folder: Path, address: str = "127.0.0.1") -> tuple[Path, Path]:
    """Make a certificate that signs itself; return its file, for those who are to trust it, and the file of its key."""
    key, day = generate_private_key(SECP256R1()), timedelta(days=1)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tests")])
    here = x509.SubjectAlternativeName([x509.IPAddress(ip_address(address))])
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, datetime.now(UTC) - day, datetime.now(UTC) + day)
    signed = made.add_extension(here, critical=False).sign(key, SHA256())
    certificate, private = folder / "certificate.pem", folder / "key.pem"
    certificate.write_bytes(signed.public_bytes(Encoding.PEM))
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return certificate, private
