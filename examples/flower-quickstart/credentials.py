"""Make what TLS and node authentication need: `python credentials.py credentials --nodes 3`.

ca.crt                          the authority that SuperNodes and `flwr` trust; its key is thrown away
server.pem, server.key          the SuperLink's certificate and key
node0, node0.pub, node1, ...    a pair of keys for each SuperNode; the public ones are registered with the SuperLink

For trying it out, and for tests. In production the keys of a node are made on that node and never leave it.
"""

from __future__ import annotations

import argparse
import datetime
import ipaddress
import os
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY = "Authority of the Enlist quickstart"


def make(folder: Path, nodes: int, hosts: list[str], days: int) -> None:
    """Write all files into a folder that holds none of them yet."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    authority, server = _key(), _key()
    may_sign: list[tuple[x509.ExtensionType, bool]] = [
        (x509.BasicConstraints(ca=True, path_length=0), True),
        (_usage(signs_certificates=True), True),
    ]
    may_serve: list[tuple[x509.ExtensionType, bool]] = [
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (_usage(signs_certificates=False), True),
        (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
        (x509.SubjectAlternativeName([_host(host) for host in hosts]), False),
    ]
    _write(folder / "ca.crt", _certificate(AUTHORITY, authority, authority, days, may_sign))
    _write(folder / "server.pem", _certificate(hosts[0], server, authority, days, may_serve))
    _write(folder / "server.key", _private(server, serialization.PrivateFormat.PKCS8))
    for node in range(nodes):
        key = _key()
        _write(folder / f"node{node}", _private(key, serialization.PrivateFormat.OpenSSH))
        public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
        _write(folder / f"node{node}.pub", public + b"\n")


def _key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP384R1())


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    authority: ec.EllipticCurvePrivateKey,
    days: int,
    extensions: list[tuple[x509.ExtensionType, bool]],
) -> bytes:
    """Signed by the authority; each extension comes with whether it is critical."""
    start = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=5)  # clocks differ
    builder = x509.CertificateBuilder(_name(AUTHORITY), _name(name), key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(start).not_valid_after(start + datetime.timedelta(days=days))
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key())
    builder = builder.add_extension(issuer, critical=False)
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical)
    return builder.sign(authority, hashes.SHA384()).public_bytes(serialization.Encoding.PEM)


def _usage(signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates, key_cert_sign=signs_certificates, crl_sign=signs_certificates,
        content_commitment=False, key_encipherment=False, data_encipherment=False, key_agreement=False,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _private(key: ec.EllipticCurvePrivateKey, form: serialization.PrivateFormat) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def _write(path: Path, content: bytes) -> None:
    """Readable by nobody else; a file that exists is not replaced, because nodes may be using it."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode=0o600), "wb") as file:
        file.write(content)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Certificates for a SuperLink and keys for its SuperNodes.")
    parser.add_argument("folder", type=Path, help="where to write them")
    parser.add_argument("--nodes", type=int, default=3, help="how many SuperNodes")
    parser.add_argument("--host", nargs="+", default=["127.0.0.1", "localhost"], help="names and IPs of the SuperLink")
    parser.add_argument("--days", type=int, default=30, help="how long the certificates are valid")
    given = parser.parse_args()
    try:
        make(given.folder, given.nodes, given.host, given.days)
    except FileExistsError as error:
        parser.error(f"{error.filename} exists; name another folder, or remove that one.")
    print(f"wrote ca.crt, server.pem, server.key and the keys of {given.nodes} nodes to {given.folder}")


if __name__ == "__main__":
    main()
