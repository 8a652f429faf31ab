"""Edits of /etc/hccn.conf, the vendor's file: `key_<device>=value` a line, no blanks. Pure."""

from collections.abc import Mapping

PATH = "/etc/hccn.conf"


def with_entries(text: str, entries: Mapping[str, str]) -> str:
    """The file's text with these entries; of a key that stands there twice the last line counts and is edited.

    Every other byte is kept, line ends and a missing newline at the end included; keys not found are added at the end.
    """
    lines = text.splitlines(keepends=True)
    ending = "\r\n" if "\r\n" in text else "\n"
    for key, value in entries.items():
        places = [number for number, line in enumerate(lines) if line.partition("=")[0].strip() == key]
        if places:
            line = lines[places[-1]]
            lines[places[-1]] = f"{line.partition('=')[0]}={value}{line[len(line.rstrip(chr(13) + chr(10))) :]}"
        else:
            if lines and not lines[-1].endswith(("\n", "\r")):
                lines[-1] += ending
            lines.append(f"{key}={value}{ending}")
    return "".join(lines)
