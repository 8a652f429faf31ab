"""Sources of ClusterShell's groups in YAML (groups.d/*.yaml): `source: {group: nodes}`."""

from typing import Any

import yaml  # type: ignore[import-untyped]

from preflight.hostlists.clustershell import ALL, Group, listed_of
from preflight.hostlists.listed import Listed, Source
from preflight.inventory.errors import InventoryError
from preflight.inventory.folding import fold

_DEEPEST = 8  # of brackets and indentation; sources of groups need 3
_LOADER = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
_BEGIN = (yaml.BlockMappingStartToken, yaml.BlockSequenceStartToken, yaml.FlowMappingStartToken,
          yaml.FlowSequenceStartToken)  # fmt: skip
_END = (yaml.BlockEndToken, yaml.FlowMappingEndToken, yaml.FlowSequenceEndToken)


def read(source: Source) -> Listed:
    """`source: {group: nodes}`; nodes may be a list. Without a group asked for, those of the first source."""
    try:
        _refuse_what_grows(source)
        root = yaml.compose(source.text, _LOADER)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        source.wrong(mark.index if mark else 0, f"not YAML: {error.problem}")
    except yaml.YAMLError as error:
        raise InventoryError(f"{source.name}: not YAML: {str(error).splitlines()[0][:120]}") from error
    sources = {
        name: {group: _texts(source, nodes) for group, nodes in _members(source, groups, "a source of groups").items()}
        for name, groups in _members(source, root, "the file").items()
    }
    if not sources:
        raise InventoryError(f"{source.name}: has no group; name another file, or its format with --from")
    return listed_of(source, sources, next(iter(sources)))


def _refuse_what_grows(source: Source) -> None:
    """Aliases, which may stand for ever more, and depths at which libyaml overruns its stack."""
    depth = 0
    for token in yaml.scan(source.text, _LOADER):
        depth += isinstance(token, _BEGIN) - isinstance(token, _END)
        if depth > _DEEPEST:
            source.wrong(token.start_mark.index, "nested too deeply for groups of nodes")
        if isinstance(token, yaml.AliasToken):
            source.wrong(token.start_mark.index, "aliases are not read; write out what it stands for")


def write(listed: Listed) -> str:
    return f"cluster:\n    {ALL}: '{fold(host.name for host in listed.hosts)}'\n"


def _members(source: Source, node: Any, what: str) -> dict[str, Any]:
    """A mapping's values by their keys."""
    if not isinstance(node, yaml.MappingNode):
        source.wrong(node.start_mark.index if node else 0, f"{what} should be a mapping of names")
    found: dict[str, Any] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode) or key.value in found:
            source.wrong(key.start_mark.index, f"{what} has a name that is none, or stands there twice")
        found[key.value] = value
    return found


def _texts(source: Source, node: Any) -> Group:
    if isinstance(node, yaml.SequenceNode):
        return [text for item in node.value for text in _texts(source, item)]
    if not isinstance(node, yaml.ScalarNode):
        source.wrong(node.start_mark.index, "nodes should be text such as node[01-16], or a list of it")
    quote = 1 if node.style in ("'", '"') else 0
    return [] if node.tag.endswith(":null") else [(node.value, node.start_mark.index + quote)]
