"""The files that run a team desk: they can be read, hold no secret, and say what the server really has."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from carrel.buckets.settings import BucketSettings
from carrel.core.limits import FORCED_END_S
from tests.support.s3_servers import KEY_ID, SECRET, seaweed_server

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
KUBERNETES: dict[tuple[str, str], Any] = {
    (one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())
}


def lint(name: str, file: Path) -> tuple[int, str]:
    """Check a file with the published schemas of its format; return the exit code and what is wrong."""
    words = {
        "compose.yaml": ("check-jsonschema", "--builtin-schema", "vendor.compose-spec"),
        "kubernetes.yaml": ("kubernetes-validate", "--strict", "--quiet"),
    }
    program, *options = words[name]
    done = subprocess.run(
        [str(Path(sys.executable).parent / program), *options, str(file)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    found = done.stdout + done.stderr
    return done.returncode or int("WARN" in found), found  # an unknown kind is only a warning


@pytest.mark.slow
@pytest.mark.parametrize("name", ["compose.yaml", "kubernetes.yaml"])
def test_a_file_has_no_key_and_no_value_that_its_format_does_not_know(name: str) -> None:
    assert lint(name, DEPLOY / name)[0] == 0, lint(name, DEPLOY / name)[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("compose.yaml", "environment:", "enviroment:"),
        ("compose.yaml", "depends_on:", "depend_on:"),
        ("compose.yaml", "condition: service_healthy", "condition: healthy"),
        ("kubernetes.yaml", "readinessProbe:", "readinessProb:"),
        ("kubernetes.yaml", "replicas: 3", "replicas: three"),
        ("kubernetes.yaml", "containerPort: 8000", "port: 8000"),
        ("kubernetes.yaml", "kind: StatefulSet", "kind: Stateful"),
    ],
)
def test_a_broken_file_is_found(tmp_path: Path, name: str, right: str, wrong: str) -> None:
    text = (DEPLOY / name).read_text()
    assert right in text
    (tmp_path / name).write_text(text.replace(right, wrong))

    assert lint(name, tmp_path / name)[0] == 1


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
    [container] = KUBERNETES["Deployment", "carrel"]["spec"]["template"]["spec"]["containers"]
    [store] = [one for one in container["env"] if one["name"] == "CARREL_STORE_URL"]
    assert "secretKeyRef" in store["valueFrom"]
    assert "value" not in store


def test_kubernetes_asks_the_pages_for_balancers_and_keeps_replicas_up() -> None:
    deployment = KUBERNETES["Deployment", "carrel"]["spec"]
    pod = deployment["template"]["spec"]
    [container] = pod["containers"]

    assert deployment["replicas"] == 3
    assert container["readinessProbe"]["httpGet"]["path"] == "/-/ready"
    assert container["livenessProbe"]["httpGet"]["path"] == "/-/health"
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    labels = deployment["selector"]["matchLabels"]
    assert (
        deployment["template"]["metadata"]["labels"]
        == labels
        == KUBERNETES["Service", "carrel-replicas"]["spec"]["selector"]
    )
    assert KUBERNETES["PodDisruptionBudget", "carrel"]["spec"]["minAvailable"] < deployment["replicas"]


def test_kubernetes_runs_a_store_and_a_bucket_under_the_names_that_replicas_use() -> None:
    [container] = KUBERNETES["Deployment", "carrel"]["spec"]["template"]["spec"]["containers"]
    given = {one["name"]: one for one in container["env"]}
    text = (DEPLOY / "kubernetes.yaml").read_text()

    [s3] = KUBERNETES["Service", "s3"]["spec"]["ports"]
    assert given["AWS_ENDPOINT_URL"]["value"] == f"http://s3:{s3['port']}"
    assert "@postgres/carrel" in text
    assert KUBERNETES["Service", "postgres"]["spec"]["ports"][0]["port"] == 5432
    assert set(re.findall(r"key: ([\w-]+)}", text)) == set(re.findall(r"--from-literal=([\w-]+)=", text))


def environment_of(kind: str, name: str) -> dict[str, str]:
    """Return the environment of a pod's only container; what comes from a secret is in angle brackets."""
    [container] = KUBERNETES[kind, name]["spec"]["template"]["spec"]["containers"]
    return {one["name"]: one.get("value", f"<{one['name']}>") for one in container["env"]}


@pytest.mark.parametrize(
    "given",
    [environment_of("Deployment", "carrel"), COMPOSE["services"]["desk"]["environment"]],
    ids=["kubernetes", "compose"],
)
def test_a_replica_takes_the_address_of_its_s3_store(given: dict[str, str]) -> None:
    assert BucketSettings().endpoint_in(given) == "http://s3:8333"
    assert {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} <= set(given)


def identities(name: str) -> str:
    """Return the identities of the S3 store as its container gets them, with the keys of the tests."""
    if name == "compose":
        text = COMPOSE["configs"]["identities"]["content"]
        text = text.replace("${S3_KEY:?set it}", "$(S3_KEY)").replace("${S3_SECRET:?set it}", "$(S3_SECRET)")
    else:
        text = environment_of("StatefulSet", "s3")["IDENTITIES"]
    return str(text).replace("$(S3_KEY)", KEY_ID).replace("$(S3_SECRET)", SECRET)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["compose", "kubernetes"])
def test_the_s3_store_answers_only_signed_requests(tmp_path: Path, name: str) -> None:
    with seaweed_server(tmp_path, "team", identities(name)) as server:
        server.put("handbook.md", "text")

        assert server.list_unsigned() == 403
        assert server.keys() == ["handbook.md"]


def test_the_s3_store_reads_its_identities_from_the_file_that_it_gets() -> None:
    [container] = KUBERNETES["StatefulSet", "s3"]["spec"]["template"]["spec"]["containers"]
    service = COMPOSE["services"]["s3"]

    assert '"$IDENTITIES" > /tmp/s3.json && exec weed server -s3 -s3.config=/tmp/s3.json ' in container["args"][0]
    assert service["configs"] == [{"source": "identities", "target": "/etc/seaweedfs/s3.json"}]
    assert "-s3.config=/etc/seaweedfs/s3.json" in service["command"].split()


def test_only_the_desk_reaches_the_s3_store() -> None:
    policy = KUBERNETES["NetworkPolicy", "s3"]["spec"]

    assert policy == {
        "podSelector": {"matchLabels": KUBERNETES["Service", "s3"]["spec"]["selector"]},
        "policyTypes": ["Ingress"],
        "ingress": [
            {
                "from": [{"podSelector": KUBERNETES["Deployment", "carrel"]["spec"]["selector"]}],
                "ports": [{"port": "s3"}],
            }
        ],
    }


def test_a_replica_drains_after_the_balancer_has_forgotten_it() -> None:
    pod = KUBERNETES["Deployment", "carrel"]["spec"]["template"]["spec"]
    [container] = pod["containers"]
    sleeps_s = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    [asked_every_s] = re.findall(r"^resolver .* valid=(\d+)s;", (DEPLOY / "nginx.conf").read_text(), re.MULTILINE)

    assert sleeps_s >= int(asked_every_s) + container["readinessProbe"]["periodSeconds"]
    assert pod["terminationGracePeriodSeconds"] >= sleeps_s + FORCED_END_S


@pytest.mark.parametrize("name", ["carrel", "carrel-replicas", "postgres", "s3"])
def test_a_service_leads_to_a_port_of_its_pods_which_mount_what_exists(name: str) -> None:
    service = KUBERNETES["Service", name]["spec"]
    [owner] = [
        one["spec"]
        for (kind, _), one in KUBERNETES.items()
        if kind in ("Deployment", "StatefulSet") and one["spec"]["selector"]["matchLabels"] == service["selector"]
    ]
    pod = owner["template"]
    [container] = pod["spec"]["containers"]
    volumes = {one["name"] for one in pod["spec"].get("volumes", ())}
    volumes |= {one["metadata"]["name"] for one in owner.get("volumeClaimTemplates", ())}

    assert pod["metadata"]["labels"] == service["selector"]
    assert {one["targetPort"] for one in service["ports"]} <= {one["name"] for one in container["ports"]}
    assert {one["name"] for one in container.get("volumeMounts", ())} == volumes


def test_the_balancer_of_kubernetes_asks_all_replicas_with_the_same_rules() -> None:
    pod = KUBERNETES["Deployment", "carrel-balancer"]["spec"]["template"]
    [container] = pod["spec"]["containers"]
    given = {one["name"]: one.get("value", "") for one in container["env"]}
    replicas = KUBERNETES["Service", "carrel-replicas"]["spec"]

    assert KUBERNETES["Service", "carrel"]["spec"]["selector"] == pod["metadata"]["labels"]
    assert replicas["clusterIP"] == "None"  # the name has the address of every replica
    assert "server carrel-replicas.$(NAMESPACE).svc.cluster.local:8000 resolve" in given["CARREL_REPLICAS"]
    variables = set(re.findall(r"\$\{(\w+)\}", (DEPLOY / "nginx.conf").read_text())) - {"NGINX_LOCAL_RESOLVERS"}
    assert variables <= set(given)
    assert variables <= set(COMPOSE["services"]["balancer"]["environment"])
    assert given["NGINX_ENTRYPOINT_LOCAL_RESOLVERS"] == "1"


def test_the_container_runs_the_command_that_exists_as_a_plain_user() -> None:
    text = (DEPLOY / "Dockerfile").read_text()

    assert 'ENTRYPOINT ["carrel", "serve", "--http", "0.0.0.0:8000"]' in text
    assert "\nUSER carrel\n" in text
    assert "[team,outline]" in text


def test_the_balancer_passes_streams_on_as_they_come() -> None:
    text = (DEPLOY / "nginx.conf").read_text()

    assert "proxy_buffering off;" in text
    assert "proxy_set_header Host $http_host;" in text
