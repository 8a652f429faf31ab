"""[[hosts]] as TOML has them: taken apart into one a host, and put together into ranges again. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from preflight.inventory.hostset import expand

Table = dict[str, Any]


def apart(tables: Iterable[Mapping[str, Any]], without: Iterable[str] = ()) -> dict[str, Table]:
    """Host → a table of its own; keys of `without` are left out."""
    left_out = {"name", "address", *without}
    found: dict[str, Table] = {}
    for table in tables:
        rest = {key: value for key, value in table.items() if key not in left_out}
        addresses = expand(table.get("address", table["name"]))
        for name, address in zip(expand(table["name"]), addresses, strict=True):
            found[name] = {"name": name, **({"address": address} if address != name else {}), **rest}
    return found


def together(tables: Iterable[Table]) -> list[Table]:
    """Tables that follow one another and are alike but for name and address, in one where ranges say both."""
    groups: list[list[Table]] = []
    for table in tables:
        if groups and _as_one([*groups[-1], table]):
            groups[-1].append(table)
        else:
            groups.append([table])
    return [_as_one(group) or group[0] for group in groups]


def _as_one(group: Sequence[Table]) -> Table | None:
    rest = [{key: value for key, value in table.items() if key not in ("name", "address")} for table in group]
    names = [str(table["name"]) for table in group]
    addresses = [str(table.get("address", table["name"])) for table in group]
    name, address = _range(names), _range(addresses)
    if name is None or address is None or any(other != rest[0] for other in rest):
        return None
    return {"name": name, **({"address": address} if addresses != names else {}), **rest[0]}


def _range(words: Sequence[str]) -> str | None:
    """["n01", "n02", "n03"] → "n[01-03]"; None where the numbers at the ends are not one after the other."""
    if len(words) == 1:
        return words[0]
    stem = words[0].rstrip("0123456789")
    first = words[0][len(stem) :]
    numbers = [f"{int(first) + more:0{len(first)}d}" for more in range(len(words))] if first else []
    return f"{stem}[{first}-{numbers[-1]}]" if [stem + number for number in numbers] == list(words) else None
