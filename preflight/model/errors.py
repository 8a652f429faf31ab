"""Errors that end a command. Each carries its exit code; `preflight.cli.main` is the one place that prints them."""


class PreflightError(Exception):
    """A sentence for the user: what, where, what to do. Never shown with a traceback."""

    exit_code = 1


class UsageError(PreflightError):
    """Wrong usage or configuration; nothing was looked at, nothing was contacted."""

    exit_code = 2


class NotSeenError(PreflightError):
    """Nothing is known to be wrong: no host could be looked at."""

    exit_code = 3
