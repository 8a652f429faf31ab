"""Every text that a user reads is in plain words: the words, the length of a sentence, and no chains of clauses."""

import re
from collections.abc import Iterator

import pytest

from tests.unit.texts.passages import HOLE, Kind, Mistake, Passage, all_passages, mistake

# What not to write, and what to write in its place. A person may be a who.
WORDS = {
    r"mend(?:s|ed|ing)?": "fix, fixed",
    r"a look|looks? at|looked|looking at": "check, inspect",
    r"by hand": "manually",
    r"who|whom|whose|whoever|whomever": "which, that (who is for people)",
    r"nobody|somebody|anybody|everybody": "no host, another process, all ranks",
    r"convict\w*|acquit\w*|accus\w*|innocen\w*|guilt\w*": "identify as the culprit, rule out, healthy",
    r"c[oa]me?s? (?:as far|through)|does not go on|did not go on": "stopped at",
    r"did not arrive|arrivals?": "hung rank",
    r"told|its words": "reported, message",
    r"last words": "error message",
    r"patience": "timeout",
    r"suits?": "is compatible with",
    r"stands? in|lies in": "is in",
    r"is otherwise|are otherwise": "differs",
    r"(?:of|for) its own": "its own",
    r"now and then": "intermittently",
    r"ill|is well|are well|do(?:es)? well": "unhealthy, healthy, passes",
    r"in vain": "without success",
    r"to see it again": "retest",
}
LONGEST_SENTENCE = 25  # words of a sentence that a program prints
LONGEST_OF_PAGES = 30
MOST_CLAUSES = 2  # colons and semicolons of a sentence

_NOT_PLAIN = {re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE): better for pattern, better in WORDS.items()}
# Long texts in these are programs, settings, and what vendors' tools print: their words count, and no lengths.
_NO_SENTENCES = (
    "docs/accuracy-lab.md",
    "preflight/facts/redaction/secret_patterns.py",
    "preflight/lab/",
    "preflight/launch/launchers/shell.py",
    "preflight/launch/lint/options.py",
    "preflight/remote/apply/guardian.py",
    "preflight/remote/gate/outputs.py",
    "preflight/transport/bootstrap.py",
    "preflight/transport/programs.py",
)
_SUBJECT = re.compile(rf"^{HOLE}: (?:device {HOLE}: )?")  # "node02: device 3: " of a finding
_OPTION = re.compile(rf"^- (?:{HOLE}[, ]*)+:|\(default[^()]*\)|: (?=[a-z])")  # of docs/commands.md
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`\"'(])|\n\s*\n|\n(?=\s*[-#*])|\|")
# HTML and CSS, whose words are passages of their own, and SQL
_MARKUP = re.compile(r"</?\w+|\{[^{}]*:[^{}]*;|\b(?:SELECT|CREATE TABLE|DELETE FROM)\b")
# Links and names of files: they are lists, not sentences.
_NAME_OF_FILE = re.compile(r"\[[^\]]*\]\([^)]*\)|[\w./-]+\.(?:txt|toml|py)\b")
_WORD = re.compile(rf"[A-Za-z{HOLE}][A-Za-z'’{HOLE}-]*")


def sentences(passage: Passage) -> Iterator[str]:
    for sentence in _SENTENCE_END.split(_NAME_OF_FILE.sub("", passage.words)):
        if len(_WORD.findall(sentence)) > 2:
            yield " ".join(sentence.split())


def mistakes(passage: Passage) -> Iterator[Mistake]:
    """Yield what is not plain in a text that users read."""
    if passage.kind is not Kind.PROSE or not passage.shown or _MARKUP.search(passage.words):
        return
    longest = LONGEST_OF_PAGES if passage.path.endswith(".md") else LONGEST_SENTENCE
    for sentence in sentences(passage):
        for pattern, better in _NOT_PLAIN.items():
            if match := pattern.search(sentence):
                yield mistake(passage, sentence, f'"{match[0]}", better: {better}')
        if passage.path.startswith(_NO_SENTENCES):
            continue
        if (count := len(_WORD.findall(sentence))) > longest:
            yield mistake(passage, sentence, f"{count} words in a sentence")
        clauses = (_OPTION if passage.path == "docs/commands.md" else _SUBJECT).sub("", sentence)
        if clauses.count(";") + len(re.findall(r":\s", clauses)) > MOST_CLAUSES:
            yield mistake(passage, sentence, "a chain of clauses")


def test_every_text_is_in_plain_words() -> None:
    assert [str(each) for passage in all_passages() for each in mistakes(passage)] == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("mend it first, then check again", "fix, fixed"),
        ("the host was looked at", "check, inspect"),
        (" ".join(["word"] * (LONGEST_SENTENCE + 1)), "words in a sentence"),
        ("one thing: another one; a third: a fourth", "a chain"),
    ],
)
def test_a_text_that_is_not_plain_is_found(text: str, reason: str) -> None:
    assert [reason in each.reason for each in mistakes(Passage("preflight/x.py", 1, text))] == [True]
