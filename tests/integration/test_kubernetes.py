"""deploy/kubernetes: against Kubernetes' published schemas, and against the containers that it
runs: their settings, secrets, ports and rights. No cluster is needed, and none is tested."""
import base64
import hashlib
import os
import pathlib
import re
import shutil
import subprocess

import pytest

yaml = pytest.importorskip("yaml", reason="python3-yaml is not installed (deploy/setup kubernetes)")
from service import ROOT  # noqa: E402

HERE = ROOT / "deploy" / "kubernetes"
CONTAINER = ROOT / "deploy" / "container"
FILES = ["redis.yaml", "coordinator.yaml", "worker.yaml", "network.yaml"]
VALIDATE = next(
    (str(p) for p in (os.environ.get("EVENSTEP_KUBERNETES_VALIDATE"),
                      ROOT / "run/kubernetes/bin/kubernetes-validate",
                      shutil.which("kubernetes-validate")) if p and pathlib.Path(p).exists()), None)
validated = (
    pytest.mark.skipif(not VALIDATE,
                       reason="kubernetes-validate is not installed (deploy/setup kubernetes)"))


def objects():
    return [o for f in FILES for o in yaml.safe_load_all((HERE / f).read_text())]


def workloads():
    return {o["metadata"]["name"]: o
            for o in objects() if o["kind"] in ("Deployment", "StatefulSet")}


def secrets():
    text = subprocess.run([HERE / "secrets"], check=True, capture_output=True, text=True).stdout
    return text, {
        o["metadata"]["name"]: {k: base64.b64decode(v).decode() for k, v in o["data"].items()}
        for o in yaml.safe_load_all(text)}


def validate(path, version):
    done = subprocess.run([VALIDATE, "--strict", "-k", version, path], capture_output=True,
                          text=True)
    return done.returncode, done.stdout + done.stderr


@validated
@pytest.mark.parametrize("version", ["1.29", "1.33", "1.36"])
def test_the_manifests_are_as_the_published_schemas_want_them(version, tmp_path):
    (tmp_path / "secrets.yaml").write_text(secrets()[0])
    for path in [*(HERE / f for f in FILES), tmp_path / "secrets.yaml"]:
        code, said = validate(path, version)
        assert code == 0 and "passed" in said, said


@validated
def test_a_manifest_with_a_mistake_does_not_pass(tmp_path):
    broken = tmp_path / "broken.yaml"
    broken.write_text(
        (HERE / "worker.yaml").read_text().replace("readOnlyRootFilesystem: true",
                                                   "readOnlyRootFileSystem: true"))
    assert validate(broken, "1.33")[0] != 0


@pytest.mark.skipif(not shutil.which("kubectl"), reason="kubectl is not installed")
def test_kubectl_makes_one_set_of_them_in_one_namespace():
    made = subprocess.run(["kubectl", "kustomize", str(HERE)], check=True, capture_output=True,
                          text=True).stdout
    parsed = list(yaml.safe_load_all(made))
    assert len(parsed) == len(objects()) and {o["metadata"]["namespace"] for o in parsed} == {
        "evenstep"}


@pytest.mark.parametrize("name", ["redis", "coordinator", "worker"])
def test_a_pod_has_no_rights_that_it_does_not_need(name):
    pod = workloads()[name]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert (pod["securityContext"]["runAsNonRoot"]
            and pod["securityContext"]["runAsUser"] == pod["securityContext"]["fsGroup"] == 10001)
    assert container["securityContext"] == {"allowPrivilegeEscalation": False,
                                            "readOnlyRootFilesystem": True,
                                            "capabilities": {"drop": ["ALL"]}}
    assert pod["automountServiceAccountToken"] is False and pod["enableServiceLinks"] is False
    assert f"AS {name}\n" in (
        ROOT / "deploy" / "Dockerfile").read_text() and container["image"] == f"evenstep-{name}"


@pytest.mark.parametrize("name", ["redis", "coordinator", "worker"])
def test_settings_secrets_and_folders_are_those_that_the_container_reads(name):
    pod = workloads()[name]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    scripts = "".join((CONTAINER / f).read_text() for f in (name, name + "-healthy"))
    for variable in container.get("env", []):
        assert "${" + variable["name"] in scripts, f"{name} does not read {variable['name']}"
    mounted = next(v["secret"]["secretName"] for v in pod["volumes"] if v["name"] == "keys")
    wanted = set(re.findall(r"/run/keys/([a-z.-]+)", scripts))
    assert wanted == set(secrets()[1][mounted])
    folders = {m["mountPath"] for m in container["volumeMounts"]}
    assert set(re.findall(r"/var/lib/evenstep[a-z-]*", scripts)) <= folders and "/tmp" in folders
    for probe in ("readinessProbe", "livenessProbe", "startupProbe"):
        command = container.get(probe, {}).get("exec", {}).get(
            "command", ["/usr/local/lib/evenstep/" + name + "-healthy"])
        assert (CONTAINER / command[0].rsplit("/", 1)[1]).exists()


def test_the_ports_of_mpi_are_those_that_the_network_lets_through():
    policies = {o["metadata"]["name"]: o["spec"] for o in objects() if o["kind"] == "NetworkPolicy"}
    ways = [policies["ranks"]["ingress"][0]["ports"][0], policies["ranks"]["egress"][0]["ports"][0]]
    for name in ("coordinator", "worker"):
        args = workloads()[name]["spec"]["template"]["spec"]["containers"][0]["args"]
        assert args[0] == "--mpi-ports"
        assert [args[1]] * 2 == [f"{w['port']}-{w['endPort']}" for w in ways]


def test_every_selector_finds_the_pods_that_it_means():
    labels = {name: w["spec"]["template"]["metadata"]["labels"] for name, w in workloads().items()}

    def found(selector):
        return {n for n, has in labels.items() if selector.items() <= has.items()}
    for name, w in workloads().items():
        assert found(w["spec"]["selector"]["matchLabels"]) == {name}
    services = {o["metadata"]["name"]: found(o["spec"]["selector"])
                for o in objects() if o["kind"] == "Service"}
    assert services == {"redis": {"redis"}, "coordinator": {"coordinator"}, "workers": {"worker"}}
    assert all(w["spec"]["serviceName"] in services for w in workloads().values()
               if w["kind"] == "StatefulSet")
    policies = {o["metadata"]["name"]: found(o["spec"]["podSelector"]["matchLabels"])
                for o in objects() if o["kind"] == "NetworkPolicy"}
    assert policies == {"nothing-else": set(labels), "redis": {"redis"},
                        "ranks": {"coordinator", "worker"}, "page": {"coordinator"}}


def test_secrets_are_drawn_anew_fit_the_users_of_redis_and_a_role_has_its_own_only():
    (_, one), (_, other) = secrets(), secrets()
    redis, coordinator, agent = (one["evenstep-" + r] for r in ("redis", "coordinator", "agent"))
    assert one["evenstep-agent"]["secret"] != other["evenstep-agent"]["secret"]
    assert (agent["secret"] == coordinator["secret"]
            and agent["store-password"] != coordinator["store-password"])
    hashes = dict(re.findall(r"^user (\w+) on #([0-9a-f]{64})", redis["users.acl"], re.M))
    passwords = {"health": redis["health-password"], "coordinator": coordinator["store-password"],
                 "agent": agent["store-password"], "worker": agent["worker-password"],
                 "keeper": coordinator["keeper-password"],
                 "host": one["evenstep-host"]["store-password"]}
    assert set(one["evenstep-host"]) == {"store-password", "secret"}
    assert hashes == {user: hashlib.sha256(p.strip().encode()).hexdigest()
                      for user, p in passwords.items()}
