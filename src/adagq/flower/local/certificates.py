"""What TLS and node authentication need: an authority, the SuperLink's certificate, a key pair for every node.

`adagq deploy keys` makes them for several machines, `deploy local --tls` for one. The authority's own key is not kept:
nobody can sign with it later, and new certificates come with a new authority.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

VALID_DAYS: Final = 30
OWN: Final = ("localhost", "127.0.0.1")  # by which the SuperLink's own programs reach it, wherever it listens


@dataclass(frozen=True)
class Certificates:
    """Files in one folder that only its owner reads."""

    folder: Path

    @property
    def authority(self) -> Path:
        return self.folder / "ca.crt"

    def create(self, *hosts: str, days: int = VALID_DAYS) -> None:
        """Make an authority and a certificate for these names or addresses of the SuperLink."""
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)

        def name(text: str) -> x509.Name:
            return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

        def certificate(subject: x509.Name, key: Any) -> x509.CertificateBuilder:
            now = datetime.now(UTC)
            return (
                x509.CertificateBuilder()
                .subject_name(subject)
                .issuer_name(issuer)
                .public_key(key.public_key())
                .serial_number(x509.random_serial_number())
                .not_valid_before(now - timedelta(hours=1))
                .not_valid_after(now + timedelta(days=days))
            )

        issuer = name("adagq authority")
        authority, server = ec.generate_private_key(ec.SECP384R1()), ec.generate_private_key(ec.SECP384R1())
        usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        signed = (
            certificate(issuer, authority)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(authority.public_key()), critical=False)
            .sign(authority, hashes.SHA384())
        )
        _write(self.authority, _pem(signed))
        signed = (
            certificate(name(hosts[0]), server)
            .add_extension(x509.SubjectAlternativeName(_names([*hosts, *OWN])), False)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()), critical=False)
            .sign(authority, hashes.SHA384())
        )
        _write(self.folder / "server.crt", _pem(signed))
        _write(self.folder / "server.key", _private(server, "PKCS8"))

    def node_key(self, number: int) -> Path:
        """Return the private key of a node, made when first asked for; the public one is beside it as `.pub`."""
        path = self.folder / f"node-{number}"
        if not path.exists():
            from cryptography.hazmat.primitives.asymmetric import ec
            from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

            key = ec.generate_private_key(ec.SECP384R1())
            public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
            _write(path.with_suffix(".pub"), public + b"\n")
            _write(path, _private(key, "OpenSSH"))
        return path

    def superlink_flags(self) -> list[str]:
        files = {"ca-certfile": "ca.crt", "certfile": "server.crt", "keyfile": "server.key"}
        flags = [part for flag, file in files.items() for part in (f"--ssl-{flag}", str(self.folder / file))]
        return [*flags, "--enable-supernode-auth"]

    def supernode_flags(self, number: int) -> list[str]:
        key = self.node_key(number)
        return ["--root-certificates", str(self.authority), "--auth-supernode-private-key", str(key)]


def _names(hosts: list[str]) -> list[Any]:
    """Return hosts as a certificate holds them: addresses as addresses, names as names."""
    from cryptography import x509

    names: list[Any] = []
    for host in dict.fromkeys(hosts):
        try:
            names.append(x509.IPAddress(ip_address(host)))
        except ValueError:
            names.append(x509.DNSName(host))
    return names


def _pem(certificate: Any) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    data: bytes = certificate.public_bytes(Encoding.PEM)
    return data


def _private(key: Any, form: str) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    data: bytes = key.private_bytes(Encoding.PEM, getattr(PrivateFormat, form), NoEncryption())
    return data


def _write(path: Path, data: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(data)
