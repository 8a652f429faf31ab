"""Sources of ClusterShell's groups in YAML (groups.d/*.yaml): `source: {group: nodes}`."""

from typing import Any

import yaml

from preflight.hostlists.clustershell import ALL, Group, read_groups
from preflight.hostlists.host_list import HostList, ListSource
from preflight.inventory.errors import InventoryError
from preflight.inventory.name_ranges import fold

_DEEPEST = 8  # of brackets and indentation; sources of groups need 3
_LOADER = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
_BEGIN = (
    yaml.BlockMappingStartToken,
    yaml.BlockSequenceStartToken,
    yaml.FlowMappingStartToken,
    yaml.FlowSequenceStartToken,
)
_END = (yaml.BlockEndToken, yaml.FlowMappingEndToken, yaml.FlowSequenceEndToken)


def read(source: ListSource) -> HostList:
    """Read `source: {group: nodes}`, where nodes may be a list. The first source is the default."""
    try:
        _check_size(source)
        root = yaml.compose(source.text, _LOADER)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        source.fail(mark.index if mark else 0, f"not YAML: {error.problem}")
    except yaml.YAMLError as error:
        raise InventoryError(f"{source.name}: not YAML: {str(error).splitlines()[0][:120]}") from error
    sources = {
        name: {group: _texts(source, nodes) for group, nodes in _members(source, groups, "a source of groups").items()}
        for name, groups in _members(source, root, "the file").items()
    }
    if not sources:
        raise InventoryError(f"{source.name}: the file has no groups. Use another file, or set its format with --from")
    return read_groups(source, sources, next(iter(sources)))


def write(host_list: HostList) -> str:
    return f"cluster:\n    {ALL}: '{fold(host.name for host in host_list.hosts)}'\n"


def _check_size(source: ListSource) -> None:
    """Refuse aliases, which expand without limit, and depths at which libyaml overruns its stack."""
    depth = 0
    for token in yaml.scan(source.text, _LOADER):
        depth += isinstance(token, _BEGIN) - isinstance(token, _END)
        if depth > _DEEPEST:
            source.fail(token.start_mark.index, "the groups are nested too deeply")
        if isinstance(token, yaml.AliasToken):
            source.fail(token.start_mark.index, "YAML aliases are not supported. Write the value itself")


def _members(source: ListSource, node: Any, description: str) -> dict[str, Any]:
    """Return a mapping's values by their keys."""
    if not isinstance(node, yaml.MappingNode):
        source.fail(node.start_mark.index if node else 0, f"{description} should be a mapping of names")
    members: dict[str, Any] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode) or key.value in members:
            source.fail(key.start_mark.index, f"{description} has an invalid or duplicate name")
        members[key.value] = value
    return members


def _texts(source: ListSource, node: Any) -> Group:
    if isinstance(node, yaml.SequenceNode):
        return [text for item in node.value for text in _texts(source, item)]
    if not isinstance(node, yaml.ScalarNode):
        source.fail(node.start_mark.index, "nodes should be text such as node[01-16], or a list of such texts")
    quote = 1 if node.style in ("'", '"') else 0
    return [] if node.tag.endswith(":null") else [(node.value, node.start_mark.index + quote)]
