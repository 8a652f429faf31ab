"""Every parser by the name that `preflight parse` and the tests know it by."""

from collections.abc import Callable

from preflight.facts.parsers import rdma
from preflight.facts.parsers.ascend import device_nodes, hccl_test, hccn_conf, hccn_tool, npu_smi, packages
from preflight.facts.parsers.linux import firewalld, ip, iptables, nft, ss, sysctl, ufw, versions
from preflight.facts.parsers.nvidia import nccl_tests, nvidia_logs, nvidia_smi

PARSERS: dict[str, Callable[[str], object]] = {
    "ascend_install.info": packages.driver_install,
    "device-nodes": device_nodes.listed_nodes,
    "fabricmanager.log": nvidia_logs.fabric_manager,
    "firewalld.zones": firewalld.zones,
    "hccl_test": hccl_test.hccl_test,
    "hccn.conf": hccn_conf.entries,
    **{f"hccn_tool.{query}": read for query, read in hccn_tool.QUERIES.items()},
    "hccn_tool.session": hccn_tool.session,
    "ibstat": rdma.ibstat,
    "ibstatus": rdma.ibstatus,
    "ibv_devinfo": rdma.ibv_devinfo,
    "infiniband.sysfs": rdma.infiniband,
    "ip.address": ip.address,
    "ip.route": ip.route,
    "iptables.input": iptables.chain,
    "kernel-log.xids": nvidia_logs.xids,
    "lspci": device_nodes.lspci,
    "nccl-tests": nccl_tests.nccl_tests,
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
    "nvidia-smi.few": nvidia_smi.few,
    "nvidia-smi.nvlink": nvidia_smi.nvlink,
    "nvidia-smi.nvlink-errors": nvidia_smi.nvlink_errors,
    "nvidia-smi.query": nvidia_smi.query,
    "nvidia-smi.table": nvidia_smi.table,
    "nvidia-smi.topo": nvidia_smi.topology,
    "os-release": versions.os_release,
    "rdma.link": rdma.rdma_link,
    "show_gids": rdma.show_gids,
    "ss.tcp": ss.tcp,
    "sysctl.reserved-ports": sysctl.reserved_ports,
    "ufw.conf": ufw.enabled,
    "ufw.rules": ufw.rules,
    "version.cfg": versions.version_cfg,
    "version.info": versions.version_info,
    "version.package": packages.package,
    "install.info": versions.install_info,
}
