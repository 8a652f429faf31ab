"""What jobs read, equal on all hosts: the files and folders that [job] of the inventory names."""

from collections.abc import Iterator, Mapping

from preflight.checks.majority import Odd, odd_ones
from preflight.checks.registry import All, cluster_check
from preflight.facts.job import Job
from preflight.model.finding import Finding


@cluster_check("HST113", "Requirements and data sets are the same on every host")
def same_inputs(all_: All, job: Mapping[str, Job]) -> Iterator[Finding]:
    """Why: ranks with other packages, or with half of a copied data set, fail late or train on different data without
    a word. Files are compared by their bytes, folders by the names and sizes of the files below them.

    By hand: sha256sum FILE; find FOLDER -type f -printf '%P %s\\n' | sort | sha256sum   (where jobs run)

    Mend: copy them again from one host: rsync -a --checksum
    """
    for path in (*all_.cluster.job.requirements, *all_.cluster.job.datasets):
        there: dict[str, str] = {}  # host → digest; "" where there is nothing
        for host, seen in job.items():
            file = seen.files.get(path)
            if file is None or file.error or (file.kind != "missing" and not file.digest):
                why = file.error if file and file.error else "it was not read"
                yield all_.unknown(f"{host}: {path} could not be compared: {why}", host=host)
            else:
                there[host] = file.digest
        if there and not any(there.values()):
            for host in there:
                yield all_.bad(f"{host}: there is no {path} where jobs run", host=host, found="missing")
            continue
        for odd in odd_ones(there):
            yield all_.bad(
                f"{odd.host}: {path} {_told(odd)}", host=odd.host, peer=odd.others[0],
                expected="the same on every host", found=odd.value[:16] or "missing",
                remedy=f"copy {path} again, from a host where it is right",
            )  # fmt: skip


def _told(odd: Odd[str]) -> str:
    if not odd.value:
        return f"is missing where jobs run, and there on {odd.elsewhere}"
    return f"is there, and missing on {odd.elsewhere}" if not odd.usual else f"is another one than on {odd.elsewhere}"
