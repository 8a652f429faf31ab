"""All that is tried in texts: what a mistake is called, and the function that yields mistakes of its kind."""

from collections.abc import Callable, Iterator

from tests.unit.texts.commands import mistakes_in_commands, mistakes_in_gate_commands
from tests.unit.texts.inventory import mistakes_in_keys, mistakes_in_products
from tests.unit.texts.options import mistakes_in_options
from tests.unit.texts.passages import Mistake, Passage, passages_of, with_spans
from tests.unit.texts.places import mistakes_in_exit_codes, mistakes_in_ids, mistakes_in_paths

TRIALS: dict[str, Callable[[Passage], Iterator[Mistake]]] = {
    "commands": mistakes_in_commands,
    "commands of the gate": mistakes_in_gate_commands,
    "options": mistakes_in_options,
    "keys of the inventory": mistakes_in_keys,
    "products": mistakes_in_products,
    "paths": mistakes_in_paths,
    "ids and schemas": mistakes_in_ids,
    "exit codes": mistakes_in_exit_codes,
}


def mistakes_in(path: str, text: str) -> list[str]:
    """Return the mistakes of all kinds in a file of this name and text."""
    return [str(each) for passage in passages_of(path, text) for trial in TRIALS.values() for each in trial(passage)]


def mistakes_in_words(*texts: str) -> list[str]:
    """Return the commands, options and keys that do not exist, of texts as a program has written them."""
    passages = [each for text in texts for each in with_spans(iter([Passage("output", 1, text)]))]
    kinds = ("commands", "options", "keys of the inventory")
    return [str(each) for passage in passages for kind in kinds for each in TRIALS[kind](passage)]
