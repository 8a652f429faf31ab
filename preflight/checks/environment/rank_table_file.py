"""The rank table file of the jobs: present, complete, and the same on every host."""

import posixpath
import shlex
from collections.abc import Iterator, Mapping

from preflight.checks.engine.registry import NPU, All, cluster_check
from preflight.checks.shared.majority import odd_ones
from preflight.facts.sections.job import NOWHERE, Job, SeenFile
from preflight.model.finding import Finding
from preflight.model.text import quote
from preflight.ranktable.read import read

_VARIABLE = "RANK_TABLE_FILE"
_CONTEXT = 20  # characters before and after the first difference
_WHOLE = 64 << 10  # bytes up to which the text of a table is whole


@cluster_check("ENV108", "Rank table file", products=NPU, several=False, blocks=False)
def rank_table(scribe: All, job: Mapping[str, Job]) -> Iterator[Finding]:
    """Why: The HCCL guide requires an absolute path that is not a symbolic link (EI0004). HCCL compares a checksum of
    the table between ranks. If the file is missing on a host, torch_npu falls back to negotiation there. It then waits
    for ranks on other hosts that use the table.

    Result: FAIL for a relative path, for a missing or incomplete file, and for tables that differ between hosts. WARN
    for a symbolic link to a complete table, because Kubernetes mounts a ConfigMap through links. This check covers the
    file, not the entries in it.

    Check manually: Where jobs run:
      ls -l "$RANK_TABLE_FILE"
      python3 -m json.tool "$RANK_TABLE_FILE"
      sha256sum "$RANK_TABLE_FILE"

    Fix: Write one table, copy it to the same path on every host, and set RANK_TABLE_FILE to its absolute path.
    """
    tables: dict[str, str] = {}
    paths = {host: job_of_host.variables.get(_VARIABLE, "") for host, job_of_host in job.items()}
    peer = next(filter(paths.get, paths), "")  # the first host that sets it
    for host, path in paths.items():
        if path:
            fault, unreadable = _fault(path, job[host].files.get(path))
            if fault:
                remedy, commands = _write_table(path)
                text = f"{host}: the rank table {quote(path)} {fault}"
                yield scribe.bad(text, host=host, remedy=remedy, commands=commands)
            elif unreadable:
                yield scribe.unknown(f"{host}: the rank table {quote(path)} {unreadable}", host=host)
            else:
                file = job[host].files[path]
                tables[host] = file.digest or file.text
                if file.kind == "link":
                    yield scribe.warn(
                        f"{host}: the rank table {quote(path)} is a link, but HCCL's guide requires a plain file",
                        host=host,
                        remedy=f"set {_VARIABLE} to the link's target in the job script",
                        commands=(f'export {_VARIABLE}="$(realpath {shlex.quote(path)})"',),
                    )
        elif peer:
            yield scribe.bad(
                f"{host}: {_VARIABLE} is not set, but it is set on {peer}",
                host=host,
                peer=peer,
                expected=paths[peer],
                found="not set",
                remedy=f"set {_VARIABLE}={paths[peer]} in the jobs' environment, or unset it on all hosts",
            )
    yield from _different_tables(scribe, job, tables)


def _different_tables(scribe: All, job: Mapping[str, Job], tables: Mapping[str, str]) -> Iterator[Finding]:
    """Yield the hosts with another table than most hosts, from `tables` by host."""
    for odd in odd_ones(tables):
        path = job[odd.host].variables[_VARIABLE]
        difference = _difference(
            *(job[host].files[job[host].variables[_VARIABLE]] for host in (odd.host, odd.others[0]))
        )
        yield scribe.bad(
            f"{odd.host}: the rank table {quote(path)} differs from the one on {odd.elsewhere}",
            host=odd.host,
            peer=odd.others[0],
            expected=f"{difference[1]}, as on {odd.others[0]}" if difference else "",
            found=difference[0] if difference else "",
            remedy="write the same rank table to all hosts",
            commands=(_push(path),),
        )


def _difference(file: SeenFile, peer_file: SeenFile) -> tuple[str, str] | None:
    """Return both texts around their first difference, quoted. None where only parts of them are known."""
    text, peer_text = file.text, peer_file.text
    if text == peer_text or max(file.size, peer_file.size) > _WHOLE:
        return None
    position = len(posixpath.commonprefix([text, peer_text]))
    part = slice(max(0, position - _CONTEXT), position + _CONTEXT)
    return quote(text[part]), quote(peer_text[part])


def _write_table(path: str) -> tuple[str, tuple[str, ...]]:
    """Return the remedy for a table that cannot be used, and its commands."""
    if not path.startswith("/"):
        return f"set {_VARIABLE} in the jobs' environment to the absolute path of the rank table", ()
    return "write a complete rank table to all hosts", (_push(path),)


def _push(path: str) -> str:
    return f"preflight ranktable --push {shlex.quote(path)}"


def _fault(path: str, file: SeenFile | None) -> tuple[str, str]:
    """Return the fault of the host's file, or else why it could not be judged."""
    if not path.startswith("/"):
        return f"is given as a relative path in {_VARIABLE}", ""
    if file is None:
        return "", "was not checked"
    if file.kind not in ("file", "link"):
        return "is missing" if file.kind == "missing" else f"is a {file.kind}, not a plain file", ""
    if file.kind == "link" and file.error == NOWHERE:
        return "is a broken link", ""
    if file.error:
        return "", f"cannot be read: {file.error}"
    return _fault_of_text(file.text), ""


def _fault_of_text(text: str) -> str:
    table = read(text)
    if not table.is_json:
        return f"cannot be parsed: {table.why}"
    if table.status == "completed":
        return ""
    actual = "" if table.status is None else f" but {quote(table.status)}"
    return f"is incomplete, because its status is not 'completed'{actual}"
