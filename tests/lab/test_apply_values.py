"""What `preflight/remote/apply` reads and writes: files, kernel settings, rules. It runs as on a host: a process of its
own, its request on stdin, its answer framed.
"""

import os
import stat
from pathlib import Path

import pytest

from tests.lab.local_host import CHAIN, RESERVED, RULE, RULESET, LocalHost, change, inside, reserved, states

pytestmark = pytest.mark.lab

# Files.


def test_a_new_file_is_written_with_its_directory(host: LocalHost, tmp_path: Path) -> None:
    path = tmp_path / "etc/preflight/new.conf"
    assert states(host.apply(change("file", path, None, "a\n"))) == ["done"]
    assert path.read_text() == "a\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert list(path.parent.iterdir()) == [path]


def test_a_file_keeps_owner_mode_and_every_byte_it_was_told_to_keep(host: LocalHost, tmp_path: Path) -> None:
    path = tmp_path / "sysctl.conf"
    path.write_bytes(b"kept \xff\r\nno newline at the end")
    path.chmod(0o640)
    os.chown(path, 12345, 54321)
    label = b"system_u:object_r:system_conf_t:s0\0"
    os.setxattr(path, "security.selinux", label)
    before = "kept \U0010ffff\r\nno newline at the end"  # as the collector sends it
    assert states(host.apply(change("file", path, before, "new\n" + before))) == ["done"]
    assert path.read_bytes() == b"new\nkept \xff\r\nno newline at the end"
    found = path.stat()
    assert (stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid) == (0o640, 12345, 54321)
    assert os.getxattr(path, "security.selinux") == label


def test_the_directories_that_a_run_made_go_with_the_file(host: LocalHost, tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    path = tmp_path / "theirs/made/preflight/new.conf"
    assert states(host.apply(change("file", path, None, "a\n"))) == ["done"]
    assert states(host.apply(*host.undo_of(), run="r2")) == ["done"]
    assert list(tmp_path.glob("theirs/**/*")) == []
    assert (tmp_path / "theirs").is_dir(), "the run has not made it"


def test_the_directories_that_a_run_made_go_where_the_file_cannot_be_written(host: LocalHost, tmp_path: Path) -> None:
    path = tmp_path / "made/preflight" / ("x" * 250)  # too long for the name of its part
    assert states(host.apply(change("file", path, None, "a\n"))) == ["failed"]
    assert not (tmp_path / "made").exists()


def test_a_directory_that_holds_something_else_by_now_stays(host: LocalHost, tmp_path: Path) -> None:
    path = tmp_path / "made/new.conf"
    host.apply(change("file", path, None, "a\n"))
    (tmp_path / "made/theirs").touch()
    assert states(host.apply(*host.undo_of(), run="r2")) == ["done"]
    assert [file.name for file in path.parent.iterdir()] == ["theirs"]


def test_a_file_with_other_names_is_not_split_from_them(host: LocalHost, tmp_path: Path) -> None:
    path, other = tmp_path / "a.conf", tmp_path / "other"
    path.write_text("before")
    os.link(path, other)
    answer = host.apply(change("file", path, "before", "after"))
    assert states(answer) == ["failed"]
    message = answer["results"][0]["message"]
    assert f"{path} has 2 hard links" in message
    assert message.endswith(f"find / -xdev -samefile {path}")
    assert (path.read_text(), path.stat().st_ino) == ("before", other.stat().st_ino)
    assert [file.name for file in tmp_path.glob(".*")] == []


def test_a_file_that_is_already_right_is_not_written(host: LocalHost, tmp_path: Path) -> None:
    path = tmp_path / "a.conf"
    path.write_text("after")
    inode = path.stat().st_ino
    assert states(host.apply(change("file", path, "before", "after"))) == ["already"]
    assert path.stat().st_ino == inode
    assert [event["event"] for event in host.events()] == ["start", "end", "finish"]


def test_a_file_that_somebody_else_changed_is_left_alone_and_stops_the_host(host: LocalHost, tmp_path: Path) -> None:
    path, later = tmp_path / "a.conf", tmp_path / "b.conf"
    path.write_text("somebody's")
    answer = host.apply(change("file", path, "before", "after"), change("file", later, None, "b"))
    assert states(answer) == ["moved", "not-run"]
    assert answer["results"][0]["found"] == "somebody's"
    assert path.read_text() == "somebody's"
    assert not later.exists()


def test_a_link_is_kept_and_what_it_points_to_is_changed(host: LocalHost, tmp_path: Path) -> None:
    target, link = tmp_path / "sysctl.conf", tmp_path / "99-sysctl.conf"
    target.write_text("old")
    link.symlink_to("sysctl.conf")
    assert states(host.apply(change("file", link, "old", "new"))) == ["done"]
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_a_link_that_leads_elsewhere_is_refused(host: LocalHost, tmp_path: Path) -> None:
    link = tmp_path / "masked.conf"
    link.symlink_to("/dev/null")
    answer = host.apply(change("file", link, "", "new"))
    assert states(answer) == ["failed"]
    assert "is a link to /dev/null. Change the target manually" in answer["results"][0]["message"]


def test_a_directory_in_a_files_place_is_refused(host: LocalHost, tmp_path: Path) -> None:
    answer = host.apply(change("file", tmp_path, None, "new"))
    assert states(answer) == ["failed"]
    assert "is not a regular file" in answer["results"][0]["message"]


def test_a_file_that_cannot_be_written_fails_with_the_systems_word(host: LocalHost) -> None:
    answer = host.apply(change("file", "/proc/preflight.conf", None, "new"))
    assert states(answer) == ["failed"]
    assert answer["results"][0]["message"].startswith("/proc/preflight.conf cannot be written: ")


def test_a_removed_file_is_gone(host: LocalHost, tmp_path: Path) -> None:
    path = tmp_path / "a.conf"
    path.write_text("old")
    assert states(host.apply(change("file", path, "old", None))) == ["done"]
    assert not path.exists()


# Programs.


def test_a_program_is_root_s_and_may_be_run_from_the_moment_that_it_is_there(host: LocalHost, tmp_path: Path) -> None:
    path = tmp_path / "sbin/tool"
    assert states(host.apply(change("program", path, None, "#!/bin/sh\n"))) == ["done"]
    found = path.stat()
    assert (stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid) == (0o755, 0, 0)
    assert path.read_text() == "#!/bin/sh\n"
    assert list(path.parent.iterdir()) == [path]
    assert states(host.apply(change("program", path, None, "#!/bin/sh\n"), run="r2")) == ["already"]


def test_another_s_file_in_a_program_s_place_comes_back_with_its_looks(host: LocalHost, tmp_path: Path) -> None:
    path = tmp_path / "tool"
    path.write_text("a list\n")
    path.chmod(0o640)
    os.chown(path, 12345, 54321)
    there = "0640 12345:54321\na list\n"
    assert states(host.apply(change("program", path, there, "#!/bin/sh\n"))) == ["done"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o755
    assert states(host.apply(change("program", path, "#!/bin/sh\n", there), run="r2")) == ["done"]
    found = path.stat()
    assert (stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid) == (0o640, 12345, 54321)
    assert path.read_text() == "a list\n"


def test_a_text_that_begins_like_looks_is_told_from_them(host: LocalHost, tmp_path: Path) -> None:
    path = tmp_path / "tool"
    path.write_text("0644 1:1\nx")
    path.chmod(0o755)
    answer = host.apply(change("program", path, "#!/bin/sh\n", None))
    assert (states(answer), answer["results"][0]["found"]) == (["moved"], "0755 0:0\n0644 1:1\nx")


def test_a_program_is_not_put_through_a_link(host: LocalHost, tmp_path: Path) -> None:
    target, link = tmp_path / "busybox", tmp_path / "tool"
    target.write_text("old")
    link.symlink_to("busybox")
    answer = host.apply(change("program", link, "old", "new"))
    assert states(answer) == ["failed"]
    assert "preflight's program must be a regular file" in answer["results"][0]["message"]
    assert target.read_text() == "old"


# Kernel settings and nftables, in a network namespace that goes with the test.


def test_reserved_ports_are_written_and_compared_as_sets(netns: LocalHost) -> None:
    assert states(netns.apply(change("sysctl", RESERVED, "", "30001,30000,60000-60031"))) == ["done"]
    assert reserved(netns) == "30000-30001,60000-60031"
    assert states(netns.apply(change("sysctl", RESERVED, "", "30000,30001,60000-60031"), run="r2")) == ["already"]
    assert states(netns.apply(change("sysctl", RESERVED, "30000-30001,60000-60031", ""), run="r3")) == ["done"]
    assert reserved(netns) == ""


def test_reserved_ports_that_changed_meanwhile_are_left_alone(netns: LocalHost) -> None:
    inside(netns, "sysctl", "-qw", f"{RESERVED}=40000")
    answer = netns.apply(change("sysctl", RESERVED, "", "60000"))
    assert states(answer) == ["moved"]
    assert answer["results"][0]["found"] == "40000"


def test_a_value_longer_than_one_write_takes_fails_and_says_so(netns: LocalHost) -> None:
    answer = netns.apply(change("sysctl", RESERVED, "", ",".join(str(port) for port in range(2, 6000, 2))))
    assert states(answer) == ["failed"]


def test_our_rules_go_in_at_the_top_and_replace_only_ours(netns: LocalHost) -> None:
    inside(netns, "nft", "-f", "-", stdin=RULESET)
    assert states(netns.apply(change("nft-rules", CHAIN, None, RULE))) == ["done"]
    netns.confirm()
    second = RULE.replace("/16", "/12") + "\n" + RULE.replace("{ 29500, 60000-60031 }", "{ 29501 }")
    assert states(netns.apply(change("nft-rules", CHAIN, RULE, second), run="r2")) == ["done"]
    netns.confirm("r2")
    rules = [line.strip() for line in inside(netns, "nft", "list", "chain", *CHAIN.split()).splitlines()[3:-2]]
    assert rules[0] == RULE.replace("/16", "/12")
    assert rules[1] == RULE.replace("{ 29500, 60000-60031 }", "29501")
    assert len(rules) == 4
    assert states(netns.apply(change("nft-rules", CHAIN, second, None), run="r3")) == ["done"]
    netns.confirm("r3")
    assert "60031" not in inside(netns, "nft", "list", "ruleset")


def test_a_chain_that_is_not_there_fails_in_words(netns: LocalHost) -> None:
    answer = netns.apply(change("nft-rules", CHAIN, None, RULE))
    assert states(answer) == ["failed"]
    assert answer["results"][0]["message"] == f"cannot read the current value: there is no chain {CHAIN}"


def test_a_chain_of_iptables_comes_back_whole_or_not_at_all(netns: LocalHost) -> None:
    for rule in ("-N guests", "-A INPUT -j guests", "-A INPUT -p tcp --dport 22 -j ACCEPT", "-P INPUT DROP"):
        inside(netns, "iptables-nft", *rule.split())
    before = inside(netns, "iptables-nft", "-S", "INPUT")
    assert states(netns.apply(change("iptables-input", "iptables-nft", "present", None))) == ["done"]
    netns.confirm()
    assert inside(netns, "iptables-nft", "-S", "INPUT") == "-P INPUT ACCEPT\n"
    (back,) = netns.undo_of()
    inside(netns, "iptables-nft", "-X", "guests")
    answer = netns.apply(back, run="r2")
    assert states(answer) == ["failed"]
    netns.confirm("r2")
    assert inside(netns, "iptables-nft", "-S", "INPUT") == "-P INPUT ACCEPT\n"
    inside(netns, "iptables-nft", "-N", "guests")
    assert states(netns.apply(back, run="r3")) == ["done"]
    netns.confirm("r3")
    assert inside(netns, "iptables-nft", "-S", "INPUT") == before
