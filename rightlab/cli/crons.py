"""``cron ...``: scheduled notebooks and prompts."""

from pathlib import Path
from typing import Annotated

import typer

from rightlab.cli import console
from rightlab.cli.agents import home_of
from rightlab.cli.app import app, options
from rightlab.errors import UsageError
from rightlab.lab import Lab
from rightlab.runtime.crons import Crons

__all__: list[str] = []

cron_app = typer.Typer(help="Scheduled notebooks and prompts.", rich_markup_mode=None)
app.add_typer(cron_app, name="cron")

Agent = Annotated[str, typer.Argument(metavar="AGENT")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The job's name.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def _crons(context: typer.Context, agent: str) -> Crons:
    return Lab(home_of(options(context)).agent(agent)).crons


@cron_app.command()
def add(
    context: typer.Context,
    agent: Agent,
    name: Name,
    schedule: Annotated[
        str, typer.Option(metavar="EXPR", help='Five fields, like "17 9 * * 1-5", or @daily.')
    ],
    prompt: Annotated[str | None, typer.Option(metavar="TEXT", help="Ask the agent this.")] = None,
    notebook: Annotated[Path | None, typer.Option(metavar="PATH", help="Run this notebook.")] = None,
    tz: Annotated[str | None, typer.Option(metavar="ZONE", help="IANA zone; else the agent's.")] = None,
    chat: Annotated[
        int | None, typer.Option(metavar="ID", help="Where the result goes; else the notebook chat.")
    ] = None,
    thread: Annotated[int, typer.Option(metavar="ID", help="The topic in that chat.")] = 0,
) -> None:
    """Schedule a prompt or a notebook."""
    if (prompt is None) == (notebook is None):
        raise UsageError("a cron is either --prompt TEXT or --notebook PATH", fix="Give exactly one of them.")
    crons = _crons(context, agent)
    job = crons.add(
        name, schedule=schedule, prompt=prompt, notebook=notebook, tz=tz, chat=chat, thread=thread
    )
    where = "the notebook chat (another: --chat ID)" if chat is None else f"chat {chat}"
    console.line(f"{name}: {job.sentence}; next {job.next_local}; result to {where}")
    if crons.nobody_runs_them:
        console.note(f"Nobody runs {agent}'s crons now; start it with: rightlab up {agent}")


@cron_app.command("list")
def list_jobs(context: typer.Context, agent: Agent, as_json: AsJson = False) -> None:
    """The jobs with their next fires."""
    crons = _crons(context, agent)
    console.document(crons.to_json()) if as_json else console.show(crons)


@cron_app.command()
def show(context: typer.Context, agent: Agent, name: Name, as_json: AsJson = False) -> None:
    """One job: schedule, next fires, last runs."""
    job = _crons(context, agent).job(name)
    console.document(job.to_json()) if as_json else console.show(job)


@cron_app.command()
def remove(context: typer.Context, agent: Agent, name: Name) -> None:
    """Delete a job; its past runs stay."""
    _crons(context, agent).remove(name)
    console.line(f"{name} is gone; its past runs stay")


@cron_app.command()
def trigger(
    context: typer.Context,
    agent: Agent,
    name: Name,
    notify: Annotated[
        bool, typer.Option("--notify", help="Report even when the run would stay silent.")
    ] = False,
) -> None:
    """Run a job now. The trigger is stored before this returns and is never lost."""
    crons = _crons(context, agent)
    crons.trigger(name, notify=notify)
    console.line(f"{name} is triggered; see: rightlab cron runs {agent} {name}")
    if crons.nobody_runs_them:
        console.note(f"It runs as soon as the agent is up: rightlab up {agent}")


@cron_app.command()
def runs(
    context: typer.Context,
    agent: Agent,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]")] = None,
    limit: Annotated[int, typer.Option("-n", min=1, max=1000, help="How many.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Past and current runs, newest first."""
    history = _crons(context, agent).runs(name, limit=limit)
    console.document(history.to_json()) if as_json else console.show(history)


@cron_app.command()
def explain(
    expr: Annotated[str, typer.Argument(metavar="EXPR")],
    tz: Annotated[str, typer.Option(metavar="ZONE", help="An IANA zone, like Europe/Berlin.")],
    start: Annotated[str | None, typer.Option("--from", metavar="ISO", help="From when; else now.")] = None,
    count: Annotated[int, typer.Option("-n", min=1, max=1000, help="How many fires.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Say a schedule in a sentence and show its next fires with their offsets."""
    from rightlab.runtime.crons import explain_schedule

    found = explain_schedule(expr, tz, start=start, count=count)
    if as_json:
        console.document(found)
        return
    console.line(found["sentence"])
    console.table(
        ["local", "offset", "UTC"],
        [[fire["local"], fire["offset"], fire["utc"]] for fire in found["fires"]],
        empty="It never fires.",
    )
