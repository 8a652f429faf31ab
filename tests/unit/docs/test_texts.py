"""Every command, option, inventory key, product and path that a text names exists: all are tried."""

from pathlib import Path

import pytest

from tests.unit.texts.commands import commands_in, options_of
from tests.unit.texts.inventory import NAMES_OF_ATLAS, SLIPS, block_refusal, blocks_in, mistakes_in_pieces
from tests.unit.texts.options import FOREIGN, PROGRAMS
from tests.unit.texts.passages import ROOT, all_passages
from tests.unit.texts.places import NO_CHECKS, PAGES_OF_OTHERS, PATHS_OF_READERS
from tests.unit.texts.trials import TRIALS, mistakes_in


@pytest.mark.parametrize("kind", TRIALS)
def test_all_that_texts_name_exists(kind: str) -> None:
    mistakes = [str(each) for passage in all_passages() for each in TRIALS[kind](passage)]
    assert not mistakes, "\n".join(["", *mistakes])


def test_the_loader_takes_every_piece_of_an_inventory() -> None:
    pages = sorted({passage.path for passage in all_passages() if passage.path.endswith((".md", ".toml"))})
    texts = {page: (ROOT / page).read_text("utf-8") for page in pages}
    blocks = [(page, *block) for page, text in texts.items() for block in blocks_in(text)]
    refused = [f"{page}:{line}: {reason}" for page, line, block in blocks if (reason := block_refusal(block))]
    refused += [str(each) for page, text in texts.items() for each in mistakes_in_pieces(page, text)]
    assert not refused, "\n".join(["", *refused])
    assert len(blocks) > 10


def test_texts_of_all_kinds_are_read() -> None:
    """A folder that is not read any more, or commands that are not recognised, would pass unnoticed."""
    passages = all_passages()
    folders = {str(Path(*Path(passage.path).parts[:2])) for passage in passages}
    assert {"preflight/checks", "preflight/cli", "docs/guides", "playbooks/demo.sh", "README.zh-CN.md"} <= folders
    assert sum(len(commands_in(passage)) for passage in passages) > 800


def test_exceptions_are_used_and_none_of_ours() -> None:
    assert not set(FOREIGN) & options_of([])
    words = "\n".join(passage.words for passage in all_passages())
    exceptions = [*FOREIGN, *PROGRAMS, *PAGES_OF_OTHERS, *PATHS_OF_READERS, *NO_CHECKS, *NAMES_OF_ATLAS, *SLIPS]
    assert [name for name in exceptions if name not in words] == []


PAGE, CHECK, APPLY = "docs/x.md", "preflight/checks/x.py", "preflight/cli/commands/apply.py"
SHARED = "preflight/cli/changes/questions.py"
REFUSED = "def refuse_what_cannot_be_asked(args):\n    "


@pytest.mark.parametrize(
    ("path", "text", "reason"),
    [
        (PAGE, "Run `preflight aply` first.", ":1: preflight has no command aply"),
        (PAGE, "First\nrun preflight aply plan.json.", ":2: preflight has no command aply"),
        (PAGE, "```\n$ preflight frobnicate\n```", ":2: preflight has no command frobnicate"),
        (PAGE, "    preflight lab brake link-down", "preflight lab has no command brake"),
        (PAGE, "    preflight lab break link-dwon", "there is no fault link-dwon"),
        (PAGE, "    preflight lab up --product atlas-910b", "there is no product atlas-910b"),
        (PAGE, "    preflight apply", "arguments are required: PLAN"),
        (PAGE, "    preflight apply plan.json --dry-run", "preflight apply has no option --dry-run"),
        (PAGE, "`check --publsh` sends them", "preflight check has no option --publsh"),
        (PAGE, "`preflight probe --scope couples`", "argument --scope"),
        (PAGE, "`preflight check --only PGN`", "there is no check 'PGN'"),
        (PAGE, "`preflight explain NPU999`", "there is no check 'NPU999'"),
        (PAGE, "`preflight parse npu_smi.nothing FILE`", "there is no parser npu_smi.nothing"),
        (PAGE, "`preflight-gate --contxt prolog`", "unknown option '--contxt'"),
        (PAGE, "with `--idel` it goes on", "no command has an option --idel"),
        (PAGE, "see docs/nope.md", "there is no such file: docs/nope.md"),
        (PAGE, "see nope.md", "there is no such page: nope.md"),
        (PAGE, "kept in /var/lib/preflight/verdicts.json", "no code of preflight names this path"),
        (PAGE, "kept in /run/preflight.d/x", "no code of preflight names this path"),
        (PAGE, "NPU999 sees it", "there is no check NPU999"),
        (PAGE, "a document `preflight.reprot/1`", "no document has the schema preflight.reprot/1"),
        (PAGE, '`product = "atlas-910b"`', "the inventory refuses product"),
        (PAGE, "on atlas-910b", "there is no product atlas-910b"),
        (PAGE, '`firewall = "off"`', "firewall is a table of the inventory"),
        (PAGE, '`policy = "of" under [firewall]`', "the inventory refuses policy"),
        (PAGE, "`idle = true` under `[prob]`", "the inventory has no table [prob]"),
        (PAGE, "`idle = true under [ssh]`", "[ssh] of the inventory has no key idle"),
        (PAGE, "```toml\n[prbe]\n```", ":2: the inventory has no table [prbe]"),
        (PAGE, "`[probe] wrapper`", "[probe] of the inventory has no key wrapper"),
        (PAGE, "`gate.unknown.task` and `gate.unknown.tasks`", "has no key unknown.tasks: gate.unknown.tasks"),
        (CHECK, 'X = "correct probe.python\\nand probe.wrapper"', "has no key wrapper: probe.wrapper"),
        (CHECK, 'X = f"{a}: {b}; " + "preflight confgure-ports"', "preflight has no command confgure-ports"),
        (CHECK, "X = f\"{'preflight aply' if a else ''}\"", "preflight has no command aply"),
        (CHECK, 'X = "first"\nY = (\n    "second "\n    "preflight aply"\n)', ":4: preflight has no command aply"),
        (CHECK, 'X = ["preflight", "prob", *options]', "preflight has no command prob"),
        (CHECK, 'X = "give them addresses in the inventory ([network])"', "[network] of the inventory has no key"),
        (APPLY, 'X = "add -y, or --dry-run to only look"', "preflight apply has no option --dry-run"),
        (APPLY, '"""It is.\n\n  preflight apply --pln FILE"""', ":3: preflight apply has no option --pln"),
        (APPLY, 'X = "then it ends with 7"', "docs/contracts.md has no exit code 7"),
        (SHARED, REFUSED + 'raise X("add -y, or --dry-run to only look")', "preflight apply has no option --dry-run"),
        (PAGE, "```\nnext: preflight configuer…\n```", "preflight has no command configuer…"),
        ("playbooks/x.sh", "run lab up --host 2; expect 0\n", "preflight lab up has no option --host"),
        ("playbooks/x.sh", "preflight check --idel\n", "preflight check has no option --idel"),
    ],
)
def test_a_wrong_name_is_a_mistake(path: str, text: str, reason: str) -> None:
    mistakes = mistakes_in(path, text)
    assert any(reason in each for each in mistakes), mistakes
    assert all(each.startswith(f"{path}:") for each in mistakes)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (PAGE, "preflight plans nothing here; `preflight` reads `[probe] python`, and `probe.python`."),
        (PAGE, "`preflight ranktable -i hosts.toml [-o FILE]`, and `preflight exec --quick … -- torchrun x.py --x 1`"),
        (PAGE, "`torchrun --nnodes 2 --xyz`; `docker run --net=host`; ran `./x.sh --whatever`, bash x.sh --whatever"),
        (PAGE, '[text](page) of `hosts.toml`, `gate.jsonl`, `job = ["29500"]`, /var/lib/preflight/journal/RUN.jsonl'),
        (CHECK, 'X = f"preflight check{where} --limit {host}"\nY = re.compile("[probe] wrapper = \\"x\\"")'),
        (CHECK, 'X = "addresses in the inventory ([device_addresses], or device_addresses under [[hosts]])"'),
        (CHECK, 'X = \'policy = "off" under [firewall]; `[firewall] policy = "off"`; probe.exec in the inventory\''),
        (CHECK, 'X = f"preflight {command} {options}; preflight rollback {run} {more}"'),
    ],
)
def test_what_exists_is_no_mistake(path: str, text: str) -> None:
    assert mistakes_in(path, text) == []


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        ('[firewall]\npolicy = "off"\n', ""),
        ('[cluster]\nproduct = "nvidia"\n[machine]\nnvlinks = 18\n', ""),
        ('[firewall]\npolicy = "none"\n', "firewall.policy"),
        ('[probe]\nwrapper = "docker exec -i x"\n', "probe.wrapper"),
        ('[cluster]\nproduct = "atlas-910b"\n', "cluster.product"),
    ],
)
def test_a_piece_of_an_inventory_is_completed_and_loaded(block: str, reason: str) -> None:
    refusal = block_refusal(block)
    assert reason in refusal
    assert bool(reason) == bool(refusal)


def test_a_piece_with_lines_left_out_is_read_line_by_line() -> None:
    page = '```\n$ cat hosts.toml\n…\nproduct = "nvidia"\nwrapper = "x"\n$ true\nname = 3\n```\n'
    assert [str(each) for each in mistakes_in_pieces("docs/x.md", page)] == [
        'docs/x.md:5: no table of the inventory has a key wrapper: wrapper = "x"'
    ]
