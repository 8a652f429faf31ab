"""Every parser by the name that `preflight parse` and the tests know it by."""

from collections.abc import Callable

from preflight.facts import firewalld, hccn_conf, hccn_tool, ip, iptables, nft, npu_smi, ss, sysctl, ufw, versions

PARSERS: dict[str, Callable[[str], object]] = {
    "firewalld.zones": firewalld.zones,
    "hccn.conf": hccn_conf.entries,
    "hccn_tool.cfg": hccn_tool.cfg_status,
    "hccn_tool.gateway": hccn_tool.gateway,
    "hccn_tool.ip": hccn_tool.ip,
    "hccn_tool.link": hccn_tool.link,
    "hccn_tool.lldp": hccn_tool.lldp,
    "hccn_tool.mtu": hccn_tool.mtu,
    "hccn_tool.net_health": hccn_tool.net_health,
    "hccn_tool.netdetect": hccn_tool.netdetect,
    "hccn_tool.ping": hccn_tool.ping,
    "hccn_tool.tls": hccn_tool.tls,
    "ip.address": ip.address,
    "ip.route": ip.route,
    "iptables.input": iptables.chain,
    "nft.ruleset": nft.ruleset,
    "npu-smi.info": npu_smi.info,
    "npu-smi.mapping": npu_smi.mapping,
    "os-release": versions.os_release,
    "ss.tcp": ss.tcp,
    "sysctl.reserved-ports": sysctl.reserved_ports,
    "ufw.conf": ufw.enabled,
    "ufw.rules": ufw.rules,
    "version.cfg": versions.version_cfg,
    "version.info": versions.version_info,
    "install.info": versions.install_info,
}
