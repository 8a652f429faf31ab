"""`preflight capture --anonymous` of hosts whose files, variables and rules name a company: nothing of it is left."""

import base64
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.lab.conftest import LabHandle, MakeLab, preflight
from tests.lab.test_capture import findings

pytestmark = pytest.mark.lab

DOMAIN = "hz.acme-robots.cn"
MACHINES = ("bj-train-07", "stor9", "gpu-login3", "old-head5", "bmc-rack12", "acmeproxy", "pypicache")
PEOPLE = ("zhangsan", "li.si")
ADDRESSES = ("10.77.6.7", "10.77.6.8", "172.20.9.9")
SEARCHED = ("acme-robots.cn", "acme-labs.internal", *MACHINES, *PEOPLE, *ADDRESSES)
HOSTS = f"""
10.77.6.7 bj-train-07.{DOMAIN} bj-train-07 # behind gpu-login3, ask zhangsan@acme-robots.cn
# 10.77.6.8 old-head5.{DOMAIN} old-head5
"""
FILES = {
    "/etc/resolv.conf": f"search {DOMAIN} acme-labs.internal\n",
    "/etc/sysctl.d/90-cluster.conf": "# copied from bmc-rack12 by zhangsan, for 172.20.9.9\n"
    "net.ipv4.ip_local_reserved_ports = 29500,60000-60031\n",
    "/etc/security/limits.d/90-cluster.conf": f"# see https://wiki.{DOMAIN}/limits#GPU-LOGIN3\n* soft nofile 65536\n",
    "/etc/hccl/hccl_10.77.6.7.json": json.dumps({"version": "1.0", "status": "completed", "server_count": "1",
        "server_list": [{"server_id": "10.77.6.7", "host_ip": "10.77.6.7", "device": []}],
        "note": "7.6.77.10.in-addr.arpa http%3A%2F%2Fstor9." + DOMAIN + "%2Fx "
        + base64.b64encode(f"login li.si@bj-train-07.{DOMAIN}".encode()).decode()}),
}  # fmt: skip
VARIABLES = {
    "MASTER_ADDR": "old-head5", "RANK_TABLE_FILE": "/etc/hccl/hccl_10.77.6.7.json", "HCCL_IF_IP": "10.77.6.8",
    "NCCL_STORE_HOST": "STOR9:7000", "TORCH_HOME": "/home/zhangsan/torch", "ASCEND_PROXY": "http://acmeproxy:3128",
    "HCCL_MIRROR": f"https://pypicache.{DOMAIN}/simple",
}  # fmt: skip


@pytest.fixture(scope="module")
def lab(make_lab: MakeLab) -> LabHandle:
    lab = make_lab(hosts=2, devices=2, product="atlas-a2")
    lab.lab("break", "optics-weak", "--host", "node02", "--device", "1")
    for host in ("node01", "node02"):
        commands = [f"printf %s {shlex.quote(HOSTS)} >>/etc/hosts", "mkdir -p /etc/hccl"]
        commands += [f"printf %s {shlex.quote(text)} >{path}" for path, text in FILES.items()]
        commands.append("ufw allow from 172.20.9.9 comment 'stor9 of zhangsan' >/dev/null 2>&1; true")
        done = lab.ssh(host, "\n".join(commands))
        assert done.returncode == 0, done.stderr
    text = lab.inventory.read_text(encoding="utf-8")
    exports = "; ".join(f"export {name}={value}" for name, value in VARIABLES.items())
    text = re.sub(r'(?m)^setup = "(.*)"$', rf'setup = "\1; {exports}"', text)
    lab.inventory.write_text(text.replace("[probe]", "[host_setup]\nhosts_file = true\n\n[probe]"), encoding="utf-8")
    return lab


def decoded(text: str) -> str:
    """The text, and what its words in base64 and hexadecimal stand for."""
    parts = [text]
    for word in re.findall(r"[A-Za-z0-9+/]{12,}={0,2}", text):
        usual = word.rstrip("=")[: len(word) // 4 * 4]
        parts.append(base64.b64decode(usual + "=" * (-len(usual) % 4)).decode("latin-1") if len(usual) % 4 != 1 else "")
    parts += [bytes.fromhex(word).decode("latin-1") for word in re.findall(r"(?:[0-9a-f]{2}){4,}", text)]
    return "\n".join(parts)


def forms(identifier: str) -> set[str]:
    """How an identifier may stand in a text, in lower case."""
    shapes = {
        identifier,
        ".".join(reversed(identifier.split("."))),
        identifier.replace(".", "-"),
        identifier.encode().hex(),
    }
    return {shape.lower() for shape in shapes}


def test_nothing_that_names_the_company_is_left_and_no_finding_changes(lab: LabHandle, tmp_path: Path) -> None:
    texts = {}
    for name, options in (("plain", ()), ("hidden", ("--anonymous",))):
        done = preflight("capture", "-i", lab.inventory, "--out", tmp_path / f"{name}.json", *options, check=False)
        assert done.returncode in (0, 3), done.stderr
        texts[name] = decoded((tmp_path / f"{name}.json").read_text(encoding="utf-8")).lower()
    in_plain = [it for it in SEARCHED if any(form in texts["plain"] for form in forms(it))]
    assert in_plain == list(SEARCHED), "the lab has to show each of them"
    assert [it for it in (*SEARCHED, "node01", "node02", *lab.addresses.values())
            if any(form in texts["hidden"] for form in forms(it))] == []  # fmt: skip
    plain = findings("--from", tmp_path / "plain.json")
    assert {it[1] for it in plain} >= {"fail", "pass"}
    assert findings("--from", tmp_path / "hidden.json") == plain


def test_a_name_has_one_stand_in_wherever_it_is(lab: LabHandle, tmp_path: Path) -> None:
    preflight("capture", "-i", lab.inventory, "--out", tmp_path / "hidden.json", "--anonymous")
    document: dict[str, Any] = json.loads((tmp_path / "hidden.json").read_text(encoding="utf-8"))
    sections = document["hosts"]["host1"]["sections"]
    variables = sections["job"]["value"]["deep"]["variables"]
    hosts = sections["environment"]["value"]["hosts"]
    assert variables["MASTER_ADDR"] in hosts
    assert variables["MASTER_ADDR"].startswith("name-")
    assert variables["HCCL_IF_IP"] in hosts
    address = re.search(r"hccl_([\d.]+)\.json", variables["RANK_TABLE_FILE"])
    assert address
    assert f"{address[1]} name-" in hosts
