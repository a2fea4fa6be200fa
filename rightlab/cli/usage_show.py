"""``usage show``: what an agent's ledger says."""

from typing import Annotated

import typer

from rightlab.cli import console
from rightlab.cli.agents import home_of
from rightlab.cli.app import options
from rightlab.cli.usage import usage_app
from rightlab.lab import Lab

__all__: list[str] = []


@usage_app.command()
def show(
    context: typer.Context,
    agent: Annotated[str, typer.Argument(metavar="AGENT")],
    days: Annotated[int, typer.Option(metavar="N", help="So many whole days, and today.")] = 14,
    by: Annotated[
        str,
        typer.Option(
            metavar="KEYS", help="source, model, day, chat, job, session, skill, prompt; several with commas."
        ),
    ] = "source",
    tz: Annotated[str | None, typer.Option(metavar="ZONE", help="Whose days; else the agent's.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """What an agent's invocations used and cost, with percentiles from 20 of them on."""
    costs = Lab(home_of(options(context)).agent(agent)).costs(days=days, by=by, tz=tz)
    if as_json:
        console.document(costs.to_json())
    else:
        console.show(costs)
