"""What known_hosts files say of a key, against OpenSSH's own tools where those can tell."""

import base64
import subprocess
from pathlib import Path

import pytest

from preflight.model.errors import UsageError
from preflight.transport.known_hosts import HostKey, KeyStatus, KnownHosts, line_for, parse

ED = HostKey("ssh-ed25519", b"\x00\x00\x00\x0bssh-ed25519" + b"a" * 36)
OTHER = HostKey("ssh-ed25519", b"\x00\x00\x00\x0bssh-ed25519" + b"b" * 36)
RSA = HostKey("ssh-rsa", b"\x00\x00\x00\x07ssh-rsa" + b"c" * 36)


def line(hosts: str, key: HostKey, marker: str = "") -> str:
    return f"{marker} {hosts} {key.type} {base64.b64encode(key.blob).decode()}".strip() + "\n"


def known(tmp_path: Path, *lines: str) -> KnownHosts:
    (tmp_path / "known_hosts").write_text("".join(lines))
    return KnownHosts.read((str(tmp_path / "known_hosts"),))


def test_a_key_on_record_is_trusted_and_its_line_is_named(tmp_path: Path) -> None:
    judgement = known(tmp_path, "# comment\n", "\n", line("node01,10.1.0.11", ED)).judge("10.1.0.11", ED)
    assert judgement.status is KeyStatus.TRUSTED
    assert judgement.entry
    assert judgement.entry.at == f"{tmp_path}/known_hosts:3"


def test_names_are_compared_without_regard_to_case(tmp_path: Path) -> None:
    assert known(tmp_path, line("Node01", ED)).judge("NODE01", ED).status is KeyStatus.TRUSTED


def test_a_host_that_no_line_names_is_unknown(tmp_path: Path) -> None:
    assert known(tmp_path, line("node02", ED)).judge("node01", ED).status is KeyStatus.UNKNOWN


@pytest.mark.parametrize("target", ["/dev/zero", "large"])
def test_a_file_without_an_end_is_a_usage_error(tmp_path: Path, target: str) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(2 << 30)
    with pytest.raises(UsageError, match=r"larger than 128 MiB. Use|this is not a regular file. Use"):
        KnownHosts.read((str(tmp_path / target),))


def test_dev_null_counts_as_empty() -> None:
    assert KnownHosts.read(("/dev/null",)).judge("node01", ED).status is KeyStatus.UNKNOWN


def test_missing_files_count_as_empty(tmp_path: Path) -> None:
    assert KnownHosts.read((str(tmp_path / "none"),)).judge("node01", ED).status is KeyStatus.UNKNOWN


def test_another_key_of_the_same_type_is_a_change_and_the_line_of_that_type_is_named(tmp_path: Path) -> None:
    judgement = known(tmp_path, line("node01", RSA), line("node01", ED)).judge("node01", OTHER)
    assert judgement.status is KeyStatus.CHANGED
    assert judgement.entry
    assert judgement.entry.line == 2


def test_a_key_of_a_type_not_on_record_is_a_change_too(tmp_path: Path) -> None:
    assert known(tmp_path, line("node01", RSA)).judge("node01", ED).status is KeyStatus.CHANGED


def test_one_of_several_keys_on_record_is_enough(tmp_path: Path) -> None:
    assert known(tmp_path, line("node01", OTHER), line("node01", ED)).judge("node01", ED).status is KeyStatus.TRUSTED


def test_a_revoked_key_is_refused_even_where_another_line_trusts_it(tmp_path: Path) -> None:
    table = known(tmp_path, line("node01", ED), line("*", ED, "@revoked"))
    assert table.judge("node01", ED).status is KeyStatus.REVOKED
    assert (
        known(tmp_path, line("node01", ED), line("*", OTHER, "@revoked")).judge("node01", ED).status
        is KeyStatus.TRUSTED
    )


def test_a_certificate_authority_does_not_vouch_for_a_plain_key_but_is_mentioned(tmp_path: Path) -> None:
    judgement = known(tmp_path, line("*.example", ED, "@cert-authority")).judge("a.example", ED)
    assert judgement.status is KeyStatus.UNKNOWN
    assert judgement.entry
    assert judgement.entry.marker == "@cert-authority"


def test_other_ports_have_names_of_their_own_but_a_hosts_key_counts_on_all_of_them(tmp_path: Path) -> None:
    table = known(tmp_path, line("node01", ED), line("[node02]:2222", ED))
    assert table.judge("[node02]:2222", ED).status is KeyStatus.TRUSTED
    assert table.judge("node02", ED).status is KeyStatus.UNKNOWN
    assert table.judge("[node01]:2222", ED).status is KeyStatus.TRUSTED
    assert table.judge("[node01]:2222", OTHER).status is KeyStatus.UNKNOWN


@pytest.mark.parametrize(
    ("patterns", "name", "matches"),
    [
        ("*.example", "a.example", True),
        ("node0?", "node01", True),
        ("node0?", "node011", False),
        ("10.1.*,!10.1.9.*", "10.1.2.3", True),
        ("10.1.*,!10.1.9.*", "10.1.9.3", False),
        ("[10.1.0.*]:2222", "[10.1.0.5]:2222", True),
        ("[10.1.0.*]:2222", "1", False),
        ("node.1*", "nodex1", False),
    ],
)
def test_patterns_are_those_of_ssh(tmp_path: Path, patterns: str, name: str, matches: bool) -> None:
    status = known(tmp_path, line(patterns, ED)).judge(name, ED).status
    assert status is (KeyStatus.TRUSTED if matches else KeyStatus.UNKNOWN)


def test_names_hashed_by_ssh_keygen_are_found(tmp_path: Path) -> None:
    known(tmp_path, line("node01,10.1.0.11", ED), line("[node02]:2222", OTHER))
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", f"{tmp_path}/known_hosts"], check=True, capture_output=True)
    assert "node0" not in (tmp_path / "known_hosts").read_text()
    table = KnownHosts.read((f"{tmp_path}/known_hosts",))
    assert table.judge("10.1.0.11", ED).status is KeyStatus.TRUSTED
    assert table.judge("[node02]:2222", OTHER).status is KeyStatus.TRUSTED
    assert table.judge("node03", ED).status is KeyStatus.UNKNOWN


@pytest.mark.parametrize("hashed", [False, True])
def test_ssh_keygen_finds_the_lines_that_are_written(tmp_path: Path, hashed: bool) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(line_for("[node01]:2222", ED, hashed=hashed))
    found = subprocess.run(
        ["ssh-keygen", "-F", "[node01]:2222", "-f", str(file)], capture_output=True, text=True, check=True
    )
    assert base64.b64encode(ED.blob).decode() in found.stdout
    assert ("node01" in file.read_text()) is not hashed


def test_invalid_lines_are_skipped(tmp_path: Path) -> None:
    odd = "half\n|1|x|y ssh-rsa AAAA\n|2|abc ssh-rsa AAAA\n@strange a ssh-rsa AAAA\n@revoked\n\x00\x01\n"
    (tmp_path / "known_hosts").write_bytes(
        odd.encode() + b"node01 ssh-rsa !!!\n\xff\xfe x\n" + line("node01", ED).encode()
    )
    table = KnownHosts.read((f"{tmp_path}/known_hosts",))
    assert table.judge("node01", ED).status is KeyStatus.TRUSTED


def test_a_damaged_key_counts_as_no_line_at_all(tmp_path: Path) -> None:
    assert known(tmp_path, "node01 ssh-ed25519 A\n").judge("node01", ED).status is KeyStatus.UNKNOWN


def test_the_types_on_record_come_in_the_order_of_the_file(tmp_path: Path) -> None:
    table = known(tmp_path, line("node01", RSA), line("node01", ED), line("node01", OTHER), line("*", RSA, "@revoked"))
    assert table.key_types("node01") == ("ssh-rsa", "ssh-ed25519")
    assert table.key_types("[node01]:2222") == ("ssh-rsa", "ssh-ed25519")
    assert table.key_types("node02") == ()


def test_fingerprints_are_those_of_ssh_keygen(tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{tmp_path}/key"], check=True)
    listed = subprocess.run(["ssh-keygen", "-lf", f"{tmp_path}/key.pub"], capture_output=True, text=True, check=True)
    text = (tmp_path / "key.pub").read_text().split()
    assert HostKey(text[0], base64.b64decode(text[1])).fingerprint == listed.stdout.split()[1]


def test_comments_behind_the_key_may_hold_anything() -> None:
    (entry,) = parse("node01 ssh-ed25519 AAAA root@node01 with words\n", "f")
    assert (entry.hosts, entry.key_type, entry.key) == ("node01", "ssh-ed25519", "AAAA")
