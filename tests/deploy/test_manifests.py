"""The files of deploy/ as an administrator uses them: valid, read-only, without rights."""

import re
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from benchmarks.replicas import MAIN, find_nginx
from tests.export.test_serving import KUBERNETES


@pytest.fixture
def manifests(root: Path) -> dict[str, Any]:
    text = (root / "deploy" / "kubernetes.yaml").read_text(encoding="utf-8")
    return {item["kind"]: item for item in yaml.safe_load_all(text)}


@pytest.fixture
def services(root: Path) -> dict[str, Any]:
    text = (root / "deploy" / "compose.yaml").read_text(encoding="utf-8")
    services: dict[str, Any] = yaml.safe_load(text)["services"]
    return services


def test_every_manifest_is_valid(manifests: dict[str, Any]) -> None:
    assert set(manifests) == {
        "Deployment",
        "Service",
        "Ingress",
        "HorizontalPodAutoscaler",
        "PodDisruptionBudget",
    }
    for manifest in manifests.values():
        kubernetes_validate.validate(manifest, KUBERNETES, strict=True)


def test_pods_have_no_rights_and_tell_their_health(manifests: dict[str, Any]) -> None:
    pod = manifests["Deployment"]["spec"]["template"]["spec"]
    [app] = pod["containers"]

    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not pod["automountServiceAccountToken"]
    assert app["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert app[probe]["httpGet"]["path"] == "/_stcore/health"
    assert [mount["mountPath"] for mount in app["volumeMounts"]] == ["/tmp"]


def test_the_manifests_mean_the_same_pods(manifests: dict[str, Any]) -> None:
    labels = manifests["Deployment"]["spec"]["template"]["metadata"]["labels"]

    assert manifests["Service"]["spec"]["selector"] == labels
    assert manifests["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    scaled = manifests["HorizontalPodAutoscaler"]["spec"]
    assert scaled["scaleTargetRef"]["name"] == manifests["Deployment"]["metadata"]["name"]
    assert scaled["minReplicas"] > manifests["PodDisruptionBudget"]["spec"]["minAvailable"]


def test_containers_have_no_rights(services: dict[str, Any]) -> None:
    for service in services.values():
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert set(service["deploy"]["resources"]["limits"]) == {"cpus", "memory", "pids"}
        assert re.search(r":\d+\.\d+\.\d+", service.get("image", ":0.0.0"))
    assert services["app"]["volumes"] == ["prices:/prices:ro"]
    assert services["app"]["deploy"]["replicas"] == 2


@pytest.mark.skipif(find_nginx() is None, reason="needs nginx")
def test_the_proxy_takes_its_configuration_and_has_limits(root: Path, tmp_path: Path) -> None:
    site = (root / "deploy" / "nginx.conf").read_text(encoding="utf-8")
    assert {"limit_conn", "limit_req", "client_header_timeout", "client_body_timeout"} <= {
        line.split()[0] for line in site.splitlines() if line.strip()
    }
    (tmp_path / "site.conf").write_text(site.replace("app:8501", "127.0.0.1:8501"))
    (tmp_path / "nginx.conf").write_text(MAIN.format(folder=tmp_path, user=""))
    command = [str(find_nginx()), "-t", "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf")]

    done = subprocess.run(command, capture_output=True, check=False, text=True, timeout=30)

    assert done.returncode == 0, done.stderr


def test_the_proxy_knows_the_port_of_the_app(root: Path) -> None:
    site = (root / "deploy" / "nginx.conf").read_text(encoding="utf-8")
    container = (root / "Dockerfile").read_text(encoding="utf-8")
    assert "server app:8501" in site
    assert "STREAMLIT_SERVER_PORT=8501" in container
