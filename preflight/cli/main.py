"""The `preflight` command: finds and runs a command's module, and turns exceptions into sentences and exit codes."""

import argparse
import errno
import gc
import sys
import traceback
from collections.abc import Sequence

from preflight import __version__
from preflight.cli.command_groups import GROUPS, RootParser
from preflight.cli.parser import Parser, harmless, nearest
from preflight.cli.pipe import replace_closed_streams, silence_stdout, spell_what_cannot_be_encoded
from preflight.cli.settings import fill_in
from preflight.model.errors import PreflightError, UsageError

# Number of new objects that starts a garbage collection. Facts of thousands of hosts are no garbage until the command
# ends. With Python's default of 700, a third of the time goes into traversing them again and again.
YOUNG = 100_000

# Command → one-line help
COMMANDS = {name: text for commands in GROUPS.values() for name, text in commands.items()}

# Names of commands in other tools → ours.
MEANT = {
    **dict.fromkeys(("verify", "validate", "test", "doctor", "status"), "check"),
    **dict.fromkeys(("fix", "repair", "setup", "provision"), "configure"),
    **dict.fromkeys(("undo", "revert"), "rollback"),
    **dict.fromkeys(("runs", "list"), "history"),
    **dict.fromkeys(("log", "logs"), "diagnose"),
    **dict.fromkeys(("benchmark", "bench"), "probe"),
    **dict.fromkeys(("run", "start"), "launch"),
    **dict.fromkeys(("new", "create"), "init"),
    "compare": "diff",
    "import": "inventory import",
    "export": "inventory export",
    "install": "gate install",
    "simulate": "lab simulate",
    "demo": "lab up",
    "version": "--version",
}


def module_of(command: str) -> str:
    """Return the module of a command: that of `configure-ports` is commands/configure/ports.py."""
    return f"preflight.cli.commands.{command.replace('configure-', 'configure.').replace('-', '_')}"


def parser(wanted: str | None = None) -> Parser:
    """Return the parser of the whole command line. `wanted` is the command on it."""
    root = RootParser(prog="preflight")
    root.asked = f"preflight {wanted}" if wanted in COMMANDS else ""
    root.add_argument("--version", action="version", version=f"preflight {__version__}")
    commands = root.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=Parser)
    for name, help_text in COMMANDS.items():
        commands.add_parser(name, help=help_text, module=module_of(name))
    return root


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (see docs/contracts.md)."""
    replace_closed_streams()
    spell_what_cannot_be_encoded()
    gc.set_threshold(YOUNG)
    args = argparse.Namespace()
    try:
        _parse(list(sys.argv[1:] if argv is None else argv), args)
        code = int(args.run(args))
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("preflight: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of a pipe went away (`| head`), so no output can reach it.
        silence_stdout()
        return 0
    except OSError as error:
        if error.errno != errno.ENOSPC:
            return _bug()
        silence_stdout()
        print(f"preflight: cannot write the output: {error.strerror}", file=sys.stderr)
        return 1
    except PreflightError as error:
        print(f"preflight: {harmless(str(error))}", file=sys.stderr)
        if isinstance(error, UsageError) and hasattr(args, "inventory"):  # other commands contact no host anyway
            print("preflight: no host was contacted.", file=sys.stderr)
        return error.exit_code
    except Exception:
        return _bug()


def _parse(arguments: list[str], args: argparse.Namespace) -> None:
    """Parse the command line into `args`. Exit with 2 if it is wrong."""
    wanted = next((word for word in arguments if not word.startswith("-")), None)
    root = parser(wanted)
    if not arguments:
        root.error("COMMAND is missing, such as: preflight check --inventory hosts.toml")
    if wanted and wanted == arguments[0] and wanted not in COMMANDS:
        suggestion = f". Did you mean {MEANT[wanted]}?" if wanted in MEANT else nearest(wanted, COMMANDS)
        root.error(f"there is no command {wanted!r}{suggestion}")
    root.parse_args(arguments, args)
    args.argv = arguments
    fill_in(args)
    if getattr(args, "verbose", False) or getattr(args, "log_file", None):
        from preflight.cli.run_log import start_log

        start_log(verbose=args.verbose, file=args.log_file)


def _bug() -> int:
    traceback.print_exc()
    print("preflight: this is a bug in preflight. Please report the lines above.", file=sys.stderr)
    return 4
