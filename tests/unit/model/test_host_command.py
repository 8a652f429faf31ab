"""A command for a host is complete, and what another shell would change in it is quoted."""

import pytest

from preflight.model.cluster import Host, Ssh
from preflight.model.host_command import on_host


@pytest.mark.parametrize(
    ("ssh", "command", "line"),
    [
        (Ssh(), "hccn_tool -i 3 -stat -g", "ssh 10.1.0.2 hccn_tool -i 3 -stat -g"),
        (Ssh(user="ops", port=2222), "dmesg", "ssh -p 2222 ops@10.1.0.2 dmesg"),
        (Ssh(user="root", port=22), "dmesg", "ssh root@10.1.0.2 dmesg"),
        (Ssh(sudo=True), "dmesg", "ssh 10.1.0.2 sudo dmesg"),
        (Ssh(), "dmesg | grep -i ecc", "ssh 10.1.0.2 'dmesg | grep -i ecc'"),
        (Ssh(), "ls $HOME/it's", "ssh 10.1.0.2 'ls $HOME/it'\"'\"'s'"),
        (Ssh(transport="local"), "dmesg | grep -i ecc", "dmesg | grep -i ecc"),
    ],
)
def test_a_command_is_ready_to_be_pasted(ssh: Ssh, command: str, line: str) -> None:
    assert on_host(Host("node02", "10.1.0.2", ssh), command) == line
