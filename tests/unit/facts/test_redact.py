"""Secrets that are taken out, and lines that stay as they are: tests/cases/redaction, a case a line."""

import re
from pathlib import Path

import pytest

from preflight.facts.redaction.redact import REDACTED, is_random, redact

CASES = Path("tests/cases/redaction")
# Nothing about these tells that they are secrets, but for their place.
LEAKS = ("<(echo «Unseen13rsync»)", "TF_VAR_db_master=«Fr3shTerra02xyz»")


def cases(kind: str) -> list[str]:
    lines = (CASES / f"{kind}.txt").read_text().splitlines()
    return [line for line in lines if not line.startswith("#")]


def leaks(case: str) -> bool:
    text = redact(re.sub("[«»]", "", case).replace("⏎", "\n"))
    return any(secret in text for secret in re.findall("«(.*?)»", case))


@pytest.mark.parametrize("case", cases("common"))
def test_a_common_secret_is_taken_out(case: str) -> None:
    assert "«" in case
    assert not leaks(case)


@pytest.mark.parametrize("case", cases("hard") + cases("unseen") + cases("unseen-second") + cases("unseen-third"))
def test_a_harder_secret_is_taken_out(case: str) -> None:
    assert "«" in case
    assert leaks(case) == any(known in case for known in LEAKS)


@pytest.mark.parametrize("line", cases("harmless"))
def test_a_harmless_line_stays(line: str) -> None:
    assert redact(line) == line


def test_all_cases_as_one_log_give_the_same() -> None:
    """A pattern that takes more than its line, or a command that ends at another's, would show here."""
    common, harmless = cases("common"), cases("harmless")
    lines = [
        re.sub("[«»]", "", line) for pair in zip(common, harmless, strict=False) for line in pair if "⏎" not in line
    ]
    assert redact("\n".join(lines)) == "\n".join(map(redact, lines))


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("token: |\n  a\n  b\nend: 1\n", f"token: |\n{REDACTED}\nend: 1\n"),
        ("password:\n  hunter2 x\nuser: y", f"password:\n  {REDACTED}\nuser: y"),
        ("secrets:\n  - name: a\n", "secrets:\n  - name: a\n"),
        ("<password>x</password><port>1</port>", f"<password>{REDACTED}</password><port>1</port>"),
        ("obsutil cp a b -i=K -k=S; ls -k dir", f"obsutil cp a b -i={REDACTED} -k={REDACTED}; ls -k dir"),
        ("forward pass: 1.5 ms, password: x y", f"forward pass: 1.5 ms, password: {REDACTED}"),
    ],
)
def test_what_is_around_a_secret_stays(text: str, left: str) -> None:
    assert redact(text) == left


@pytest.mark.parametrize(
    ("word", "random"),
    [
        ("fQ7x9LmZ2pRt8vKw", True),
        ("0123456789abcdef0123456789abcdef", True),
        ("5c0d1f3a-6b1f-4d1c-8f5e-0a1b2c3d4e5f", False),
        ("torch.distributed.elastic", False),
        ("/data/Run7/ckpt.pt", False),
        ("Llama2Tokenizer", False),
    ],
)
def test_a_random_word_is_told_from_a_name(word: str, random: bool) -> None:
    assert is_random(word) == random
