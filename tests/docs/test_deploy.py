"""The files in `deploy/` are accepted by the programs that they are for, as far as that can be tried here."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from freezeframe_collector.__main__ import main
from freezeframe_collector.settings.config_file import ENVIRONMENT_PREFIX, load_config

DEPLOY = Path(__file__).parents[2] / "deploy"


def test_the_servers_configuration_has_no_faults(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With its data where every user may write."""
    text = (DEPLOY / "collector.toml").read_text()
    assert "/var/lib" in text
    file = tmp_path / "collector.toml"
    file.write_text(text.replace("/var/lib", str(tmp_path)))
    assert main(["--config", str(file), "--check"]) == 0
    assert "is valid" in capsys.readouterr().out


def test_what_is_commented_out_in_it_is_known_too(tmp_path: Path) -> None:
    """Its files are missing, and nothing else is wrong with it."""
    text = re.sub(r"^# (\w+ = )", r"\1", (DEPLOY / "collector.toml").read_text(), flags=re.MULTILINE)
    for key in re.findall(r'= "(/etc/freezeframe/[\w.]+)"', text):
        (tmp_path / Path(key).name).write_text("")
    file = tmp_path / "collector.toml"
    file.write_text(text.replace("/etc/freezeframe", str(tmp_path)))
    config = load_config(file, {})
    assert config.auth.tokens_file
    assert config.tls.cert_file


def test_the_containers_variables_are_settings() -> None:
    """A variable that names no setting is a fault, so the container would not start."""
    pairs = re.findall(rf"({ENVIRONMENT_PREFIX}\w+)=(\S+)", (DEPLOY / "Dockerfile").read_text())
    assert load_config(None, dict(pairs)).service.data == "/data"


def test_the_unit_stops_the_collector_later_than_it_stops_itself() -> None:
    unit = (DEPLOY / "freezeframe-collector.service").read_text()
    stop_s = int(re.findall(r"TimeoutStopSec=(\d+)", unit)[0])
    assert stop_s > load_config(DEPLOY / "collector.toml", {}).service.shutdown_s


def test_the_pods_configuration_has_no_faults_and_its_probes_are_pages(tmp_path: Path) -> None:
    """The pod's file is read with the image's variables; it listens where the probes ask, and its grace is long enough."""
    yaml = pytest.importorskip("yaml")
    kinds = {item["kind"]: item for item in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())}
    pod = kinds["StatefulSet"]["spec"]["template"]["spec"]
    [container] = pod["containers"]
    tokens = tmp_path / "tokens.toml"
    tokens.write_text(f'[tokens]\nacme = "sha256:{"0" * 64}"\n')
    text = kinds["ConfigMap"]["data"]["collector.toml"]
    file = tmp_path / "collector.toml"
    file.write_text(text.replace("/etc/freezeframe-tokens", str(tmp_path)))
    image = dict(re.findall(rf"({ENVIRONMENT_PREFIX}\w+)=(\S+)", (DEPLOY / "Dockerfile").read_text()))
    pairs = image | {pair["name"]: pair["value"] for pair in container["env"]}
    config = load_config(file, pairs)
    assert (config.grpc.host, config.http.host, config.clickhouse.host) == ("0.0.0.0", "0.0.0.0", "127.0.0.1")
    assert config.auth.tokens_file == str(tokens)
    assert pod["terminationGracePeriodSeconds"] > config.service.shutdown_s
    assert {port["containerPort"] for port in container["ports"]} == {config.grpc.port, config.http.port}
    probes = {name: container[name]["httpGet"]["path"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert probes == {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/healthz"}
    assert config.service.data in {mount["mountPath"] for mount in container["volumeMounts"]}


def test_the_tokens_recipe_makes_a_file_that_is_read(tmp_path: Path) -> None:
    """The shell lines of `deploy/README.md`, run unchanged."""
    import subprocess

    from freezeframe_collector.settings.auth import Authenticator

    block = re.search(r"```\n(token=.*?)```", (DEPLOY / "README.md").read_text(), flags=re.DOTALL)
    assert block is not None
    script = block[1].replace("$(openssl rand -hex 24)", "s3cret") + '\nprintf %s "$token" > token'
    subprocess.run(["sh", "-c", script], cwd=tmp_path, check=True)
    assert tomllib.loads((tmp_path / "tokens.toml").read_text())["tokens"]["acme"].startswith("sha256:")
    assert Authenticator(tmp_path / "tokens.toml").tenant_of("Bearer s3cret") == "acme"
