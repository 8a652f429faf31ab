"""Commands of a script's text, as bash reads them.

A script is read as its author meant it: where a line's continuation is lost, the lines are joined all the same, and the
slip is one fault. Reading takes time linear in the length of the text.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from preflight.launch.lint.angle_brackets import FILL_IN, placeholder_end
from preflight.launch.lint.cursor import Cursor
from preflight.launch.lint.source_map import behind
from preflight.launch.lint.types import ScriptFault, ScriptSpot, ShellCommand, Word, WordPart

DASHES = "-–—−‐‑‒―－"  # what editors and web pages make of "-"
# Blanks that are letters to bash: no-break, wide and zero-width ones, as web pages and input methods make them.
_LOOKALIKE_BLANKS = (
    "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u200b\u202f\u205f\u3000\ufeff"
)
# Programs with only text or names as arguments.
TALK = ("echo", "printf", "which", "grep", "pkill", "kill", "alias", "man", "type", "#", "pip", "conda", "apt")
_WORD_ENDS = " \t\r\n;&|()<>" + _LOOKALIKE_BLANKS
_LOST = re.compile(r"\\[ \t]+(#[^\n]*)?(?=\r?\n|\Z)")  # a backslash without a newline behind it
_HEREDOC = re.compile(r"<<(-?)[ \t]*(['\"]?)([A-Za-z_][A-Za-z0-9_]*)\2")
_REDIRECTION = re.compile(r"[<>][<>&|]*")
_OPERATOR = re.compile(r"&&|\|\||;;|[;&|()\n]")
_COUNTING = re.compile(r"\(\([^()\n]*\)\)")  # behind `for`


class ScriptReader:
    """A reader of one text. `parts` are those that the text was joined of, if it is a script within a script."""

    def __init__(self, text: str, path: Path, parts: Sequence[WordPart] = ()) -> None:
        self._cursor, self._path = Cursor(text, parts), path
        self._heredocs: list[tuple[str, bool]] = []
        self._blank: tuple[ScriptSpot, str] | None = None  # the first look-alike blank of this command
        self._placeholders: list[tuple[ScriptSpot, str]] = []  # in angle brackets, of this command
        self.faults: list[ScriptFault] = []

    def commands(self) -> tuple[ShellCommand, ...]:
        """Read the whole text."""
        commands: list[tuple[ShellCommand, list[Word]]] = []
        while not self._cursor.ended:
            command = self._command()
            self._report_slips(command)
            if not command.words:
                continue
            if commands and self._continues(commands[-1][0], command):
                words = commands.pop()[1]
                words += command.words
                commands.append((command, words))
            else:
                commands.append((command, list(command.words)))
        return tuple(replace(command, words=tuple(words)) for command, words in commands)

    def _report_slips(self, command: ShellCommand) -> None:
        """Report look-alike blanks and placeholders, once a command. Text that is only printed may have them."""
        blank, self._blank = self._blank, None
        placeholders, self._placeholders = self._placeholders, []
        if command.words and command.words[0].text in TALK:
            return
        if blank:
            spot, char = blank
            name, escaped = f"U+{ord(char):04X}", "".join(f"\\x{byte:02x}" for byte in char.encode())
            message = f"{name} looks like a blank, but bash reads it as a letter"
            self._fault(spot, message, name, "a blank", f"retype the blanks, or run sed -i 's/{escaped}/ /g'")
        for spot, text in placeholders:
            message = f"{text} is a placeholder, and bash reads < and > as redirections"
            self._fault(spot, message, text, "a value for this job", FILL_IN)

    def _continues(self, before: ShellCommand, command: ShellCommand) -> bool:
        """Return whether a command that begins like an option continues the one in the line before.

        A text that ends with `)` or `|` is a pattern of `case`.
        """
        first = command.words[0]
        option = first.text[:1] in DASHES and first.text.lstrip(DASHES)[:1].isalpha()
        if not (option and first.bare and before.end == "\n" and command.end in ("\n", "", ";", "&", "&&", "||")):
            return False
        line = before.words[-1].spot.line
        message = f"{first.text} is a command by itself, because the previous command ended with line {line}"
        do = f"end line {line} with a blank and \\, and nothing after it"
        self._fault(first.spot, message, "a new command", "the rest of the previous command", do)
        return True

    def _command(self) -> ShellCommand:
        """Read a simple command, or one up to the end of an array that it assigns."""
        cursor = self._cursor
        words: list[Word] = []
        while True:
            self._skip_blanks()
            if words and words[-1].text == "for" and (counting := cursor.match(_COUNTING)):
                words.append(Word(cursor.spot(), (cursor.part(counting.end()),)))
                return ShellCommand(tuple(words), ";")  # `do` needs no separator
            end = self._end()
            if end is not None:
                return ShellCommand(tuple(words), end)
            if self._skip_redirection(words):
                continue
            words.append(self._word())
            if cursor.char == "(" and words[-1].text.endswith("="):
                cursor.skip()
                return ShellCommand(tuple(words), "\n", self._array())

    def _end(self) -> str | None:
        """Take the operator that ends a command, empty at the end of the text; None where the command goes on."""
        if self._cursor.ended:
            return ""
        operator = self._cursor.match(_OPERATOR)
        if operator is None:
            return None
        self._cursor.move(operator.end())
        if operator[0] == "\n":
            self._skip_heredocs()
        return operator[0]

    def _array(self) -> tuple[Word, ...]:
        cursor = self._cursor
        words: list[Word] = []
        while not cursor.ended:
            self._skip_blanks()
            if cursor.char == ")":
                cursor.skip()
                break
            if cursor.char in "\n;&|(<>" and not placeholder_end(
                cursor.text, cursor.at
            ):  # only a newline is right here
                cursor.skip()
            elif cursor.char:
                words.append(self._word())
        return tuple(words)

    def _skip_blanks(self) -> None:
        """Skip blanks, comments and continuations, also lost ones."""
        cursor = self._cursor
        while not cursor.ended:
            if cursor.char in " \t\r":
                cursor.skip()
            elif cursor.char in _LOOKALIKE_BLANKS:
                self._blank = self._blank or (cursor.spot(), cursor.char)
                cursor.skip()
            elif cursor.char == "#":
                cursor.move(cursor.find("\n"))
            elif cursor.ahead("\\\n"):
                cursor.skip(2)
            elif lost := cursor.match(_LOST):
                self._report_lost(lost)
                cursor.move(lost.end() + 1)
            else:
                return

    def _report_lost(self, lost: "re.Match[str]") -> None:
        after, are = ("a comment", "is") if lost[1] else ("blanks", "are")
        self._fault(
            self._cursor.spot(),
            f"the command ends here, because there {are} {after} after the \\",
            f"\\ and {after}",
            "\\ as the last character of the line",
            "move the comment to a line above the command" if lost[1] else "delete the blanks after the \\",
        )

    def _word(self) -> Word:
        cursor = self._cursor
        spot, parts = cursor.spot(), [WordPart("", "", cursor.spot())]
        while not cursor.ended and not cursor.match(_LOST):
            if cursor.char in "'\"":
                parts += self._quoted(cursor.char)
            elif cursor.ahead("\\\n"):
                cursor.skip(2)  # without a blank on either side, the word goes on
            elif cursor.char == "\\":
                cursor.skip()
                parts.append(cursor.part(cursor.at + 1, "\\"))
            elif cursor.ahead("$("):
                parts.append(self._substitution())
            elif cursor.char not in _WORD_ENDS:
                parts.append(cursor.part(cursor.at + 1))
            elif end := placeholder_end(cursor.text, cursor.at):
                self._placeholders.append((cursor.spot(), cursor.text[cursor.at : end]))
                parts.append(cursor.part(end))
            else:
                break
        return Word(spot, _joined(parts))

    def _quoted(self, quote: str) -> list[WordPart]:
        """Read a quoted text, and report a quote that is never closed."""
        cursor = self._cursor
        opened = cursor.spot()
        cursor.skip()
        parts = [WordPart("", quote, cursor.spot())]
        while not cursor.ended:
            if cursor.char == quote:
                cursor.skip()
                return parts
            if quote == '"' and cursor.char == "\\":
                parts.append(self._escaped())
            elif quote == '"' and cursor.ahead("$("):
                parts.append(self._substitution(quote))
            else:
                parts.append(cursor.part(cursor.at + 1, quote))
        self._fault(opened, f"the {quote} is never closed", "an open quote", f"a second {quote}", "close the quote")
        return parts

    def _escaped(self) -> WordPart:
        """Read a backslash in double quotes with its character, and report a lost continuation."""
        cursor = self._cursor
        if lost := cursor.match(_LOST):
            self._report_lost(lost)
        follows = cursor.text[cursor.at + 1 : cursor.at + 2]
        if lost or follows in ("", "\n"):
            part = WordPart("", '"', cursor.spot())
            cursor.move(lost.end() if lost else cursor.at + 2)
            return part
        if follows in '"\\$`':
            cursor.skip()
            return cursor.part(cursor.at + 1, "'")
        return cursor.part(cursor.at + 2, "'")

    def _substitution(self, quote: str = "") -> WordPart:
        """Take `$(…)` as it is written."""
        cursor, depth = self._cursor, 0
        for at in range(cursor.at + 1, len(cursor.text)):
            depth += {"(": 1, ")": -1}.get(cursor.text[at], 0)
            if depth == 0:
                return cursor.part(at + 1, quote)
        self._fault(cursor.spot(), "the $( is never closed", "an open parenthesis", "a )", "close the parenthesis")
        return cursor.part(len(cursor.text), quote)

    def _skip_redirection(self, words: list[Word]) -> bool:
        """Skip `> file` and `2>&1`, and remember `<<END`. Return whether there was one; its digit is no word."""
        cursor = self._cursor
        redirection = cursor.match(_REDIRECTION)
        if redirection is None or placeholder_end(cursor.text, cursor.at):
            return False
        if heredoc := cursor.match(_HEREDOC):
            self._heredocs.append((heredoc[3], bool(heredoc[1])))
            cursor.move(heredoc.end())
        else:
            cursor.move(redirection.end())
            while cursor.char in (" ", "\t"):
                cursor.skip()
            if cursor.char not in ("", "(", ")", "\n", "&", ";", "|", "<", ">"):
                self._word()
        if words and words[-1].text.isdigit() and cursor.text[redirection.start() - 1].isdigit():
            words.pop()
        return True

    def _skip_heredocs(self) -> None:
        cursor = self._cursor
        for end, tabs in self._heredocs:
            while not cursor.ended:
                line = cursor.text[cursor.at : cursor.find("\n")]
                cursor.skip(len(line) + 1)
                if (line.lstrip("\t") if tabs else line) == end:
                    break
        self._heredocs.clear()

    def _fault(self, spot: ScriptSpot, message: str, found: str, expected: str, do: str) -> None:
        self.faults.append(ScriptFault(self._path, spot, message, found, expected, do))


def _joined(parts: list[WordPart]) -> tuple[WordPart, ...]:
    """Return the parts with neighbours of one quote joined, where nothing was left out between them."""
    groups: list[tuple[WordPart, list[str]]] = []
    end: ScriptSpot | None = None
    for part in parts:
        if groups and groups[-1][0].quote == part.quote and part.spot == end:
            groups[-1][1].append(part.text)
        else:
            groups.append((part, [part.text]))
        end = behind(part.spot, part.text) if part.spot else None
    joined = (replace(first, text="".join(texts)) for first, texts in groups)
    return tuple(part for part in joined if part.text or part.quote)
