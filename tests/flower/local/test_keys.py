"""`adagq deploy keys`, and the files under deploy/ that use what it makes."""

import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key
from typer.testing import CliRunner

from adagq.cli import app
from adagq.core.errors import ConfigError
from adagq.flower.local.keys import make_keys

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"


def test_every_machine_gets_its_own_files_and_nobody_elses(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    words = ["deploy", "keys", str(folder), "--host", "fl.example.org", "--host", "192.0.2.1", "--nodes", "2"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    places = {path.name: {file.name for file in path.iterdir()} for path in folder.iterdir()}
    server = {"ca.crt", "server.crt", "server.key", "node-0.pub", "node-1.pub", "config.toml"}
    assert places == {"server": server, "node-0": {"ca.crt", "node-key"}, "node-1": {"ca.crt", "node-key"}}
    for path in folder.rglob("*"):
        private = path.is_dir() or path.suffix == ".key" or path.name == "node-key"
        assert not private or not path.stat().st_mode & 0o077, path
    authority, certificate = (
        x509.load_pem_x509_certificate((folder / "server" / name).read_bytes()) for name in ("ca.crt", "server.crt")
    )
    certificate.verify_directly_issued_by(authority)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["fl.example.org", "localhost"]
    assert [str(one) for one in names.get_values_for_type(x509.IPAddress)] == ["192.0.2.1", "127.0.0.1"]
    for number in range(2):
        key = load_ssh_private_key((folder / f"node-{number}" / "node-key").read_bytes(), None)
        public = load_ssh_public_key((folder / "server" / f"node-{number}.pub").read_bytes())
        assert key.public_key() == public
    assert 'address = "fl.example.org:8000"' in (folder / "server" / "config.toml").read_text("utf-8")


def test_keys_in_use_are_never_overwritten(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="never overwritten"):
        make_keys(tmp_path, ["fl.example.org"], 1, 1, 8000)
    with pytest.raises(ConfigError, match="at least one name"):
        make_keys(tmp_path / "keys", [], 1, 1, 8000)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze on this machine")
@pytest.mark.parametrize("name", ["adagq-superlink", "adagq-node"])
def test_the_units_are_systemds(name: str, tmp_path: Path) -> None:
    """Programs of another machine are replaced by one that is here: only the rest is looked at."""
    text = (DEPLOY / "systemd" / f"{name}.service").read_text("utf-8")
    for program in ("flower-superlink", "adagq"):
        text = text.replace(f"ExecStart=/opt/adagq/bin/{program}", "ExecStart=/bin/true")
    unit = tmp_path / f"{name}.service"
    unit.write_text(text.replace("User=adagq", "User=root"), "utf-8")
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, timeout=60)
    assert unit.name not in done.stderr, done.stderr
