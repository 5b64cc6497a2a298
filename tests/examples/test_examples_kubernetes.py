"""examples/kubernetes: the manifests are what the chart gives, have only fields that exist, fit together; and the pod runs: another user, no
capabilities, a read-only root, the scripts of the ConfigMap beside the server."""

import os
import shlex
import shutil
import subprocess
import sys

import pytest
import yaml

from harness import binaries, until
from harness.boxes import needs_root
from harness.certificates import Authority
from harness.programs import Program
from kubernetes_chart import FOLDER, manifests, render
from kubernetes_shapes import check

VARIANTS = {"deployment": {}, "daemonset": {"kind": "DaemonSet", "service": {"type": "ClusterIP"}}, "no scaling": {"autoscaling": {"enabled": False}}}


def documents(text):
    return {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(text)}


@pytest.mark.parametrize("name", ["deployment.yaml", "daemonset.yaml"])
def test_manifests_are_those_of_the_chart(name):
    with open(os.path.join(FOLDER, "manifests", name), encoding="utf-8") as file:
        assert file.read() == manifests()[name], "run tests/examples/kubernetes_chart.py"


@pytest.mark.parametrize("variant", list(VARIANTS))
def test_fields_exist(variant):
    for one in yaml.safe_load_all(render(**VARIANTS[variant])):
        assert check(one) == []


def test_the_check_finds_what_is_wrong():
    workload = documents(render())["Deployment", "portunus"]
    container = workload["spec"]["template"]["spec"]["containers"][0]
    container["readinesProbe"] = container.pop("readinessProbe")
    container["ports"][0]["containerPort"] = "8080"
    del workload["spec"]["selector"]
    assert check(workload) == ["Deployment.spec.selector: missing",
                               "Deployment.spec.template.spec.containers[0].readinesProbe: unknown",
                               "Deployment.spec.template.spec.containers[0].ports[0].containerPort: '8080'"]
    assert check({"apiVersion": "extensions/v1beta1", "kind": "Deployment"}) == ["no such kind: extensions/v1beta1 Deployment"]


SCHEMAS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "objs-tools", "kubernetes-validate")


def validate(*files):
    """By the published schemas, without fields that they do not know: what was wrong."""
    # In a process of its own: it brings libraries that other tests have of Debian.
    made = subprocess.run([sys.executable, "-m", "kubernetes_validate", "--strict", "--quiet", "-k", "1.29.0", *map(str, files)], check=False,
                          env={**os.environ, "PYTHONPATH": SCHEMAS}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")
    return made.stdout + ("" if made.returncode == 0 else "status %d" % made.returncode)


@pytest.mark.skipif(not os.path.isdir(SCHEMAS), reason="without kubernetes-validate: see auto/kubernetes-validate")
def test_the_published_schemas(tmp_path):
    files = [os.path.join(FOLDER, "manifests", name) for name in sorted(manifests())]
    wrong = documents(render())["Deployment", "portunus"]
    wrong["spec"]["template"]["spec"]["containers"][0]["readinesProbe"] = {}
    (tmp_path / "wrong.yaml").write_text(yaml.safe_dump(wrong))
    said = validate(*files, tmp_path / "wrong.yaml").splitlines()
    assert "readinesProbe" in said[0] and "wrong.yaml" in said[0] and said[-1] == "status 1", said
    assert len([line for line in said if line.startswith("ERROR")]) == 1, said


@pytest.mark.parametrize("variant", list(VARIANTS))
def test_the_parts_fit_together(variant):
    made = documents(render(release="edge", namespace="web", **VARIANTS[variant]))
    workload = made.get(("Deployment", "edge")) or made["DaemonSet", "edge"]
    template = workload["spec"]["template"]
    pod, labels = template["spec"], template["metadata"]["labels"]
    server, reload = pod["containers"]
    selectors = [workload["spec"]["selector"]["matchLabels"], made["Service", "edge"]["spec"]["selector"],
                 made["NetworkPolicy", "edge"]["spec"]["podSelector"]["matchLabels"]]
    if ("PodDisruptionBudget", "edge") in made:
        selectors.append(made["PodDisruptionBudget", "edge"]["spec"]["selector"]["matchLabels"])
    assert all(one.items() <= labels.items() for one in selectors)
    ports = {one["name"]: one["containerPort"] for one in server["ports"]}
    named = [server[probe]["httpGet"]["port"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")]
    named += [one["targetPort"] for one in made["Service", "edge"]["spec"]["ports"]]
    named += [one["port"] for rule in made["NetworkPolicy", "edge"]["spec"]["ingress"] for one in rule["ports"]]
    assert set(named) == set(ports)
    for container in (server, reload):
        assert container["securityContext"] == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
        assert {one["name"] for one in container["volumeMounts"]} == {one["name"] for one in pod["volumes"]}
    for volume in pod["volumes"]:
        assert "emptyDir" in volume or ("ConfigMap", volume["configMap"]["name"]) in made
    assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] != 0
    binding = made["RoleBinding", "edge"]
    assert binding["subjects"][0] == {"kind": "ServiceAccount", "name": pod["serviceAccountName"], "namespace": "web"}
    config = made["ConfigMap", "edge"]["data"]["nginx.conf"]
    assert "listen %d;" % ports["http"] in config and "listen %d;" % ports["status"] in config
    assert pod["terminationGracePeriodSeconds"] > 15 + 30 and "shutdown_delay 15s" in config and "worker_shutdown_timeout 30s" in config
    if ("HorizontalPodAutoscaler", "edge") in made:
        assert made["HorizontalPodAutoscaler", "edge"]["spec"]["scaleTargetRef"]["name"] == workload["metadata"]["name"]
        assert "replicas" not in workload["spec"]


# ---- the pod runs: the root of this machine as an overlay, read-only

SETUP = """set -e
mount --make-rprivate /
ip link set lo up
mount -t tmpfs tmpfs @DIR@/over
mkdir @DIR@/over/up @DIR@/over/work @DIR@/over/root
mount -t overlay overlay -o lowerdir=/,upperdir=@DIR@/over/up,workdir=@DIR@/over/work @DIR@/over/root
root=@DIR@/over/root
secrets=$root/run/secrets/kubernetes.io/serviceaccount
mkdir -p $secrets $root/etc/nginx/portunus $root/etc/nginx/scripts
cp @DIR@/root.crt $secrets/ca.crt; printf pod-token > $secrets/token; chmod 755 $root/run/secrets; chmod 644 $secrets/*
rm -f $root/usr/sbin/nginx; cp @NGINX@ $root/usr/sbin/nginx; chmod 755 $root/usr/sbin/nginx
mount -o remount,ro $root
mount --bind @DIR@/config $root/etc/nginx/portunus
mount --bind @DIR@/scripts $root/etc/nginx/scripts
mount -t tmpfs -o mode=1777 tmpfs $root/tmp
mount --rbind /dev $root/dev
mount -t proc proc $root/proc
cd /
exec chroot $root @USER@ """

USER = "setpriv --reuid 33 --regid 33 --clear-groups --bounding-set -all --inh-caps -all --no-new-privs "


class Pod:
    """The two containers; `ask(port, path)`; `mount(config)` is a change of the ConfigMap."""

    def __init__(self, folder):
        self.folder, self.versions, self.programs = str(folder), 0, []
        os.chmod(self.folder, 0o755)
        self.made = documents(render())
        self.template = self.made["Deployment", "portunus"]["spec"]["template"]["spec"]
        self.config = self.made["ConfigMap", "portunus"]["data"]["nginx.conf"].replace("shutdown_delay 15s", "shutdown_delay 300ms")
        for name in ("over", "config", "scripts", "server", "reload", "stop"):
            os.mkdir(os.path.join(self.folder, name))
        for name, text in self.made["ConfigMap", "portunus-scripts"]["data"].items():
            self._write(os.path.join("scripts", name), text)
        self.mount(self.config)
        Authority(self.folder).issue("api", "IP:127.0.0.1")

    def _write(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(text)

    def mount(self, text):
        """As the kubelet does it: a new directory, and the link ..data to it."""
        self.versions += 1
        version = "..v%d" % self.versions
        config = os.path.join(self.folder, "config")
        os.mkdir(os.path.join(config, version))
        self._write(os.path.join("config", version, "nginx.conf"), text)
        os.symlink(version, os.path.join(config, "..new"))
        os.replace(os.path.join(config, "..new"), os.path.join(config, "..data"))
        if self.versions == 1:
            os.symlink("..data/nginx.conf", os.path.join(config, "nginx.conf"))

    def run(self, name, words, ready):
        log = os.path.join(self.folder, name, "program.log")
        with open(log, "w", encoding="ascii"):
            os.chmod(log, 0o666)
        self.programs.append(Program(words, os.path.join(self.folder, name), ready, user=None))
        return self.programs[-1].start()

    def start(self):
        script = SETUP.replace("@USER@", USER).replace("@DIR@", self.folder).replace("@NGINX@", binaries.under_test())
        command = self.template["containers"][0]["command"]
        environment = ["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "KUBERNETES_SERVICE_HOST=127.0.0.1", "KUBERNETES_SERVICE_PORT=6443"]
        self.run("server", [*environment, "unshare", "-m", "-n", "sh", "-c", script + " ".join(shlex.quote(word) for word in command)],
                 lambda: self.ask(8081, "/live") == (200, "alive\n"))
        return self

    @property
    def server(self):
        return self.programs[0]

    def beside(self, name, words, ready):
        """Another container of the pod."""
        enter = ["nsenter", "-t", str(self.server.process.pid), "-m", "-n", "-r", "-w", *USER.split(), "env", "RELOAD_INTERVAL=0.1",
                 "KUBERNETES_SERVICE_HOST=127.0.0.1", "KUBERNETES_SERVICE_PORT=6443"]
        return self.run(name, enter + words, ready)

    def curl(self, *words):
        return subprocess.run(["nsenter", "-t", str(self.server.process.pid), "-n", "curl", "-s", "-m", "10", *words], stdout=subprocess.PIPE,
                              check=False, encoding="latin-1").stdout

    def ask(self, port, path):
        text, _, status = self.curl("-w", "|%{http_code}", "http://127.0.0.1:%d%s" % (port, path)).rpartition("|")
        return int(status), text

    def end(self):
        for program in reversed(self.programs):
            program.stop()


def children(pid):
    """Names of the programs that a process has started."""
    with open("/proc/%d/task/%d/children" % (pid, pid), encoding="ascii") as file:
        return [program_of(child) for child in file.read().split()]


def program_of(pid):
    try:
        with open("/proc/%s/comm" % pid, encoding="ascii") as file:
            return file.read().strip()
    except FileNotFoundError:
        return ""


@pytest.fixture(name="pod")
def fixture_pod(tmp_path):
    made = Pod(tmp_path)
    try:
        yield made.start()
    finally:
        made.end()


API = """
import sys
sys.path[:0] = %r
from engines import Kubernetes
engine = Kubernetes(tls=("api.crt", "api.key"), port=6443)
engine.put("default", "app-1", "app", [("127.0.0.1", True)], [("http", 9090)])
engine.thread.join()
"""


@needs_root
@pytest.mark.skipif(not all(map(shutil.which, ("unshare", "nsenter", "setpriv", "curl", "ip"))), reason="needs unshare, nsenter, setpriv, curl and ip")
def test_the_pod_runs(pod):
    """It finds the API server, serves, reloads what is good and refuses what is not, drains."""
    with open("/proc/%d/status" % pod.server.process.pid, encoding="ascii") as status:
        facts = dict(line.split(":\t", 1) for line in status.read().splitlines() if ":\t" in line)
    assert facts["Uid"].split()[0] == "33" and int(facts["CapEff"], 16) == 0 and int(facts["CapBnd"], 16) == 0
    assert pod.ask(8081, "/ready")[0] == 200
    # the API server, and the application, in the network of the pod
    tests = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    script = API % [tests, os.path.join(tests, "upstream", "discovery")]
    os.mkdir(os.path.join(pod.folder, "api"))
    for name in ("api.crt", "api.key"):
        shutil.copy(os.path.join(pod.folder, name), os.path.join(pod.folder, "api"))
    pod.run("api", ["nsenter", "-t", str(pod.server.process.pid), "-n", sys.executable, "-c", script], lambda: True)
    until(lambda: 'portunus_discovery_changes_total{discovery="cluster"} 1' in pod.ask(8081, "/metrics")[1], "the API server's answer", 30)
    assert pod.ask(8080, "/")[0] == 502                  # nobody listens at 9090
    # the ConfigMap
    reload = pod.beside("reload", pod.template["containers"][1]["command"], lambda: True)
    until(lambda: "sleep" in children(reload.process.pid), "the script's first pause")
    pod.mount(pod.config.replace("alive", "changed"))
    until(lambda: pod.ask(8081, "/live")[1] == "changed\n", "the reload")
    pod.mount(pod.config.replace("ready;", "is_ready;"))
    until(lambda: "is refused, the former configuration stays" in reload.log(), "the refusal")
    assert 'unknown directive "is_ready"' in reload.log() and pod.ask(8081, "/live") == (200, "changed\n")
    # preStop
    stop = pod.beside("stop", pod.template["containers"][0]["lifecycle"]["preStop"]["exec"]["command"], lambda: pod.ask(8081, "/ready")[0] == 503)
    assert pod.server.process.wait(15) == 0 and stop.process.wait(15) == 0
    assert "[emerg]" not in pod.server.log() and "[alert]" not in pod.server.log()
