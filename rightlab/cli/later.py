"""Commands whose work comes in a later version: one line, exit code 1, never a pretence (contract)."""

import typer

from rightlab.cli.app import app
from rightlab.errors import NotAvailable

__all__ = ["later"]


def later(parent: typer.Typer, name: str, what: str) -> None:
    """Add ``name`` to ``parent``; whatever stands behind it is accepted and answered with one line."""

    def command(context: typer.Context) -> None:
        raise NotAvailable(what)

    command.__doc__ = f"Not available yet: {what}."
    parent.command(name, context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(command)


for _name, _what in (
    ("skills", "the skill inventory"),
    ("curator", "the curator"),
    ("export", "exporting notebooks"),
    ("mcp", "the MCP view"),
):
    later(app, _name, _what)
