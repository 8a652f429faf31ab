"""The rank, device, host and process that a log's path names. Pure."""

import re
from collections.abc import Sequence

from preflight.diagnose.types import Who

_RANK_FILE = re.compile(r"rank[-_.]?(\d{1,6})(?!\d)", re.IGNORECASE)
_TORCHRUN = re.compile(r"attempt_\d+/(\d{1,4})/std(?:out|err)\.log$")
_RUN_FOLDER = re.compile(r".+_[a-z0-9_]{8}")  # torchrun's, of the run's id and random characters
_DEVICE_FOLDER = re.compile(r"(?:^|/)device-(\d{1,4})/")
_DEVICE_LOG = re.compile(r"(?:^|/)device-(\d{1,10})_\d{8,20}\.log$")  # of the host's process with that number
_NCCL_FILE = re.compile(r"nccl[\w-]*\.([A-Za-z][\w-]*)\.(\d+)(?:\.log)?$")
_NO_HOST = re.compile(
    r"debug|run|plog|device-\d+|ascend|logs?|attempt_\d+|\d+|std(?:out|err)|none_\w+|tmp|var|home|root|/|\.{0,2}"
)


def about(path: str) -> Who:
    """Return a file's writer by its path; `path` is relative to the folder that was given."""
    torchrun = _TORCHRUN.search(path)
    rank, device, host = _RANK_FILE.search(path), torchrun or _DEVICE_FOLDER.search(path), ""
    folders = path.split("/")[:-1]
    if torchrun:
        folders = [name for name in folders if not _RUN_FOLDER.fullmatch(name)]
    if nccl := _NCCL_FILE.search(path):
        host = nccl[1]
    elif folders:
        host = host_of(folders[:1])
    pid = _DEVICE_LOG.search(path)
    return Who(int(rank[1]) if rank else None, host[:64], device[1] if device else "", int(pid[1]) if pid else None)


def host_of(folders: Sequence[str]) -> str:
    """Return the last of these names that may be a host's, empty if none may."""
    names = (name for name in reversed(folders) if not _NO_HOST.fullmatch(name) and not _RANK_FILE.search(name))
    return next(names, "")
