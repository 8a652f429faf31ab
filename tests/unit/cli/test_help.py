"""The help of every command: short sentences, two examples, an explanation of each option."""

import argparse
import re
from collections.abc import Iterator

import pytest

from preflight.cli.main import parser
from preflight.cli.parser import Parser

ODD = re.compile(
    r"\b(?:who|whom|whose|nobody|somebody|mend\w*|look(?:s|ed|ing)?|says?|said|tells?|told|by hand|otherwise)\b", re.I
)
LONGEST = 25  # words of a sentence
MANY = 8  # options without groups


def below(above: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield every command of a parser, and those below it."""
    for action in above._actions:  # argparse has no public access to them
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                if isinstance(command, Parser):
                    command.load()
                yield command
                yield from below(command)


def options(command: argparse.ArgumentParser) -> list[argparse.Action]:
    return [
        action
        for action in command._actions
        if not isinstance(action, argparse._HelpAction | argparse._SubParsersAction)
    ]


def sentences(command: argparse.ArgumentParser) -> list[str]:
    lines = str(command.description).splitlines()
    prose = "\n".join("" if line.startswith(" ") else line for line in lines)
    paragraphs = (" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", prose))
    return [sentence for paragraph in paragraphs for sentence in re.split(r"(?<=[.!?])\s+", paragraph)]


COMMANDS = {command.prog: command for command in below(parser())}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_short_sentences_and_two_examples(name: str) -> None:
    texts = sentences(COMMANDS[name])
    assert [text for text in texts if ODD.search(text) or len(re.findall(r"[\w'.-]+", text)) > LONGEST] == []
    examples = [line for line in str(COMMANDS[name].description).splitlines() if line.startswith("  ")]
    assert len(examples) >= 2
    assert [line for line in examples if len(line) > 80] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_has_a_short_explanation(name: str) -> None:
    for action in options(COMMANDS[name]):
        words = action.help or ""
        assert 0 < len(words.split()) <= LONGEST, action.dest
        assert not ODD.search(words), action.dest
        assert "repeatable" in words or not isinstance(action, argparse._AppendAction), action.dest


@pytest.mark.parametrize("name", COMMANDS)
def test_many_options_are_in_groups(name: str) -> None:
    command = COMMANDS[name]
    grouped = [action for group in command._action_groups[2:] for action in group._group_actions]
    alone = [action.dest for action in options(command) if action.option_strings and action not in grouped]
    assert len(alone) <= (2 if len(options(command)) > MANY else MANY), alone
