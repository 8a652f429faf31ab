"""Errors that end a command, each with its exit code. Only `preflight.cli.main` prints them."""


class PreflightError(Exception):
    """A sentence for the user: what, where, what to do. Never shown with a traceback."""

    exit_code = 1


class UsageError(PreflightError):
    """Wrong usage or configuration. No host was contacted."""

    exit_code = 2


class NotSeenError(PreflightError):
    """No host could be checked, so nothing is known to be wrong."""

    exit_code = 3
