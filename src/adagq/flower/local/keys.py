"""`adagq deploy keys`: certificates and node keys for several machines, sorted by where they belong.

FOLDER/server/   ca.crt, server.crt, server.key, node-*.pub, config.toml (for `flwr`)
FOLDER/node-0/   ca.crt, node-key
FOLDER/node-1/   …
"""

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from adagq.core.errors import ConfigError
from adagq.flower.local.certificates import Certificates

CONNECTION = "adagq"  # the SuperLink's name in Flower's configuration


def make_keys(folder: Path, hosts: Sequence[str], nodes: int, days: int, port: int) -> list[str]:
    """Make the files; return in lines what goes where. A folder that is there already is left alone."""
    if folder.exists():
        raise ConfigError(f"{folder} is there already: keys in use are never overwritten; name a new folder")
    if not hosts or not all(hosts):
        raise ConfigError("--host: name at least one name or address of the SuperLink")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".adagq-keys-") as draft:
        whole = Path(draft) / "keys"
        _make(whole, hosts, nodes, days, f"{hosts[0]}:{port}", folder.absolute() / "server" / "ca.crt")
        whole.rename(folder)
    return [
        f"{folder / 'server'}: for the SuperLink and its operator ({', '.join(hosts)}, valid for {days} days)",
        *(f"{folder / f'node-{number}'}: for node {number} alone" for number in range(nodes)),
        "Copy every node's folder to its machine over a secure way, then delete it here.",
    ]


def _make(folder: Path, hosts: Sequence[str], nodes: int, days: int, address: str, authority: Path) -> None:
    folder.mkdir(mode=0o700)
    server = Certificates(folder / "server")
    server.create(*hosts, days=days)
    for number in range(nodes):
        key, place = server.node_key(number), folder / f"node-{number}"
        place.mkdir(mode=0o700)
        key.rename(place / "node-key")
        shutil.copy2(server.authority, place / "ca.crt")
    text = f'[superlink.{CONNECTION}]\naddress = "{address}"\nroot-certificates = "{authority}"\n'
    (folder / "server" / "config.toml").write_text(text, "utf-8")
