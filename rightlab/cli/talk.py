"""``ask`` and ``prompt``: one turn, and what the model is told."""

from enum import StrEnum
from typing import Annotated

import typer

from rightlab.cli import console
from rightlab.cli.agents import home_of
from rightlab.cli.app import app, options
from rightlab.html import clean
from rightlab.lab import Lab

__all__: list[str] = []

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Name = Annotated[str, typer.Argument(metavar="AGENT")]


class Mode(StrEnum):
    normal = "normal"
    cron = "cron"
    bootstrap_question = "bootstrap_question"
    bootstrap_final = "bootstrap_final"


@app.command()
def ask(
    context: typer.Context,
    agent: Name,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to say.")],
    as_json: AsJson = False,
) -> None:
    """One turn: through the agent's owner if there is one, else under a lease for this turn."""
    turn = Lab(home_of(options(context)).agent(agent)).ask(text)
    failed = turn.status in {"failed", "lost"}
    if as_json:
        document = turn.to_json()
        keys = (
            "reply",
            "text",
            "session_id",
            "turn_id",
            "num_turns",
            "cost_usd",
            "usage",
            "elapsed_ms",
            "skills",
        )
        console.document({key: document[key] for key in (*keys, "model", "status", "error", "source")})
    elif not failed:
        # A reply must not steer the terminal it is shown in.
        console.line(clean(turn.text) or "(the agent chose to say nothing)")
        if turn.source.startswith("scripted"):
            console.note("(scripted model)")
    if failed:
        console.error(turn.error or "the turn failed")
        raise typer.Exit(1)


@app.command()
def prompt(
    context: typer.Context,
    agent: Name,
    mode: Annotated[Mode, typer.Option(help="Which prompt.")] = Mode.normal,
    as_json: AsJson = False,
) -> None:
    """What the model is told, section by section, from the files as they are now."""
    assembly = Lab(home_of(options(context)).agent(agent)).prompt(mode.value)
    if as_json:
        console.document(assembly.to_json())
    else:
        console.line(assembly.render())
        for problem in assembly.problems:
            console.note(f"{problem.severity}: {problem.message}")
