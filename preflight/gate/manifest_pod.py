"""A pod with an init container that tests the gang, and a main container that is the job. Pure."""

from typing import TYPE_CHECKING, Any

from preflight.model.cluster import Product

if TYPE_CHECKING:
    from preflight.gate.manifest import Workload

CONTAINER = "preflight"
FOLDER = "/etc/preflight"
WAIT = 600  # seconds that a pod waits for the others: images are pulled, nodes are scaled up
BUDGET = 600  # seconds that the probe takes at most


def pod_template(wanted: "Workload", subdomain: str = "") -> dict[str, Any]:
    """Return the template of a pod.

    `subdomain`: the service by which pods find each other, unless another controller sets it.
    """
    name = f"{wanted.name}-preflight"
    spec = {
        "restartPolicy": "Never",
        **({"subdomain": subdomain} if subdomain else {}),
        **({"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"} if wanted.host_network else {}),
        "automountServiceAccountToken": False,
        "initContainers": [_init(wanted, name)],
        "containers": [_main(wanted)],
        "volumes": [
            {"name": "shm", "emptyDir": {"medium": "Memory"}},
            {"name": CONTAINER, "configMap": {"name": name}},
        ],
    }
    return {"metadata": {"labels": {"app.kubernetes.io/part-of": wanted.name}}, "spec": spec}


def _init(wanted: "Workload", name: str) -> dict[str, Any]:
    probe = ["preflight", "probe", "--via", "pods", "--inventory", f"{FOLDER}/hosts.toml"]
    return {
        "name": CONTAINER,
        "image": wanted.preflight_image or wanted.image,
        "command": [*probe, "--quick", "--budget", f"{BUDGET}s"],
        "env": [
            {"name": "PREFLIGHT_TOKEN", "valueFrom": {"secretKeyRef": {"name": name, "key": "token"}}},
            {"name": "PREFLIGHT_POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "PREFLIGHT_NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {"name": "PREFLIGHT_POD_WAIT", "value": str(WAIT)},
            {"name": "PREFLIGHT_UNKNOWN", "value": "closed"},
        ],
        **_devices(wanted),
        "volumeMounts": [_SHM, {"name": CONTAINER, "mountPath": FOLDER, "readOnly": True}],
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            # /dev/davinci* belong to a user of the host that the container lacks, so root has to open them.
            "capabilities": {"drop": ["ALL"], **({"add": ["DAC_OVERRIDE"]} if _is_npu(wanted) else {})},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }


def _main(wanted: "Workload") -> dict[str, Any]:
    command = {"command": [_literal(word) for word in wanted.command]} if wanted.command else {}
    return {"name": "main", "image": wanted.image, **command, **_devices(wanted), "volumeMounts": [_SHM]}


def _devices(wanted: "Workload") -> dict[str, Any]:
    """Return the devices of each container.

    A pod has the two one after the other: it gets the larger limit, not the sum.
    """
    return {"resources": {"limits": {wanted.resource: str(wanted.devices)}}} if wanted.resource else {}


def _is_npu(wanted: "Workload") -> bool:
    product: Product = wanted.known_product
    return product.is_npu


def _literal(word: str) -> str:
    """Return `word` escaped: Kubernetes replaces $(NAME), and $$ by $, but the command is to run as it was typed."""
    return word.replace("$", "$$") if "$(" in word or "$$" in word else word


_SHM = {"name": "shm", "mountPath": "/dev/shm"}  # noqa: S108  (a container has 64 MB there, which NCCL and HCCL fill)
