"""Kubernetes manifests of a job: its pods test each other in an init container before the job's own begins. Pure.

Objects are built as data and written by PyYAML, so that no option's text can become a key, or another object.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import yaml

from preflight.gate.gang import CODES
from preflight.gate.manifest_pod import CONTAINER, pod_template
from preflight.inventory import dump
from preflight.model.cluster import Product
from preflight.model.errors import UsageError

MOST_REPLICAS = 10_000
MOST_DEVICES = 64
LABEL = 63  # characters of a label of DNS (RFC 1123)
TASK = "worker"  # of a JobSet and of a Volcano job; Volcano's plugin hcclrank numbers the pods of a task of this name
_PRODUCTS = {"huawei.com": Product.ATLAS_A2, "nvidia.com": Product.NVIDIA}  # vendor of the resource → product

Object = dict[str, Any]


class WorkloadKind(StrEnum):
    JOB = "job"
    JOBSET = "jobset"
    VOLCANO = "volcano"


@dataclass(frozen=True)
class Workload:
    """A job of `replicas` pods with `devices` devices each. Raises UsageError for what Kubernetes would refuse.

    `resource`: the device plugin's name of its devices ("nvidia.com/gpu"), "" for none: then only gloo is tested.
    `preflight_image` is that of the init container ("" for the job's own). `setup`, `python`: as in the inventory's
    [probe].
    """

    kind: WorkloadKind
    name: str
    image: str
    replicas: int
    devices: int
    command: tuple[str, ...] = ()
    resource: str = ""
    product: Product | None = None
    preflight_image: str = ""
    setup: str = ""
    python: str = ""
    host_network: bool = False

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z]([a-z0-9-]*[a-z0-9])?", self.name):
            raise UsageError(
                f"--name {self.name[:100]!r} is not a host name (RFC 1123). Use small letters, digits and dashes, "
                "begin with a letter and do not end with a dash"
            )
        _refuse_outside("--replicas", self.replicas, MOST_REPLICAS)
        _refuse_outside("--devices", self.devices, MOST_DEVICES)
        longest = f"{self.prefix}-{self.replicas - 1}"
        if len(longest) > LABEL:
            raise UsageError(
                f"--name {self.name}: the last pod's name {longest} has {len(longest)} characters, but a host name has "
                f"at most {LABEL}"
            )
        _refuse_no_image("--image", self.image)
        _refuse_no_image("--preflight-image", self.preflight_image or self.image)
        if self.resource and not re.fullmatch(r"[a-z0-9][a-z0-9.-]{0,252}/[A-Za-z0-9]([\w.-]{0,61}\w)?", self.resource):
            raise UsageError(f"--resource {self.resource[:100]!r} is not a device resource such as nvidia.com/gpu")
        for word in self.command:
            if not word.replace("\t", "").replace("\n", "").isprintable():
                raise UsageError(f"{word[:100]!r}: the command has characters that are not allowed in a manifest")
        for option, line in (("--setup", self.setup), ("--python", self.python)):
            if not line.isprintable():
                raise UsageError(f"{option} {line[:100]!r}: must be one line without control characters")
        if self.resource and not self.product and self.resource.partition("/")[0] not in _PRODUCTS:
            raise UsageError(f"--resource {self.resource} does not identify the product. Set --product")

    @property
    def prefix(self) -> str:
        """The part of a pod's host name before its index."""
        return {
            WorkloadKind.JOB: self.name,
            WorkloadKind.JOBSET: f"{self.name}-{TASK}-0",  # JobSet: NAME, the replicated job, its number
            WorkloadKind.VOLCANO: f"{self.name}-{TASK}",
        }[self.kind]

    @property
    def known_product(self) -> Product:
        return self.product or _PRODUCTS.get(self.resource.partition("/")[0], Product.CPU)


def _refuse_no_image(option: str, image: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,511}", image):
        raise UsageError(f"{option} {image[:100]!r} is not an image such as registry.example/train:1.2")


def _refuse_outside(option: str, number: int, most: int) -> None:
    if not 1 <= number <= most:
        raise UsageError(f"{option} {number}: must be a number from 1 to {most}")


def objects(wanted: Workload) -> list[Object]:
    """Return the objects to apply, in this order."""
    workload = {WorkloadKind.JOB: _job, WorkloadKind.JOBSET: _jobset, WorkloadKind.VOLCANO: _volcano}[wanted.kind](
        wanted
    )
    services = [_service(wanted)] if wanted.kind is WorkloadKind.JOB else []  # JobSet and Volcano make their own
    return [_inventory(wanted), *services, workload]


def text_of(wanted: Workload) -> str:
    """Return the manifest, with the steps before it as comments at its head."""
    head = (
        f"The pods of {wanted.name} test each other before it begins (preflight's docs/kubernetes.md).",
        "They identify each other by a token, which is not in this manifest. Create it once:",
        f"  head -c 24 /dev/urandom | base64 | kubectl create secret generic {wanted.name}-preflight \\",
        "    --from-file=token=/dev/stdin",
    )
    text: str = yaml.dump_all(objects(wanted), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1000)
    return "".join(f"# {line}\n" for line in head) + text


def _inventory(wanted: Workload) -> Object:
    """Return the inventory, which has the pods as hosts."""
    pods = f"[0-{wanted.replicas - 1}]" if wanted.replicas > 1 else "0"
    probe = {"setup": wanted.setup, "python": wanted.python}
    text = dump(
        {
            "cluster": {"name": wanted.name, "product": wanted.known_product.value, "devices": wanted.devices},
            "probe": {"idle": True, **{key: value for key, value in probe.items() if value}},
            "hosts": [{"name": f"{wanted.prefix}-{pods}", "address": f"{wanted.prefix}-{pods}.{wanted.name}"}],
        }
    )
    return _object("v1", "ConfigMap", f"{wanted.name}-preflight", data={"hosts.toml": text})


def _service(wanted: Workload) -> Object:
    """Return a service by which pods find each other before they are ready: none is while its init container runs."""
    spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"job-name": wanted.name}}
    return _object("v1", "Service", wanted.name, spec=spec)


def _job(wanted: Workload) -> Object:
    return _object("batch/v1", "Job", wanted.name, spec=_job_spec(wanted))


def _job_spec(wanted: Workload) -> Object:
    """Return the specification of a job that ends when one pod fails: the others could not go on without it."""
    return {
        "completionMode": "Indexed",
        "completions": wanted.replicas,
        "parallelism": wanted.replicas,
        "backoffLimit": 0,
        "podFailurePolicy": {
            "rules": [
                {
                    "action": "FailJob",
                    "onExitCodes": {"containerName": CONTAINER, "operator": "In", "values": sorted(CODES)},
                }
            ]
        },
        "template": pod_template(wanted, subdomain=wanted.name),
    }


def _jobset(wanted: Workload) -> Object:
    """Return a JobSet, which names the pods and makes their service.

    A job that preflight has ended is restarted, and that restart is not counted.
    """
    rule = {
        "name": "preflight",
        "action": "RestartJobSetAndIgnoreMaxRestarts",
        "onJobFailureReasons": ["PodFailurePolicy"],
    }
    spec = _job_spec(wanted)
    del spec["template"]["spec"]["subdomain"]
    return _object(
        "jobset.x-k8s.io/v1alpha2",
        "JobSet",
        wanted.name,
        spec={
            "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True, "subdomain": wanted.name},
            "failurePolicy": {"maxRestarts": 3, "rules": [rule]},
            "replicatedJobs": [{"name": TASK, "replicas": 1, "template": {"spec": spec}}],
        },
    )


def _volcano(wanted: Workload) -> Object:
    """Return a Volcano job.

    Its plugin svc names the pods and makes their service, env numbers them. Its policies see no exit code of an init
    container, so that a failed preflight counts as a retry.
    """
    return _object(
        "batch.volcano.sh/v1alpha1",
        "Job",
        wanted.name,
        spec={
            "schedulerName": "volcano",
            "minAvailable": wanted.replicas,
            "maxRetry": 3,
            "plugins": {"svc": ["--publish-not-ready-addresses=true"], "env": []},
            "policies": [{"event": event, "action": "RestartJob"} for event in ("PodFailed", "PodEvicted")],
            "tasks": [{"name": TASK, "replicas": wanted.replicas, "template": pod_template(wanted)}],
        },
    )


def _object(version: str, kind: str, name: str, **fields: Mapping[str, Any]) -> Object:
    metadata = {"name": name, "labels": {"app.kubernetes.io/managed-by": "preflight"}}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]
    """A dumper that quotes text that a YAML other than Python's might take for another type: 1e3, y, 0o7."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    plain = re.fullmatch(r"[A-Za-z/][\w./-]{2,}", text, re.ASCII)
    style = None if plain else "|" if "\n" in text else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
