"""Every parser by the name that `preflight parse` and the tests know it by."""

from collections.abc import Callable

from preflight.facts import firewalld, hccn_conf, hccn_tool, ip, iptables, nft, npu_smi, ss, sysctl, ufw, versions

PARSERS: dict[str, Callable[[str], object]] = {
    "firewalld.zones": firewalld.zones,
    "hccn.conf": hccn_conf.entries,
    **{f"hccn_tool.{query}": read for query, read in hccn_tool.READERS.items()},
    "hccn_tool.ip": hccn_tool.ip,
    "hccn_tool.ping": hccn_tool.ping,
    "ip.address": ip.address,
    "ip.route": ip.route,
    "iptables.input": iptables.chain,
    "nft.ruleset": nft.ruleset,
    "npu-smi.board": npu_smi.board,
    "npu-smi.common": npu_smi.common,
    "npu-smi.hccs": npu_smi.hccs,
    "npu-smi.health": npu_smi.health,
    "npu-smi.info": npu_smi.info,
    "npu-smi.list": npu_smi.listing,
    "npu-smi.mapping": npu_smi.mapping,
    "npu-smi.proc-mem": npu_smi.processes,
    "npu-smi.spod-info": npu_smi.superpod,
    "npu-smi.topo": npu_smi.topology,
    "npu-smi.usages": npu_smi.usages,
    "os-release": versions.os_release,
    "ss.tcp": ss.tcp,
    "sysctl.reserved-ports": sysctl.reserved_ports,
    "ufw.conf": ufw.enabled,
    "ufw.rules": ufw.rules,
    "version.cfg": versions.version_cfg,
    "version.info": versions.version_info,
    "install.info": versions.install_info,
}
