"""The file tree of a whole system, made once by debootstrap and kept: hosts that boot are overlays over it.

It is the machine's own release, from the machine's own package mirror and by its own proxy: what apt says here. So the
tests name no mirror, and run where apt runs.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

# Between sessions, too: a tree costs a minute and 230 MB. Anybody may remove it while no test runs.
CACHE = Path("/var/cache/preflight-tests")
# One tree for every kind of host; which firewall filters is the host's matter. libpam-systemd: debootstrap does not see
# that it is the logind that polkitd, and so firewalld, depends on.
PACKAGES = (
    "systemd-sysv",
    "libpam-systemd",
    "dbus",
    "openssh-server",
    "python3",
    "nftables",
    "ufw",
    "firewalld",
    "sudo",
    "procps",
    "iproute2",
    "iputils-ping",
)
DPKG = "force-unsafe-io\n" + "".join(f"path-exclude=/usr/share/{name}/*\n" for name in ("doc", "man", "locale", "info"))
# No firewall until the host's first boot chooses one, and nothing that runs by itself some day.
SETTLE = """
systemctl disable -q nftables ufw firewalld
systemctl mask -q apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer
rm -rf /debootstrap /var/cache/apt/* /var/lib/apt/lists/* /var/log/* /etc/ssh/ssh_host_* /etc/hostname /etc/resolv.conf
: > /etc/machine-id
"""


def debian_tree() -> Path:
    """Return the tree; make it if this machine has none of this recipe. Fails the test where that is impossible."""
    suite = _os_release()["VERSION_CODENAME"]
    recipe = "\n".join((suite, _said_by("dpkg", "--print-architecture"), *PACKAGES, DPKG, SETTLE))
    tree = CACHE / f"{suite}-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with _locked(CACHE):
        if not tree.exists():
            unfinished = CACHE / "unfinished"
            shutil.rmtree(unfinished, ignore_errors=True)
            _bootstrap(suite, unfinished)
            unfinished.rename(tree)
    return tree


def _bootstrap(suite: str, tree: Path) -> None:
    mirror, components = _mirror(suite)
    settings = tree / "etc" / "dpkg" / "dpkg.cfg.d" / "preflight-tests"
    settings.parent.mkdir(parents=True)
    settings.write_text(DPKG)
    options = ["--variant=minbase", f"--include={','.join(PACKAGES)}", f"--components={','.join(components)}"]
    for command in (["debootstrap", *options, suite, str(tree), mirror], ["chroot", str(tree), "sh", "-ec", SETTLE]):
        # In namespaces of their own, so that no process and no mount inside the tree outlives an interrupted test.
        done = subprocess.run(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--", *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **_proxy(mirror), "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"},
            check=False,
        )
        if done.returncode != 0:
            last = "\n".join(done.stdout.splitlines()[-15:])
            pytest.fail(f"no whole system could be made from {mirror}; {command[0]} ended with:\n{last}")


def _mirror(suite: str) -> tuple[str, list[str]]:
    """The place from which this machine's apt has its own release, and the components that it takes from there."""
    line = "$(SITE) $(RELEASE) $(CODENAME) $(COMPONENT)"
    found: dict[str, list[str]] = {}
    for row in _said_by("apt-get", "indextargets", "--format", line, "Created-By: Packages").splitlines():
        site, *releases, component = row.split()
        if suite in releases and urlsplit(site).scheme in ("http", "https", "file"):
            found.setdefault(site, []).append(component)
    for site, components in found.items():
        if "main" in components:
            return site, sorted(set(components))
    pytest.fail(
        f"the tests of a whole system need a package mirror of {suite}: apt's sources on this machine name none that "
        "debootstrap can use (http, https or file); see `apt-get indextargets`."
    )


def _proxy(mirror: str) -> dict[str, str]:
    """The environment by which wget goes the way that apt goes."""
    place = urlsplit(mirror)
    general = f"Acquire::{place.scheme}::Proxy"
    for key in (f"{general}::{place.hostname}", general):
        words = _said_by("apt-config", "shell", "PROXY", key).removeprefix("PROXY=").strip().strip("'")
        if words == "DIRECT":
            return {f"{place.scheme}_proxy": ""}
        if words:
            return {f"{place.scheme}_proxy": words}
    return {}


def _os_release() -> dict[str, str]:
    lines = Path("/etc/os-release").read_text().splitlines()
    return {key: value.strip('"') for key, _, value in (line.partition("=") for line in lines)}


def _said_by(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """One at a time makes a tree; the lock dies with its holder."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
