"""``baseline ...``: what a turn usually costs, saved for git, and the check against it."""

from pathlib import Path
from typing import Annotated

import typer

from rightlab.cli import console
from rightlab.cli.agents import home_of
from rightlab.cli.app import app, options
from rightlab.errors import UsageError
from rightlab.home import AgentHome
from rightlab.runtime.baselines import check_baseline, folder_of, read_baseline, saved_baseline
from rightlab.usage.saved import names_in

__all__: list[str] = []

MAIN = "main"

baseline_app = typer.Typer(
    help="What a turn usually costs, and whether it still does.", rich_markup_mode=None
)
app.add_typer(baseline_app, name="baseline")

Agent = Annotated[str, typer.Argument(metavar="AGENT")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Folder = Annotated[
    Path | None,
    typer.Option("--store", metavar="DIR", help="Where baselines are kept; else the agent's folder."),
]
Days = Annotated[int, typer.Option(metavar="N", help="So many whole days; today is never in a baseline.")]
Source = Annotated[str, typer.Option(metavar="SOURCE", help='Who it ran for, several with commas, or "all".')]
Zone = Annotated[
    str | None, typer.Option("--tz", metavar="ZONE", help="Days of this zone; else the agent's.")
]


def _agent(context: typer.Context, name: str) -> AgentHome:
    return home_of(options(context)).agent(name)


def _sources(source: str) -> tuple[str, ...] | str | None:
    names = tuple(part for part in source.replace(" ", "").split(",") if part)
    if not names:
        raise UsageError("an empty --source", fix='Name a source, or "all".')
    return None if names == ("all",) else names[0] if len(names) == 1 else names


@baseline_app.command()
def save(
    context: typer.Context,
    agent: Agent,
    store: Folder = None,
    name: Annotated[str, typer.Option(metavar="N", help="The baseline's name.")] = MAIN,
    days: Days = 14,
    source: Source = "interactive",
    tz: Zone = None,
    as_json: AsJson = False,
) -> None:
    """Save what a turn cost in the last whole days as a small JSON file, meant for git.

    Exits 1 when there is too little to be a baseline (20 turns on 3 days before today).
    """
    found = read_baseline(_agent(context, agent), days=days, source=_sources(source), tz=tz, store=store)
    path = found.save(name)
    if as_json:
        console.document({**found.to_json(), "name": name, "saved": str(path)})
    else:
        console.show(found)
        console.line(f"Saved as {path}")


@baseline_app.command()
def show(
    context: typer.Context,
    agent: Agent,
    store: Folder = None,
    name: Annotated[
        str | None, typer.Option(metavar="N", help='The baseline\'s name; else "main", else the one of now.')
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show a saved baseline; without a name and a saved one, what would be saved now."""
    home = _agent(context, agent)
    found = saved_baseline(home, name or MAIN, store)
    if found is None and name is not None:
        known = names_in(folder_of(home, store))
        raise UsageError(
            f"{agent} has no baseline {name!r}",
            fix=f"Saved are: {', '.join(known)}." if known else f"Save one: rightlab baseline save {agent}",
        )
    shown = found or read_baseline(home, store=store)
    if as_json:
        console.document({**shown.to_json(), "saved": found is not None})
    else:
        console.show(shown)
        if found is None:
            console.note(f"Nothing is saved yet: rightlab baseline save {agent}")


@baseline_app.command()
def check(
    context: typer.Context,
    agent: Agent,
    store: Folder = None,
    name: Annotated[str, typer.Option(metavar="N", help="The baseline's name.")] = MAIN,
    days: Annotated[int, typer.Option(metavar="N", help="Look back so many days at most.")] = 14,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 also when it cannot be told.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compare what ran since a saved baseline with it: cheaper, dearer or cannot tell.

    Exits 0 when cheaper or when it cannot be told, 1 when dearer, 2 when there is no such baseline.
    """
    verdict = check_baseline(_agent(context, agent), name, days=days, store=store)
    if as_json:
        console.document(verdict.to_json())
    else:
        console.show(verdict)
    if not verdict.ok or (strict and verdict.outcome == "cannot tell"):
        raise typer.Exit(1)
