"""The files that run a team desk: they can be read, hold no secret, and say what the server really has."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
KUBERNETES: dict[str, Any] = {one["kind"]: one for one in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())}


def test_compose_runs_three_replicas_a_store_a_bucket_and_a_balancer() -> None:
    services = COMPOSE["services"]

    assert set(services) == {"desk", "postgres", "s3", "balancer"}
    assert services["desk"]["deploy"]["replicas"] == 3
    assert services["desk"]["depends_on"]["postgres"]["condition"] == "service_healthy"
    assert set(COMPOSE["volumes"]) == {"records", "documents"}


@pytest.mark.parametrize("name", COMPOSE["services"])
def test_images_are_pinned_and_places_exist(name: str) -> None:
    service = COMPOSE["services"][name]
    if "image" in service:
        assert re.fullmatch(r"[\w./-]+:[\w.-]*\d[\w.-]*", service["image"])
    else:
        assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).is_file()
    for volume in service.get("volumes", ()):
        place = volume.partition(":")[0]
        assert place in COMPOSE["volumes"] or (DEPLOY / place).is_file()


def test_no_file_holds_a_secret() -> None:
    for service in COMPOSE["services"].values():
        for key, value in service.get("environment", {}).items():
            if re.search("PASSWORD|SECRET|KEY|URL", key):
                assert "${" in value or "@" not in value
    [container] = KUBERNETES["Deployment"]["spec"]["template"]["spec"]["containers"]
    [store] = [one for one in container["env"] if one["name"] == "CARREL_STORE_URL"]
    assert "secretKeyRef" in store["valueFrom"]
    assert "value" not in store


def test_kubernetes_asks_the_pages_for_balancers_and_keeps_replicas_up() -> None:
    deployment = KUBERNETES["Deployment"]["spec"]
    pod = deployment["template"]["spec"]
    [container] = pod["containers"]

    assert deployment["replicas"] == 3
    assert container["readinessProbe"]["httpGet"]["path"] == "/-/ready"
    assert container["livenessProbe"]["httpGet"]["path"] == "/-/health"
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    labels = deployment["selector"]["matchLabels"]
    assert deployment["template"]["metadata"]["labels"] == labels == KUBERNETES["Service"]["spec"]["selector"]
    assert KUBERNETES["PodDisruptionBudget"]["spec"]["minAvailable"] < deployment["replicas"]


def test_the_container_runs_the_command_that_exists_as_a_plain_user() -> None:
    text = (DEPLOY / "Dockerfile").read_text()

    assert 'ENTRYPOINT ["carrel", "serve", "--http", "0.0.0.0:8000"]' in text
    assert "\nUSER carrel\n" in text
    assert "[team,outline]" in text


def test_the_balancer_passes_streams_on_as_they_come() -> None:
    text = (DEPLOY / "nginx.conf").read_text()

    assert "proxy_buffering off;" in text
    assert "proxy_set_header Host $http_host;" in text
    assert text.count("{") == text.count("}")
