"""The command tree. Each module of this room adds its commands; errors end here, in one line and an exit code."""

import os
import sys
from dataclasses import dataclass
from importlib import import_module

import typer

from rightlab.cli import console
from rightlab.errors import RightlabError, system_failure

__all__ = ["Options", "app", "options", "run"]

_MODULES = ("agents", "runtimes", "talk", "crons", "demo", "usage", "usage_show", "baseline", "later")
"""Where the commands are. An import of transcripts, which is to be as fast as a native tool, needs one of them."""


@dataclass(frozen=True, slots=True)
class Options:
    """What stands before the command."""

    home: str | None = None
    debug: bool = False


app = typer.Typer(
    name="rightlab",
    help="A Jupyter-native agent lab: chat agents on Claude Code, their prompts, costs and crons as notebooks.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _version(value: bool) -> None:
    if value:
        from rightlab import __version__

        console.line(f"rightlab {__version__}")
        raise typer.Exit()


@app.callback()
def main(
    context: typer.Context,
    home: str | None = typer.Option(
        None, "--home", metavar="DIR", help="The home folder; else RIGHTLAB_HOME, else ~/.rightlab."
    ),
    debug: bool = typer.Option(False, "--debug", help="Show the traceback of an error."),
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version."
    ),
) -> None:
    context.obj = Options(home=home, debug=debug)


def options(context: typer.Context) -> Options:
    """The options in front of the command."""
    found = context.find_object(Options)
    return found if found is not None else Options()


def run(argv: list[str]) -> int:
    """Run ``argv`` and return the exit code of the contract."""
    for name in ("usage",) if argv[:2] == ["usage", "import"] else _MODULES:
        import_module(f"rightlab.cli.{name}")
    debug = "--debug" in argv
    command = typer.main.get_command(app)
    try:
        code = command.main(args=argv or ["--help"], prog_name="rightlab", standalone_mode=False)
    except RightlabError as error:
        if debug:
            raise
        console.error(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of our output went away; leave quietly, also at interpreter shutdown.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        if debug:
            raise
        console.error(str(system_failure(error)))
        return 1
    except Exception as error:
        usage = _usage_error(error)
        if usage is not None:
            console.error(usage)
            return 2
        if type(error).__name__ == "Abort":
            return 130
        if debug:
            raise
        console.error(f"{type(error).__name__}: {error} (a bug; run again with --debug for the traceback)")
        return 1
    return code if isinstance(code, int) else 0


def _usage_error(error: Exception) -> str | None:
    """The one line of a usage error of the command-line library, whichever copy of it raised."""
    describe = getattr(error, "format_message", None)
    if describe is None:
        return None
    context = getattr(error, "ctx", None)
    hint = f" Try `{context.command_path} --help`." if context is not None else ""
    return f"{str(describe()).rstrip('.')}.{hint}"
