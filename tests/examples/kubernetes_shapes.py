"""Fields of the kinds that examples/kubernetes has, after the API reference of Kubernetes 1.29: what is not here is an error."""

# A type of Python; a dict of fields, "!" before the name of one that must be there; a list of one shape; MAP: names to texts.
MAP, QUANTITY, INT_OR_NAME = "map", "quantity", "int or name"

SELECTOR = {"matchLabels": MAP}
META = {"!name": str, "labels": MAP, "namespace": str}
PROBE = {"!httpGet": {"!path": str, "!port": INT_OR_NAME}, "periodSeconds": int, "failureThreshold": int}
CONTAINER = {
    "!name": str, "!image": str, "imagePullPolicy": {"Always", "IfNotPresent", "Never"}, "command": [str],
    "ports": [{"!name": str, "!containerPort": int}],
    "startupProbe": PROBE, "livenessProbe": PROBE, "readinessProbe": PROBE,
    "lifecycle": {"preStop": {"exec": {"!command": [str]}}},
    "resources": {"requests": QUANTITY, "limits": QUANTITY},
    "securityContext": {"allowPrivilegeEscalation": bool, "readOnlyRootFilesystem": bool, "capabilities": {"drop": [str]}},
    "volumeMounts": [{"!name": str, "!mountPath": str, "readOnly": bool}]}
POD = {
    "serviceAccountName": str, "terminationGracePeriodSeconds": int, "shareProcessNamespace": bool,
    "securityContext": {"runAsNonRoot": bool, "runAsUser": int, "runAsGroup": int, "fsGroup": int,
                        "seccompProfile": {"!type": {"RuntimeDefault", "Unconfined", "Localhost"}}},
    "topologySpreadConstraints": [{"!maxSkew": int, "!topologyKey": str, "!whenUnsatisfiable": {"ScheduleAnyway", "DoNotSchedule"},
                                   "labelSelector": SELECTOR}],
    "!containers": [CONTAINER],
    "volumes": [{"!name": str, "configMap": {"!name": str}, "emptyDir": {}}]}
TEMPLATE = {"!metadata": {"!labels": MAP}, "!spec": POD}
RULE = {"ports": [{"!port": INT_OR_NAME, "protocol": {"TCP", "UDP"}}], "from": [{"namespaceSelector": SELECTOR, "podSelector": SELECTOR}]}

KINDS = {
    ("v1", "ConfigMap"): {"!data": MAP},
    ("v1", "ServiceAccount"): {},
    ("v1", "Service"): {"!spec": {"type": {"ClusterIP", "NodePort", "LoadBalancer"}, "externalTrafficPolicy": {"Local", "Cluster"}, "!selector": MAP,
                                  "!ports": [{"name": str, "!port": int, "targetPort": INT_OR_NAME}]}},
    ("rbac.authorization.k8s.io/v1", "Role"): {"!rules": [{"!apiGroups": [str], "!resources": [str], "!verbs": [str]}]},
    ("rbac.authorization.k8s.io/v1", "RoleBinding"): {"!roleRef": {"!apiGroup": str, "!kind": {"Role", "ClusterRole"}, "!name": str},
                                                      "!subjects": [{"!kind": {"ServiceAccount"}, "!name": str, "!namespace": str}]},
    ("apps/v1", "Deployment"): {"!spec": {"replicas": int, "!selector": SELECTOR, "!template": TEMPLATE, "strategy": {
        "!type": {"RollingUpdate", "Recreate"}, "rollingUpdate": {"maxUnavailable": int, "maxSurge": int}}}},
    ("apps/v1", "DaemonSet"): {"!spec": {"!selector": SELECTOR, "!template": TEMPLATE, "updateStrategy": {
        "!type": {"RollingUpdate", "OnDelete"}, "rollingUpdate": {"maxUnavailable": int, "maxSurge": int}}}},
    ("policy/v1", "PodDisruptionBudget"): {"!spec": {"maxUnavailable": int, "minAvailable": int, "!selector": SELECTOR}},
    ("autoscaling/v2", "HorizontalPodAutoscaler"): {"!spec": {
        "!scaleTargetRef": {"!apiVersion": str, "!kind": str, "!name": str}, "minReplicas": int, "!maxReplicas": int,
        "metrics": [{"!type": {"Resource"}, "resource": {"!name": str, "!target": {"!type": {"Utilization"}, "averageUtilization": int}}}]}},
    ("networking.k8s.io/v1", "NetworkPolicy"): {"!spec": {"!podSelector": SELECTOR, "policyTypes": [{"Ingress", "Egress"}], "ingress": [RULE]}},
}


def problems(value, shape, path):
    """What is wrong with a value, line by line."""
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return ["%s: no object" % path]
        fields = {name.lstrip("!"): inner for name, inner in shape.items()}
        found = ["%s.%s: unknown" % (path, name) for name in value if name not in fields]
        found += ["%s.%s: missing" % (path, name[1:]) for name in shape if name.startswith("!") and name[1:] not in value]
        return found + [one for name in value if name in fields for one in problems(value[name], fields[name], "%s.%s" % (path, name))]
    if isinstance(shape, list):
        if not isinstance(value, list) or not value:
            return ["%s: no list" % path]
        return [one for number, item in enumerate(value) for one in problems(item, shape[0], "%s[%d]" % (path, number))]
    if shape in (MAP, QUANTITY):
        good = isinstance(value, dict) and all(isinstance(name, str) and isinstance(text, str) for name, text in value.items())
    elif isinstance(shape, set):
        good = value in shape
    elif shape == INT_OR_NAME:
        good = type(value) in (int, str)
    else:
        good = type(value) is shape
    return [] if good else ["%s: %r" % (path, value)]


def check(document):
    """What is wrong with a manifest."""
    kind = (document.get("apiVersion"), document.get("kind"))
    if kind not in KINDS:
        return ["no such kind: %s %s" % kind]
    return problems(document, {"!apiVersion": str, "!kind": str, "!metadata": META, **KINDS[kind]}, kind[1])
