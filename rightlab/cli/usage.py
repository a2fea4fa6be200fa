"""``usage ...``: what agents and people's own sessions used, in tokens and money."""

import typer

from rightlab.cli.app import app
from rightlab.cli.later import later

__all__ = ["usage_app"]

usage_app = typer.Typer(help="Tokens and money.", rich_markup_mode=None)
app.add_typer(usage_app, name="usage")
later(usage_app, "show", "usage reports")
later(usage_app, "import", "transcript import")
