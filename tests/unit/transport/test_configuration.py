"""Where a connection goes and with which keys: inventory, then ssh's configuration files, then its defaults."""

import getpass
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from paramiko import PKey

from preflight.model.cluster import Bastion, Host, Ssh
from preflight.model.errors import UsageError
from preflight.transport.errors import Target
from preflight.transport.login import KeyFiles, offer
from preflight.transport.ssh_command import ssh_argv
from preflight.transport.ssh_config import Endpoint, SshConfig
from preflight.transport.ssh_log import failure
from preflight.transport.types import ErrorKind, Options, TransportError


def endpoint(home: Path, config: str, host: Host | None = None, notices: list[str] | None = None) -> Endpoint:
    (home / ".ssh").mkdir(exist_ok=True)
    (home / ".ssh" / "config").write_text(config)
    notice = (notices if notices is not None else []).append
    return SshConfig(notice, home=home).endpoint(host or Host("node01", "compute"))


def test_without_any_configuration_ssh_defaults_hold(tmp_path: Path) -> None:
    found = endpoint(tmp_path, "")
    assert found.target == Target("node01", "compute", 22, getpass.getuser())
    assert found.keys == tuple(f"{tmp_path}/.ssh/{name}" for name in ("id_ed25519", "id_ecdsa", "id_rsa"))
    assert found.known_hosts[0] == f"{tmp_path}/.ssh/known_hosts"
    assert "/etc/ssh/ssh_known_hosts" in found.known_hosts
    assert found.known_as == "compute"
    assert found.via is None


CONFIG = """
Host compute
  HostName 10.1.0.11
  Port 2222
  User ops
  IdentityFile ~/.ssh/cluster
  IdentitiesOnly yes
  HostKeyAlias rack-1
  UserKnownHostsFile /srv/known_hosts ~/more
  HashKnownHosts yes
"""


def test_the_configuration_file_counts_where_the_inventory_is_silent(tmp_path: Path) -> None:
    found = endpoint(tmp_path, CONFIG)
    assert found.target == Target("node01", "10.1.0.11", 2222, "ops")
    assert [Path(key).name for key in found.keys] == ["cluster"]
    assert found.only_these_keys
    assert found.hash_names
    assert found.known_as == "rack-1"
    assert found.known_hosts[:2] == ("/srv/known_hosts", f"{tmp_path}/more")


def test_the_inventorys_own_settings_win(tmp_path: Path) -> None:
    ssh = Ssh(user="root", port=22, key="/srv/key", known_hosts="/srv/only")
    found = endpoint(tmp_path, CONFIG, Host("node01", "compute", ssh))
    assert (found.target.user, found.target.port) == ("root", 22)
    assert found.keys[0] == "/srv/key"
    assert found.known_hosts == ("/srv/only",)


def test_another_port_has_a_name_of_its_own_in_known_hosts(tmp_path: Path) -> None:
    assert endpoint(tmp_path, "", Host("node01", "10.1.0.11", Ssh(port=2222))).known_as == "[10.1.0.11]:2222"


def test_proxy_jump_is_followed_hop_by_hop(tmp_path: Path) -> None:
    config = "Host compute\n ProxyJump outer,ops@inner:2022\nHost outer\n HostName 192.0.2.1\n User gate\n"
    found = endpoint(tmp_path, config)
    assert found.via
    assert found.via.via
    assert found.via.target == Target("bastion inner", "inner", 2022, "ops", via="192.0.2.1")
    assert found.via.via.target == Target("bastion outer", "192.0.2.1", 22, "gate")


def test_the_inventorys_bastion_wins_over_proxy_jump_and_takes_the_clusters_key(tmp_path: Path) -> None:
    ssh = Ssh(bastion=Bastion("gate", user="ops", port=2022), key="/srv/key", known_hosts="/srv/known")
    found = endpoint(tmp_path, "Host compute\n ProxyJump other\n", Host("node01", "compute", ssh))
    assert found.via
    assert found.via.target == Target("bastion gate", "gate", 2022, "ops")
    assert found.via.keys == ("/srv/key",)
    assert found.via.known_hosts == ("/srv/known",)
    assert found.via.via is None


def test_a_jump_for_all_hosts_does_not_apply_to_the_jump_host_itself(tmp_path: Path) -> None:
    found = endpoint(tmp_path, "Host *\n ProxyJump gate\n")
    assert found.via
    assert found.via.via is None


def test_jumps_in_a_circle_end_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(TransportError, match="loop") as raised:
        endpoint(tmp_path, "Host compute\n ProxyJump a\nHost a\n ProxyJump b\nHost b\n ProxyJump a\n")
    assert raised.value.kind is ErrorKind.BASTION


def test_a_proxy_command_is_left_to_the_systems_ssh(tmp_path: Path) -> None:
    with pytest.raises(TransportError) as raised:
        endpoint(tmp_path, "Host compute\n ProxyCommand connect %h %p\n")
    assert raised.value.kind is ErrorKind.BASTION
    assert 'transport = "openssh"' in raised.value.remedy
    assert endpoint(tmp_path, "Host compute\n ProxyCommand none\n").via is None


def test_an_include_with_directives_is_reported(tmp_path: Path) -> None:
    notices: list[str] = []
    endpoint(tmp_path, "Include conf.d/*\n", notices=notices)
    assert notices == []
    (tmp_path / ".ssh" / "conf.d").mkdir()
    (tmp_path / ".ssh" / "conf.d" / "site").write_text("# nothing\nUser ops\n")
    endpoint(tmp_path, "Include conf.d/*\n", notices=notices)
    assert len(notices) == 1
    assert "openssh" in notices[0]


@pytest.mark.parametrize(
    "config",
    [
        "Host\n",
        "Host compute\n Port many\n",
        "Host compute\n ProxyJump a:b:c\n",
        'Match host "compute\n',
        "[" * 9999 + "\n",
        f"Host compute\n Port {'9' * 9999}\n",
    ],
    ids=lambda config: config[:20],
)
def test_a_damaged_configuration_ends_in_a_short_usage_error(tmp_path: Path, config: str) -> None:
    with pytest.raises(UsageError, match=r"\.ssh/config") as raised:
        endpoint(tmp_path, config)
    assert len(str(raised.value)) < 600


@pytest.mark.parametrize("target", ["/dev/zero", "large"])
def test_a_configuration_without_an_end_is_a_usage_error(tmp_path: Path, target: str) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(2 << 30)
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/config").symlink_to(tmp_path / target)
    with pytest.raises(
        UsageError, match=r"\.ssh/config cannot be read: (larger than 16 MiB|this is not a regular file)"
    ):
        SshConfig(lambda _: None, home=tmp_path)


def test_a_configuration_that_leads_to_dev_null_is_empty(tmp_path: Path) -> None:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/config").symlink_to("/dev/null")
    assert SshConfig(lambda _: None, home=tmp_path).endpoint(Host("node01", "compute")).target.port == 22


# --- keys ---


def new_key(path: Path, passphrase: str = "") -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-f", str(path)], check=True)
    return path


def offered(tmp_path: Path, keys: list[Path], agent: list[Path] | None = None, *, only: bool = False) -> list[str]:
    place = endpoint(tmp_path, "")
    agent_keys = tuple(PKey.from_path(str(key)) for key in agent or [])
    names = tuple(str(key) for key in keys)
    result = offer(replace(place, keys=names, only_these_keys=only), KeyFiles(), agent_keys)
    return [Path(name).name for name, _ in result.keys]


def test_named_keys_come_first_and_none_comes_twice(tmp_path: Path) -> None:
    named, held, spare = (new_key(tmp_path / name) for name in ("named", "held", "spare"))
    assert offered(tmp_path, [named, held], agent=[spare, held]) == ["named", "held", "a key in the agent"]


def test_identities_only_leaves_the_agents_other_keys_out(tmp_path: Path) -> None:
    named, spare = new_key(tmp_path / "named"), new_key(tmp_path / "spare")
    assert offered(tmp_path, [named], agent=[spare], only=True) == ["named"]


def test_an_encrypted_key_is_offered_through_the_agent_that_holds_it(tmp_path: Path) -> None:
    open_key = new_key(tmp_path / "open")
    locked = tmp_path / "locked"
    locked.write_bytes(open_key.read_bytes())
    locked.chmod(0o600)
    subprocess.run(
        ["ssh-keygen", "-q", "-p", "-P", "", "-N", "secret", "-f", str(locked)], check=True, capture_output=True
    )
    (tmp_path / "locked.pub").write_bytes((tmp_path / "open.pub").read_bytes())
    assert offered(tmp_path, [locked]) == []
    assert offered(tmp_path, [locked], agent=[open_key], only=True) == ["locked"]


def test_a_public_key_file_names_a_key_of_the_agent(tmp_path: Path) -> None:
    key = new_key(tmp_path / "key")
    assert offered(tmp_path, [tmp_path / "key.pub"], agent=[key], only=True) == ["key.pub"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is not a supported private key"),
        (b"\x00\xff garbage", "is not a supported private key"),
        (None, "does not exist"),
    ],
)
def test_problems_with_key_files_are_reported(tmp_path: Path, content: bytes | None, problem: str) -> None:
    if content is not None:
        (tmp_path / "key").write_bytes(content)
    assert problem in KeyFiles()[str(tmp_path / "key")].problem


def test_a_key_file_without_an_end_is_not_read() -> None:
    assert KeyFiles()["/dev/zero"].problem == "cannot be read: this is not a regular file"


def test_an_encrypted_key_is_reported_as_encrypted(tmp_path: Path) -> None:
    assert "is encrypted" in KeyFiles()[str(new_key(tmp_path / "key", "secret"))].problem


# --- the system's ssh ---

LOG = Path("/tmp/log")


def argv(ssh: Ssh, *, accept_new: bool = False) -> list[str]:
    options = Options(accept_new=accept_new)
    return ssh_argv(Host("node01", "10.1.0.11", ssh), options, log=LOG, bastion_log=LOG, command="exec sh -c 'x'")


def test_ssh_never_prompts_and_trusts_no_unknown_key() -> None:
    words = argv(Ssh())
    assert "BatchMode=yes" in words
    assert "StrictHostKeyChecking=yes" in words
    assert words[-3:] == ["--", "10.1.0.11", "exec sh -c 'x'"]
    assert "StrictHostKeyChecking=accept-new" in argv(Ssh(), accept_new=True)


def test_ssh_gets_the_settings_of_the_inventory_and_no_others() -> None:
    words = argv(Ssh(user="ops", port=2222, key="/srv/100%/key", known_hosts="/srv/known hosts"))
    assert words[words.index("-l") : words.index("-l") + 4] == ["-l", "ops", "-p", "2222"]
    assert words[words.index("-i") + 1] == "/srv/100%%/key"
    assert 'UserKnownHostsFile="/srv/known hosts"' in words
    assert not {"-l", "-p", "-i"} & set(argv(Ssh()))


def test_the_bastion_is_held_to_the_same_policy() -> None:
    words = argv(Ssh(bastion=Bastion("gate way", user="ops"), known_hosts="/srv/known"))
    (command,) = [word for word in words if word.startswith("ProxyCommand=")]
    assert "StrictHostKeyChecking=yes" in command
    assert "/srv/known" in command
    assert "-l ops" in command
    assert command.endswith(" -W [%h]:%p -- 'gate way'")


def test_an_unknown_error_of_ssh_is_passed_on() -> None:
    log = "debug1: Connecting\nUnable to negotiate with 10.1.0.11 port 22: no matching host key type found.\n"
    error = failure(log, Target("node01", "10.1.0.11"), Options(), ())
    assert error.kind is ErrorKind.REFUSED
    assert "no matching host key type found" in error.summary
