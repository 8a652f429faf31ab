"""Size of a run in the history for 1,000 hosts, and the time of `preflight diff` and of redaction for a support bundle.

Facts that one machine generates are more alike than those of a site. So they are packed a second time. Every number of
five digits or more, and every fraction, is then random. A site is between the two.
"""

import random
import re
import time
from dataclasses import replace

from benchmarks.checks import scene
from preflight.facts.documents import facts_document as document
from preflight.facts.documents.differences import compared
from preflight.facts.documents.shareable import cleaner, shared
from preflight.facts.types import ClusterFacts, HostFacts, Versions
from preflight.history.documents import compress

HOSTS = 1000


def noisy(text: bytes) -> bytes:
    made = random.Random(1)
    return re.sub(rb"\d{5,}|(?<=\.)\d{2,}", lambda found: bytes(made.choices(b"123456789", k=len(found[0]))), text)


def updated(host: HostFacts) -> HostFacts:
    assert isinstance(host.versions, Versions)
    return replace(host, versions=replace(host.versions, driver="25.0.0"))


def main() -> None:
    _, facts = scene(HOSTS)
    text = document.compact(facts)
    for words, body in (("as they are", text), ("with random numbers", noisy(text))):
        begin = time.perf_counter()
        size = len(compress({"facts": body})["facts"])
        took = time.perf_counter() - begin
        print(f"facts of {HOSTS} hosts, {words}: {len(body) / 1e6:.0f} MB, packed {size / 1e6:.1f} MB in {took:.1f} s")
    begin = time.perf_counter()
    was, now = document.load(text), document.load(text)
    read = time.perf_counter() - begin
    now = ClusterFacts({name: updated(it) for name, it in now.hosts.items() if isinstance(it, HostFacts)})
    begin = time.perf_counter()
    (found,) = compared(was, now).differences
    took = time.perf_counter() - begin
    print(f"two of them read in {read:.1f} s, compared in {took:.1f} s: {found.name} on {len(found.places)} hosts")
    begin = time.process_time()
    shared(text, cleaner())
    print(f"redacted for a support bundle in {time.process_time() - begin:.0f} s of CPU")


if __name__ == "__main__":
    main()
