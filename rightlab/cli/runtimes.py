"""``up``, ``down``, ``restart``, ``run``, ``logs``: agents as processes."""

import time
from typing import Annotated

import typer

from rightlab.cli import console
from rightlab.cli.agents import home_of
from rightlab.cli.app import app, options
from rightlab.errors import UsageError
from rightlab.home import AgentHome, Home
from rightlab.lab import Lab

__all__: list[str] = []

Names = Annotated[list[str] | None, typer.Argument(metavar="[AGENT]...", help="All agents without a name.")]
Name = Annotated[str, typer.Argument(metavar="AGENT")]


def _named(home: Home, names: list[str] | None) -> list[AgentHome]:
    wanted = names or home.agents()
    if not wanted:
        raise UsageError("this home has no agents", where=home.path, fix="Make one: rightlab init NAME")
    return [home.agent(name) for name in wanted]


@app.command()
def up(context: typer.Context, agents: Names = None) -> None:
    """Start agents, each in a headless kernel that JupyterLab can attach to."""
    from rightlab.runtime.headless import start_kernel

    for agent in _named(home_of(options(context)), agents):
        pid, started = start_kernel(agent)
        word = "is up" if started else "was up already"
        console.line(f"{agent.name} {word} (process {pid}); attach with: rightlab lab {agent.name}")


@app.command()
def down(context: typer.Context, agents: Names = None) -> None:
    """Stop agents, wherever they run."""
    from rightlab.runtime.headless import stop_owner

    for agent in _named(home_of(options(context)), agents):
        console.line(f"{agent.name} {'is down' if stop_owner(agent) else 'was not up'}")


@app.command()
def restart(context: typer.Context, agent: Name) -> None:
    """Stop an agent and start it again in a headless kernel."""
    from rightlab.runtime.headless import start_kernel, stop_owner

    found = home_of(options(context)).agent(agent)
    stop_owner(found)
    pid, _ = start_kernel(found)
    console.line(f"{agent} is up (process {pid})")


@app.command("run")
def run_agent(context: typer.Context, agent: Name) -> None:
    """Run an agent in the foreground, without IPython, until SIGTERM or Ctrl-C."""
    from rightlab.runtime.foreground import serve

    serve(home_of(options(context)).agent(agent), announce=console.note)


@app.command()
def logs(
    context: typer.Context,
    agent: Name,
    lines: Annotated[int, typer.Option("-n", "--lines", min=1, help="How many lines.")] = 100,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Keep printing what is added.")] = False,
) -> None:
    """The agent's log."""
    from rightlab.runtime.logs import follow as follow_log

    lab = Lab(home_of(options(context)).agent(agent))
    console.lines(lab.logs(lines))
    if follow:
        for text in follow_log(lab.agent, wait=lambda: time.sleep(0.3)):
            console.line(text)
