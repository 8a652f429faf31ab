"""Our rules for nftables as we write them, and as a real nft prints them: facts and plans compare the two as text."""

import subprocess
from ipaddress import ip_network

import pytest

from preflight.model.ports import PortSet
from preflight.rules.firewall import persistent_rules
from preflight.rules.firewall.dialects import nft

pytestmark = pytest.mark.lab


@pytest.mark.parametrize("listed", ["29500", "29500-29501", "29500,60000-60031", "22,80,443,6000-6009"])
@pytest.mark.parametrize(
    "network",
    ["10.1.0.0/16", "10.1.0.7/32", "0.0.0.0/0", "10.1.0.9/32 10.1.0.7/32 10.1.0.8/32", "fd00:1::/64", "fd00:1::7/128"],
)
def test_our_rule_is_what_a_real_nft_prints_for_it(listed: str, network: str) -> None:
    rule = nft.ours(tuple(ip_network(one) for one in network.split()), PortSet.parse(listed))
    other = nft.ours((ip_network("10.1.0.0/16"),), PortSet.parse("1"))
    script = "table inet filter {\n chain input {\n type filter hook input priority 0; policy drop;\n }\n}\n"
    script += persistent_rules.own_file({"inet filter input": (rule, other)})
    shown = subprocess.run(
        ["unshare", "--net", "sh", "-c", "nft -f - && nft list chain inet filter input"], input=script, text=True,
        capture_output=True, check=True,
    ).stdout  # fmt: skip
    lines = [line.strip() for line in shown.splitlines() if "preflight" in line]
    assert lines == [rule, other], "in the order wanted"
