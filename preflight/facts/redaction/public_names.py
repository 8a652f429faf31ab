"""Names that do not identify a site: public domains, users of systems, words of the trade. Pure data."""

import re

# Public sources of documentation, packages and code. Clouds' domains for tenants (myhuaweicloud.com, amazonaws.com) are
# left out, as they follow the name of a tenant's bucket.
DOMAINS = frozenset(
    (
        "alpinelinux.org",
        "amd.com",
        "anaconda.com",
        "anaconda.org",
        "apache.org",
        "atlassian.com",
        "bitbucket.org",
        "canonical.com",
        "centos.org",
        "cncf.io",
        "conda.io",
        "debian.org",
        "docker.com",
        "docker.io",
        "fedoraproject.org",
        "freedesktop.org",
        "gcr.io",
        "ghcr.io",
        "gitcode.com",
        "gitee.com",
        "github.com",
        "githubusercontent.com",
        "gitlab.com",
        "gnu.org",
        "golang.org",
        "google.com",
        "hiascend.com",
        "hf.co",
        "huawei.com",
        "huggingface.co",
        "ieee.org",
        "ietf.org",
        "intel.com",
        "k8s.io",
        "kernel.org",
        "kubernetes.io",
        "launchpad.net",
        "linux-rdma.org",
        "linuxfoundation.org",
        "mellanox.com",
        "microsoft.com",
        "mindspore.cn",
        "modelscope.cn",
        "mozilla.org",
        "mpi-forum.org",
        "netfilter.org",
        "npmjs.org",
        "nvcr.io",
        "nvidia.com",
        "open-mpi.org",
        "openai.com",
        "openeuler.org",
        "openfabrics.org",
        "openssh.com",
        "openssl.org",
        "pypi.org",
        "pypi.python.org",
        "python.org",
        "pythonhosted.org",
        "pytorch.org",
        "quay.io",
        "readthedocs.io",
        "redhat.com",
        "rockylinux.org",
        "schedmd.com",
        "slurm.net",
        "stackoverflow.com",
        "sourceforge.net",
        "systemd.io",
        "ubuntu.com",
        "w3.org",
        "wandb.ai",
        "wikipedia.org",
        "cluster.local",
        "localhost.localdomain",
    )
)
# Public suffixes: domains below them have owners, these do not.
SUFFIXES = frozenset(
    f"{second}.{top}"
    for top in ("cn", "hk", "tw", "jp", "kr", "uk", "au", "sg", "in", "nz", "br", "za")
    for second in ("com", "net", "org", "edu", "ac", "gov", "co")
)
# Last labels of names of machines and domains. `info`, `sh` and `py` are left out, as files end in them. Punycode
# (`xn--…`) and the endings of the second list are those of domains in other scripts.
_ENDS = (
    "com|org|cn|edu|gov|lan|intranet|corp|net|io|ai|local|internal|cloud|xyz|jp|kr|hk|tw|sg|eu|uk|ru|de|fr|ch|nl|co|ca|au"
    "|xn--[a-z0-9-]{1,59}"
)
_ENDS_IN_OTHER_SCRIPTS = "中国|中國|公司|网络|網絡|集团|商城|网址|网店|在线|香港|台湾|한국|рф"
# Words before such an ending that make it a module, an attribute or a file: `java.io`, `self.local`, `rc.local`.
_NO_DOMAINS = (
    "ado|args?|asp|d|dist|entry|java|javax|kotlin|microsoft|opts?|options|os|parsed|rc|scala|self|setup|socket|std|sun|sys"
    "|this|threading|tokio|typing|vb|version|vimrc"
)
LABEL = r"[A-Za-z0-9](?:[\w-]{0,61}[A-Za-z0-9])?"
_ANY_LABEL = r"[^\W_](?:[\w-]{0,61}[^\W_])?"
FULL_NAME = re.compile(
    rf"(?<![\w.-])(?!(?:{_NO_DOMAINS})\.\w+(?![\w.-]))(?=[\d.-]*[A-Za-z][\w-]*\.)"
    rf"(?:{LABEL}\.){{1,8}}(?:{_ENDS})(?![\w-]|\.\w)",
    re.IGNORECASE | re.ASCII,
)
FULL_NAME_IN_ANOTHER_SCRIPT = re.compile(
    rf"(?<![\w.-])(?:{_ANY_LABEL}\.){{1,8}}(?:{_ENDS_IN_OTHER_SCRIPTS})(?![\w-]|\.\w)"
    rf"|(?<![\w.-])(?=[^\s/]{{0,250}}?[^\x00-\x7f])(?:{_ANY_LABEL}\.){{1,8}}(?:{_ENDS})(?![\w-]|\.\w)",
    re.IGNORECASE,
)

# Users that systems and their packages create.
USERS = frozenset(
    (
        "root",
        "daemon",
        "bin",
        "sys",
        "sync",
        "games",
        "man",
        "lp",
        "mail",
        "news",
        "uucp",
        "proxy",
        "www-data",
        "backup",
        "list",
        "irc",
        "nobody",
        "nogroup",
        "messagebus",
        "polkitd",
        "chrony",
        "ntp",
        "sshd",
        "dbus",
        "tss",
        "rpc",
        "rpcuser",
        "syslog",
        "landscape",
        "pollinate",
        "tcpdump",
        "lxd",
        "docker",
        "slurm",
        "munge",
        "postfix",
        "ubuntu",
        "centos",
        "debian",
        "openeuler",
        "ec2-user",
        "cloud-user",
        "hwhiaiuser",
        "hwdmuser",
        "hwbaseuser",
        "hwmindx",
        "wheel",
        "adm",
        "users",
        "sudo",
        "nvidia-persistenced",
        "gdm",
        "systemd-network",
        "systemd-resolve",
        "systemd-timesync",
        "systemd-coredump",
        "_chrony",
        "_apt",
        "lost+found",
        "linuxbrew",
        "none",
        "null",
        "unknown",
    )
)

# Common names of machines and users. Such a name is searched only where a name is expected.
COMMON = frozenset(
    (
        "admin",
        "administrator",
        "ai",
        "any",
        "api",
        "app",
        "auto",
        "backup",
        "bastion",
        "bin",
        "build",
        "cache",
        "cluster",
        "compute",
        "config",
        "controller",
        "corp",
        "dataset",
        "data",
        "db",
        "default",
        "deploy",
        "dev",
        "dns",
        "docker",
        "etcd",
        "false",
        "file",
        "files",
        "git",
        "gitlab",
        "gpu",
        "grafana",
        "group",
        "guest",
        "harbor",
        "head",
        "hub",
        "home",
        "http",
        "https",
        "internal",
        "intranet",
        "jenkins",
        "job",
        "jobs",
        "kafka",
        "kubernetes",
        "lab",
        "lan",
        "leader",
        "local",
        "localdomain",
        "localhost",
        "log",
        "login",
        "logs",
        "main",
        "manager",
        "master",
        "minio",
        "mirror",
        "mirrors",
        "model",
        "models",
        "mysql",
        "nas",
        "net",
        "network",
        "nexus",
        "nfs",
        "no",
        "node",
        "npu",
        "ops",
        "postgres",
        "primary",
        "private",
        "prometheus",
        "proxy",
        "public",
        "python",
        "rank",
        "redis",
        "registry",
        "repo",
        "root",
        "router",
        "runner",
        "server",
        "service",
        "share",
        "shared",
        "slave",
        "slurm",
        "storage",
        "store",
        "svc",
        "switch",
        "sys",
        "system",
        "test",
        "tester",
        "tmp",
        "train",
        "trainer",
        "training",
        "true",
        "user",
        "users",
        "web",
        "work",
        "worker",
        "www",
        "yes",
    )
)

# Services and namespaces of every Kubernetes, or of its well-known parts.
OF_KUBERNETES = frozenset(
    (
        "default",
        "kubernetes",
        "kube-system",
        "kube-public",
        "kube-dns",
        "coredns",
        "volcano-system",
        "monitoring",
        "mindx-dl",
        "kubeflow",
        "training-operator",
        "gpu-operator",
        "ingress-nginx",
        "istio-system",
    )
)

# Words with a digit that are no machine's name.
NO_MACHINE = re.compile(
    r"(?:(?:in|out)_)?(?:(?:eth|bond|ib|mlx|hns|roce|veth|vir|virbr|br|docker|vlan|tun|tap|team|wlan|if|end|npu|gpu|davinci"
    r"|nvme|sd[a-z]|tty|pts|hugepages|port|rank|device|dev|card|chip|cpu|core|numa|lane|die|level|step)[-_]?\d[\w.-]*"
    r"|en[opsx]\w+|i?pv\d|ip6?|ipv[46]|sha\d+\w*|md5\w*|ed25519\w*|x86\w*|aarch64|arm64|amd64|i\d86|utf-?\d+|ucs-?\d|iso-?\d[\w-]*"
    r"|k8s|python[\d.]+|cuda[\d.]+|cann[\d.]*|rfc-?\d+|v\d[\w.-]*|r\d+|rc\d*|ascend\d\w*|atlas-?\w*|a[123]|[ahbltv]\d{2,4}\w?|910\w*"
    r"|\d+\w*|ext[234]|nfs\w*|rocev?\d|tcp\d?|udp\d?|icmpv?\d?|http2|log4\w+|utf8|base64|crc32|sysv?\d*|ssh2|tls\w*|ssl\w*"
    r"|cve-[\d-]+|debian\d+|ubuntu[\d.]+|centos\d+|el\d\w*|oe\d\w*|mpi\d?|phase\d|h\d{1,2}|f\d{1,2}|ufw6?(?:-[\w-]+)?)",
    re.IGNORECASE | re.ASCII,
)


def is_public(name: str) -> bool:
    """Return whether a full name, in lower case, is in a domain of DOMAINS."""
    labels = name.split(".")
    return any(".".join(labels[start:]) in DOMAINS for start in range(len(labels)))


def is_common(word: str) -> bool:
    """Return whether a word, in lower case, is too common to identify a machine or an account."""
    return word in COMMON or word.isdigit() or NO_MACHINE.fullmatch(word) is not None
