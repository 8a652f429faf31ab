"""What a host's environment would be after a change: part of `apply_to_facts`."""

from dataclasses import replace

from preflight.facts.sections.environment import Environment
from preflight.facts.types import HostFacts
from preflight.model.change import Change
from preflight.rules.setup_files import HOSTS_FILE, PROFILE_FILE


def changed(host: HostFacts, change: Change) -> HostFacts:
    assert isinstance(host.environment, Environment)
    return replace(host, environment=_after(host.environment, change))


def _after(environment: Environment, change: Change) -> Environment:
    if change.target == HOSTS_FILE:
        assert change.before == environment.hosts
        return replace(environment, hosts=change.after)
    if change.target == PROFILE_FILE:
        assert change.before == environment.profile
        return replace(environment, profile=change.after)
    files = dict(environment.limits_files)
    assert change.before == files.pop(change.target, None)
    return replace(environment, limits_files=files if change.after is None else {**files, change.target: change.after})
