"""Manifests: what Kubernetes' published schemas say of them, and of JobSet's and Volcano's, which have none here, what
their sources say (kubernetes-sigs/jobset api/jobset/v1alpha2, volcano-sh/volcano pkg/controllers/job/plugins)."""

import re
import shlex
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from preflight.cli.main import main
from preflight.gate.manifest import Workload, WorkloadKind, objects, text_of
from preflight.inventory import parse
from preflight.model.cluster import Product
from preflight.model.errors import UsageError

KINDS = list(WorkloadKind)
VERSIONS = ("1.29", "1.31", kubernetes_validate.latest_version())  # before, onExitCodes alone was not said to be enough


def wanted(kind: WorkloadKind = WorkloadKind.JOB, **changes: Any) -> Workload:
    usual: dict[str, Any] = {"name": "train", "image": "registry.example/train:1.2", "replicas": 4, "devices": 8}
    usual |= {"command": ("torchrun", "train.py"), "resource": "nvidia.com/gpu"}
    return Workload(kind, **(usual | changes))


def read(one: Workload) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(text_of(one)))


def workload(one: Workload) -> dict[str, Any]:
    return read(one)[-1]


def template(one: Workload) -> dict[str, Any]:
    spec = workload(one)["spec"]
    found: dict[str, Any] = {
        WorkloadKind.JOB: lambda: spec["template"],
        WorkloadKind.JOBSET: lambda: spec["replicatedJobs"][0]["template"]["spec"]["template"],
        WorkloadKind.VOLCANO: lambda: spec["tasks"][0]["template"],
    }[one.kind]()
    return found


def as_core(one: Workload) -> list[dict[str, Any]]:
    """Its objects; the core object inside of one that is none: JobSet's Job, Volcano's pod."""
    *others, last = read(one)
    if one.kind is WorkloadKind.JOBSET:
        last = {**last["spec"]["replicatedJobs"][0]["template"], "apiVersion": "batch/v1", "kind": "Job"}
    if one.kind is WorkloadKind.VOLCANO:
        last = {**template(one), "apiVersion": "v1", "kind": "Pod"}
    return [*others, last]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("host_network", [False, True])
@pytest.mark.parametrize("resource", ["", "huawei.com/Ascend910"])
@pytest.mark.parametrize("kind", KINDS)
def test_core_objects_are_what_the_published_schemas_say(
    kind: WorkloadKind, resource: str, host_network: bool, version: str
) -> None:
    for one in as_core(wanted(kind, resource=resource, host_network=host_network)):
        kubernetes_validate.validate(one, version, strict=True)


def test_the_schemas_would_tell() -> None:
    (*_, job) = read(wanted())
    job["spec"]["template"]["spec"]["initContainers"][0]["imagee"] = "x"
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(job, "1.31", strict=True)


@pytest.mark.parametrize("kind", KINDS)
def test_the_inventory_has_the_names_that_the_pods_get(kind: WorkloadKind) -> None:
    (first, *_) = read(wanted(kind, setup="source /a 'b'\"c", python="/opt/bin/python"))
    cluster = parse(first["data"]["hosts.toml"], Path("hosts.toml"))
    names = {
        WorkloadKind.JOB: ["train-0.train", "train-3.train"],
        WorkloadKind.JOBSET: ["train-worker-0-0.train", "train-worker-0-3.train"],
        WorkloadKind.VOLCANO: ["train-worker-0.train", "train-worker-3.train"],
    }[kind]
    assert [cluster.hosts[0].address, cluster.hosts[-1].address] == names
    assert (cluster.product, cluster.device_count, cluster.probe.idle) == (Product.NVIDIA, 32, True)
    assert (cluster.probe.setup, cluster.probe.python) == ("source /a 'b'\"c", "/opt/bin/python")


def test_pods_of_a_job_find_each_other_before_they_are_ready() -> None:
    _, service, job = read(wanted())
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert service["spec"]["selector"] == {"job-name": job["metadata"]["name"]}
    assert template(wanted())["spec"]["subdomain"] == service["metadata"]["name"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_init_container_has_the_devices_of_the_main_one_and_no_secret(kind: WorkloadKind) -> None:
    spec = template(wanted(kind))["spec"]
    (init,), (main_,) = spec["initContainers"], spec["containers"]
    assert init["resources"] == main_["resources"] == {"limits": {"nvidia.com/gpu": "8"}}
    assert spec["restartPolicy"] == "Never"
    assert spec["automountServiceAccountToken"] is False
    assert init["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    (token,) = (one for one in init["env"] if one["name"] == "PREFLIGHT_TOKEN")
    assert token["valueFrom"] == {"secretKeyRef": {"name": "train-preflight", "key": "token"}}
    assert not any(one["kind"] == "Secret" for one in read(wanted(kind)))


def test_an_npu_is_opened_by_root_whoever_owns_it() -> None:
    (init,) = template(wanted(resource="huawei.com/Ascend910"))["spec"]["initContainers"]
    assert init["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["DAC_OVERRIDE"]}


def test_a_pod_that_the_probe_ends_ends_the_job() -> None:
    spec = workload(wanted())["spec"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 4, 4)
    (rule,) = spec["podFailurePolicy"]["rules"]
    containers = template(wanted())["spec"]["initContainers"]
    assert rule["onExitCodes"] == {"containerName": containers[0]["name"], "operator": "In", "values": [42, 43, 44]}


def test_a_jobset_is_shaped_as_its_types_say() -> None:
    """Structure only: no schema of JobSet's is at hand."""
    one = workload(wanted(WorkloadKind.JOBSET))
    assert (one["apiVersion"], one["kind"]) == ("jobset.x-k8s.io/v1alpha2", "JobSet")
    assert set(one["spec"]) == {"network", "failurePolicy", "replicatedJobs"}
    assert one["spec"]["network"] == {
        "enableDNSHostnames": True, "publishNotReadyAddresses": True, "subdomain": "train",
    }  # fmt: skip
    assert one["spec"]["failurePolicy"]["rules"] == [
        {
            "name": "preflight",
            "action": "RestartJobSetAndIgnoreMaxRestarts",
            "onJobFailureReasons": ["PodFailurePolicy"],
        }
    ]
    (replicated,) = one["spec"]["replicatedJobs"]
    assert (replicated["name"], replicated["replicas"], set(replicated["template"])) == ("worker", 1, {"spec"})
    assert "subdomain" not in template(wanted(WorkloadKind.JOBSET))["spec"]  # which JobSet sets


def test_a_volcano_job_is_shaped_as_its_types_say() -> None:
    """Structure only: no schema of Volcano's is at hand."""
    one = workload(wanted(WorkloadKind.VOLCANO))
    assert (one["apiVersion"], one["kind"]) == ("batch.volcano.sh/v1alpha1", "Job")
    spec = one["spec"]
    assert spec["plugins"] == {"svc": ["--publish-not-ready-addresses=true"], "env": []}
    assert (spec["schedulerName"], spec["minAvailable"]) == ("volcano", 4)
    assert {policy["event"]: policy["action"] for policy in spec["policies"]} == {
        "PodFailed": "RestartJob", "PodEvicted": "RestartJob",
    }  # fmt: skip
    (task,) = spec["tasks"]
    assert (task["name"], task["replicas"], set(task)) == ("worker", 4, {"name", "replicas", "template"})


words = st.text(st.characters(blacklist_categories=("C", "Z"), whitelist_characters=" \t\n")).filter(
    lambda word: all(one.isprintable() or one in "\t\n" for one in word)
)


TRAPS = ("1e3", "y", "~", "0o7", "- a", "{}", "a: b", "#", "null", "1:30", "$$", "$(A)", "$A $(A) $$$(A)")


@settings(deadline=None)
@given(st.lists(words | st.sampled_from(TRAPS), min_size=1))
def test_what_was_typed_is_what_runs(command: list[str]) -> None:
    (main_,) = template(wanted(command=tuple(command)))["spec"]["containers"]
    assert [expanded(word) for word in main_["command"]] == command


def expanded(word: str) -> str:
    """As Kubernetes reads it where no variable is known (third_party/forked/golang/expansion): $$ is $, and $(NAME)
    stays."""
    found, at = "", 0
    while at < len(word):
        two = word[at : at + 2]
        assert two != "$(" or ")" not in word[at:], "it would be taken for a variable"
        found += "$" if two == "$$" else word[at]
        at += 2 if two == "$$" else 1
    return found


def test_text_that_another_yaml_takes_for_a_number_is_quoted() -> None:
    said = text_of(wanted(command=("1e3", "y", "0o7", "off", "")))
    assert all(f'- "{word}"\n' in said for word in ("1e3", "y", "0o7", ""))
    assert "- 'off'\n" in said


def test_every_line_of_the_head_is_a_comment_and_the_rest_is_what_was_made() -> None:
    assert read(wanted()) == objects(wanted())
    assert text_of(wanted()).splitlines()[2].startswith("#   head -c 24 /dev/urandom | base64 | kubectl create secret")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"name": "Train"}, "--name 'Train' is not a host name"),
        ({"name": "4train"}, "begin with a letter"),
        ({"name": "train-"}, "do not end with a dash"),
        ({"name": "train.a"}, "small letters, digits and dashes"),
        ({"name": ""}, "small letters"),
        ({"name": "train\n"}, "small letters"),
        ({"name": "züge"}, "small letters"),
        ({"name": "a" * 62}, "the last pod's name a+-3 has 64 characters"),
        ({"name": "a" * 55, "kind": WorkloadKind.JOBSET}, "the last pod's name a+-worker-0-3 has 66 characters"),
        ({"replicas": 0}, "--replicas 0: must be a number from 1 to 10000"),
        ({"replicas": -1}, "--replicas -1: must be a number"),
        ({"replicas": 10**9}, "--replicas 1000000000: must be a number"),
        ({"devices": 0}, "--devices 0: must be a number from 1 to 64"),
        ({"devices": 65}, "--devices 65: must be a number"),
        ({"image": ""}, "--image '' is not an image"),
        ({"image": "a b"}, "--image 'a b' is not an image"),
        ({"image": "a\nkind: Secret"}, "is not an image"),
        ({"preflight_image": "-x"}, "--preflight-image '-x' is not an image"),
        ({"resource": "gpu"}, "--resource 'gpu' is not a device resource"),
        ({"resource": "nvidia.com/g pu"}, "is not a device resource"),
        ({"resource": "amd.com/gpu"}, "does not identify the product. Set --product"),
        ({"command": ("a\0b",)}, "characters that are not allowed in a manifest"),
        ({"command": ("\udcff",)}, "characters that are not allowed in a manifest"),
        ({"setup": "a\nb"}, "--setup 'a.+b': must be one line"),
        ({"python": "a\x1bb"}, "--python 'a.+b': must be one line"),
    ],
)
def test_what_kubernetes_would_refuse_is_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        wanted(**changes)


ASKED = ("gate", "manifest", "--name", "train", "--image", "i", "--replicas", "2", "--devices", "1")


def test_the_command_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ASKED, "--kind", "volcano", "--product", "cpu", "--", "sh", "-c", "echo --name $x"]) == 0
    *_, job = yaml.safe_load_all(capsys.readouterr().out)
    (container,) = job["spec"]["tasks"][0]["template"]["spec"]["containers"]
    assert container["command"] == ["sh", "-c", "echo --name $x"]


@pytest.mark.parametrize("options", [("--replicas", "two"), ("--kind", "pod"), ("--product", "tpu"), ("--name", "A")])
def test_the_command_ends_with_2_for_what_is_wrong(
    options: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main([*ASKED, *options])
    except SystemExit as left:
        code = int(str(left.code))
    assert code == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)


PAGE = (Path(__file__).parents[3] / "docs" / "kubernetes.md").read_text()


def test_the_command_of_the_page_prints_a_job(capsys: pytest.CaptureFixture[str]) -> None:
    (command,) = re.findall(r"^preflight (gate manifest .*?) > train.yaml$", PAGE, re.MULTILINE | re.DOTALL)
    assert main(shlex.split(command.replace("\\\n", " "))) == 0
    for one in yaml.safe_load_all(capsys.readouterr().out):
        kubernetes_validate.validate(one, VERSIONS[-1], strict=True)


def test_the_page_s_init_container_is_one() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    spec = {**yaml.safe_load(text), "containers": [{"name": "main", "image": "i"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec}
    kubernetes_validate.validate(pod, VERSIONS[-1], strict=True)
