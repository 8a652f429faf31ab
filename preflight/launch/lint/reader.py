"""From a script's text to its commands, as bash would read them; and as they were meant, where a line's continuation
is lost. Linear in the length of the text."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from preflight.launch.lint.angle_brackets import FILL_IN, placeholder_end
from preflight.launch.lint.source_map import Parts, behind
from preflight.launch.lint.types import Command, Fault, Part, Spot, Word

DASHES = "-–—−‐‑‒―－"  # what editors and web pages make of "-"
# Blanks that bash takes for letters: no-break, wide and zero-width ones, as web pages and input methods make them.
_BLANKS = "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u200b\u202f\u205f\u3000\ufeff"
TALK = ("echo", "printf", "which", "grep", "pkill", "kill", "alias", "man", "type", "#", "pip", "conda", "apt")
_LOST = re.compile(r"\\[ \t]+(#[^\n]*)?(?=\r?\n|\Z)")  # a backslash that no newline follows
_HEREDOC = re.compile(r"<<(-?)[ \t]*(['\"]?)([A-Za-z_][A-Za-z0-9_]*)\2")
_REDIRECTION = re.compile(r"[<>][<>&|]*")
_OPERATORS = re.compile(r"&&|\|\||;;|[;&|()\n]")


_COUNTING = re.compile(r"\(\([^()\n]*\)\)")  # behind `for`


class Reader:
    """Reads one text, once. `parts`: those that the text is joined of, where it stands in another one."""

    def __init__(self, text: str, path: Path, parts: Sequence[Part] = ()) -> None:
        self._text, self._path, self._at = text, path, 0
        self._parts = Parts(parts) if parts else None
        self._line, self._line_start = 1, 0
        self._heredocs: list[tuple[str, bool]] = []
        self._blank: tuple[Spot, str] | None = None  # the first of _BLANKS in this command
        self._placeholders: list[tuple[Spot, str]] = []  # in angle brackets, in this command
        self.faults: list[Fault] = []

    def commands(self) -> tuple[Command, ...]:
        found: list[Command] = []
        words: list[list[Word]] = []  # of each
        while self._at < len(self._text):
            command = self._command()
            self._tell_blank(command)
            self._tell_placeholders(command)
            if command.words and found and self._goes_on(found[-1], command):
                found[-1] = command
                words[-1] += command.words
            elif command.words:
                found.append(command)
                words.append(list(command.words))
        return tuple(replace(command, words=tuple(all_)) for command, all_ in zip(found, words, strict=True))

    def _tell_blank(self, command: Command) -> None:
        """Once a command; what only speaks is free to use them."""
        told, self._blank = self._blank, None
        if told and not (command.words and command.words[0].text in TALK):
            spot, char = told
            escaped = "".join(f"\\x{byte:02x}" for byte in char.encode())
            self._fault(
                spot, f"U+{ord(char):04X} looks like a blank and is a letter to bash", f"U+{ord(char):04X}", "a blank",
                f"type the blanks anew, or sed -i 's/{escaped}/ /g'",
            )  # fmt: skip

    def _tell_placeholders(self, command: Command) -> None:
        """What only speaks may use them to tell how a script is called."""
        told, self._placeholders = self._placeholders, []
        for spot, text in told if not (command.words and command.words[0].text in TALK) else ():
            self._fault(
                spot, f"{text} is a placeholder of a document; bash takes < and > for redirections", text,
                "a value of this job", FILL_IN,
            )  # fmt: skip

    def _goes_on(self, before: Command, command: Command) -> bool:
        """Whether a command that begins like an option is the rest of the one in the line before. What ends with `)` or
        `|` is a pattern of `case`."""
        first = command.words[0]
        option = first.text[:1] in DASHES and first.text.lstrip(DASHES)[:1].isalpha()
        if not (option and first.bare and before.end == "\n" and command.end in ("\n", "", ";", "&", "&&", "||")):
            return False
        line = before.words[-1].spot.line
        self._fault(
            first.spot, f"{first.text} stands alone: the command ended with line {line}", "a new command",
            "the rest of the one before", f"end line {line} with a blank and \\, and nothing after it",
        )  # fmt: skip
        return True

    def _command(self) -> Command:
        words: list[Word] = []
        while True:
            self._blanks()
            if words and words[-1].text == "for" and (counting := _COUNTING.match(self._text, self._at)):
                words.append(Word(self._spot(), (Part(counting[0], "", self._spot()),)))
                self._move(counting.end())
                return Command(tuple(words), ";")  # `do` may stand behind it as it is
            end = _OPERATORS.match(self._text, self._at)
            if end or self._at >= len(self._text):
                self._move(end.end() if end else self._at)
                if end and end[0] == "\n":
                    self._skip_heredocs()
                return Command(tuple(words), end[0] if end else "")
            redirection = _REDIRECTION.match(self._text, self._at)
            if redirection and not placeholder_end(self._text, self._at):
                self._redirected(redirection.end())
                if words and words[-1].text.isdigit() and self._text[redirection.start() - 1].isdigit():
                    words.pop()
                continue
            word = self._word()
            words.append(word)
            if self._text[self._at : self._at + 1] == "(" and word.text.endswith("="):
                self._move(self._at + 1)
                return Command(tuple(words), "\n", self._array())

    def _array(self) -> tuple[Word, ...]:
        words: list[Word] = []
        while self._at < len(self._text):
            self._blanks()
            here = self._text[self._at : self._at + 1]
            if here == ")":
                self._move(self._at + 1)
                break
            if here in "\n;&|(<>" and not placeholder_end(self._text, self._at):  # only the newline is right here
                self._move(self._at + 1)
            elif here:
                words.append(self._word())
        return tuple(words)

    def _blanks(self) -> None:
        """Skip blanks, comments and continuations, also those that are lost."""
        while self._at < len(self._text):
            rest = self._text[self._at : self._at + 2]
            if rest[0] in " \t\r" or rest[0] in _BLANKS:
                self._blank = self._blank or ((self._spot(), rest[0]) if rest[0] in _BLANKS else None)
                self._move(self._at + 1)
            elif rest[0] == "#":
                end = self._text.find("\n", self._at)
                self._move(len(self._text) if end < 0 else end)
            elif rest == "\\\n":
                self._move(self._at + 2)
            elif lost := _LOST.match(self._text, self._at):
                self._lost(lost)
                self._move(min(lost.end() + 1, len(self._text)))
            else:
                return

    def _lost(self, lost: "re.Match[str]") -> None:
        after = "a comment" if lost[1] else "blanks"
        self._fault(
            self._spot(), f"the line does not go on: after the \\ there {'is' if lost[1] else 'are'} {after}",
            f"\\ and {after}", "\\ as the last character of the line",
            "put the comment on a line above the command" if lost[1] else "delete the blanks behind the \\",
        )  # fmt: skip

    def _word(self) -> Word:
        spot, parts = self._spot(), [Part("", "", self._spot())]
        text = self._text
        while self._at < len(text):
            here = text[self._at]
            if here in "'\"":
                parts += self._quoted(here)
            elif here == "\\" and text[self._at + 1 : self._at + 2] == "\n":
                self._move(self._at + 2)  # the word goes on: without a blank on either side it is still one
            elif here == "\\" and _LOST.match(text, self._at):
                break
            elif here == "\\":
                self._move(self._at + 1)
                parts.append(Part(text[self._at : self._at + 1], "\\", self._spot()))
                self._move(min(self._at + 1, len(text)))
            elif here == "$" and text[self._at + 1 : self._at + 2] == "(":
                begin = self._spot()
                parts.append(Part(self._substitution(), "", begin))
            elif here == "<" and (end := placeholder_end(text, self._at)):
                self._placeholders.append((self._spot(), text[self._at : end]))
                parts.append(Part(text[self._at : end], "", self._spot()))
                self._move(end)
            elif here in " \t\r\n;&|()<>" or here in _BLANKS:
                break
            else:
                parts.append(Part(here, "", self._spot()))
                self._move(self._at + 1)
        return Word(spot, _joined(parts))

    def _quoted(self, quote: str) -> list[Part]:
        """What stands in quotes; a lost continuation in double quotes is told, too."""
        spot, text = self._spot(), self._text
        self._move(self._at + 1)
        parts = [Part("", quote, self._spot())]
        while self._at < len(text):
            here = text[self._at]
            if here == quote:
                self._move(self._at + 1)
                return parts
            if quote == '"' and here == "\\":
                lost = _LOST.match(text, self._at)
                if lost:
                    self._lost(lost)
                follows = text[self._at + 1 : self._at + 2]
                escaped = "" if follows == "\n" or lost else follows if follows in '"\\$`' else "\\" + follows
                end = lost.end() if lost else min(self._at + 2, len(text))
                self._move(self._at + (len(escaped) == 1))  # behind the \, which is none of it
                parts.append(Part(escaped, "'" if escaped else quote, self._spot()))
                self._move(end)
            elif quote == '"' and here == "$" and text[self._at + 1 : self._at + 2] == "(":
                begin = self._spot()
                parts.append(Part(self._substitution(), quote, begin))
            else:
                parts.append(Part(here, quote, self._spot()))
                self._move(self._at + 1)
        self._fault(spot, f"the {quote} is never closed", "an open quote", f"a second {quote}", "close the quote")
        return parts

    def _substitution(self) -> str:
        """`$(…)` as it stands there."""
        begin, depth, spot = self._at, 0, self._spot()
        for at in range(begin + 1, len(self._text)):
            depth += {"(": 1, ")": -1}.get(self._text[at], 0)
            if depth == 0:
                self._move(at + 1)
                return self._text[begin : at + 1]
        self._fault(spot, "the $( is never closed", "an open parenthesis", "a )", "close the parenthesis")
        self._move(len(self._text))
        return self._text[begin:]

    def _redirected(self, end: int) -> None:
        """Skip `> file`; remember `<<END`, whose lines are no commands."""
        if heredoc := _HEREDOC.match(self._text, self._at):
            self._heredocs.append((heredoc[3], bool(heredoc[1])))
            self._move(heredoc.end())
            return
        self._move(end)
        while self._text[self._at : self._at + 1] in (" ", "\t"):
            self._move(self._at + 1)
        if self._text[self._at : self._at + 1] not in ("", "(", ")", "\n", "&", ";", "|", "<", ">"):
            self._word()

    def _skip_heredocs(self) -> None:
        for end, tabs in self._heredocs:
            while self._at < len(self._text):
                stop = self._text.find("\n", self._at)
                line = self._text[self._at : stop if stop >= 0 else len(self._text)]
                self._move(stop + 1 if stop >= 0 else len(self._text))
                if (line.lstrip("\t") if tabs else line) == end:
                    break
        self._heredocs.clear()

    def _move(self, to: int) -> None:
        """Go on to a position, counting lines."""
        lines = self._text.count("\n", self._at, to)
        if lines:
            self._line += lines
            self._line_start = self._text.rfind("\n", self._at, to) + 1
        self._at = to

    def _spot(self) -> Spot:
        if self._parts:
            return self._parts.spot(self._at, self._line, self._line_start)
        return Spot(self._line, self._at - self._line_start + 1)

    def _fault(self, spot: Spot, what: str, found: str, expected: str, do: str) -> None:
        self.faults.append(Fault(self._path, spot, what, found, expected, do))


def _joined(parts: list[Part]) -> tuple[Part, ...]:
    """Neighbours in the same quotes are one part, unless something was left out between them; empty ones outside of
    quotes are none."""
    joined: list[Part] = []
    texts: list[str] = []
    follows: Spot | None = None
    for part in parts:
        if texts and joined[-1].quote == part.quote and part.spot == follows:
            texts.append(part.text)
        else:
            if texts:
                joined[-1] = replace(joined[-1], text="".join(texts))
            joined.append(part)
            texts = [part.text]
        follows = behind(part.spot, part.text) if part.spot else None
    if texts:
        joined[-1] = replace(joined[-1], text="".join(texts))
    return tuple(part for part in joined if part.text or part.quote)
