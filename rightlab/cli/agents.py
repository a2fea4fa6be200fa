"""``init``, ``list``, ``status``, ``doctor`` and ``agent ...``: agents as folders."""

import sys
from typing import Annotated

import typer

from rightlab.cli import console
from rightlab.cli.app import Options, app, options
from rightlab.cli.later import later
from rightlab.errors import UsageError
from rightlab.home import AgentHome, Home

__all__ = ["home_of"]

agent_app = typer.Typer(help="Who may talk to an agent, and its folder.", rich_markup_mode=None)
app.add_typer(agent_app, name="agent")

AgentName = Annotated[str, typer.Argument(metavar="AGENT", help="The agent's name.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def home_of(opts: Options) -> Home:
    """The home of this command, refused when it is somebody else's folder."""
    home = Home.resolve(opts.home)
    home.check()
    return home


def _no_agents(home: Home) -> str:
    if home.demo_home.marked:
        return f"No agents in {home.path} yet; the demo's is here: rightlab --home {home.demo_home.path} list"
    return f"No agents in {home.path} yet. Make one: rightlab init NAME, or try: rightlab demo"


def _agent(context: typer.Context, name: str) -> AgentHome:
    return home_of(options(context)).agent(name)


@app.command()
def init(
    context: typer.Context,
    agent: AgentName,
    telegram_token: Annotated[
        str | None, typer.Option(metavar="T", help="The bot's token from @BotFather; kept in secrets.json.")
    ] = None,
    allow: Annotated[
        list[int] | None, typer.Option(metavar="ID", help="A Telegram user id that may talk to it.")
    ] = None,
    sandbox: Annotated[str, typer.Option(help="auto, bwrap, landlock, openshell or none.")] = "auto",
    model: Annotated[str | None, typer.Option(metavar="M", help="A Claude model name or alias.")] = None,
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Ask nothing.")] = False,
) -> None:
    """Make an agent: its folder, configuration and files."""
    from rightlab.runtime.setup import make_agent

    home = home_of(options(context))
    allowed = list(allow or [])
    if not yes and sys.stdin.isatty():
        if telegram_token is None:
            telegram_token = (
                typer.prompt("Telegram bot token (empty for none)", default="", hide_input=True) or None
            )
        if telegram_token and not allowed:
            answer = typer.prompt("Your Telegram user id (empty for none)", default="")
            if answer:
                allowed.append(_user_id(answer))
    made = make_agent(home, agent, telegram_token=telegram_token, allow=allowed, sandbox=sandbox, model=model)
    console.line(f"Agent {made.name} is ready in {made.root}")
    console.line(f"Next: rightlab doctor {made.name}, then rightlab up {made.name}")


def _user_id(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(
            f"{text!r} is not a Telegram user id", fix="A user id is a number; @userinfobot tells you yours."
        ) from None


@app.command("list")
def list_agents(context: typer.Context, as_json: AsJson = False) -> None:
    """The agents of this home."""
    from rightlab.runtime.status import read_status

    home = home_of(options(context))
    found = [read_status(home.agent(name)) for name in home.agents()]
    if as_json:
        console.document([status.to_json() for status in found])
        return
    console.table(
        ["agent", "state", "model", "sandbox", "telegram"],
        [[s.agent, s.state_word, s.model or "-", s.sandbox, s.telegram_word] for s in found],
        empty=_no_agents(home),
    )


@app.command()
def status(
    context: typer.Context,
    agent: Annotated[str | None, typer.Argument(metavar="AGENT")] = None,
    as_json: AsJson = False,
) -> None:
    """What an agent is doing; all agents without a name."""
    from rightlab.runtime.status import read_status

    home = home_of(options(context))
    names = [agent] if agent is not None else home.agents()
    found = [read_status(home.agent(name)) for name in names]
    if as_json:
        console.document(found[0].to_json() if agent is not None else [item.to_json() for item in found])
        return
    if not found:
        console.line(_no_agents(home))
    for item in found:
        console.show(item)


@app.command()
def doctor(
    context: typer.Context,
    agent: Annotated[str | None, typer.Argument(metavar="AGENT")] = None,
    as_json: AsJson = False,
) -> None:
    """Check what an agent needs; each finding names its fix. Exits 1 when something must be fixed."""
    from rightlab.runtime.doctor import examine

    home = home_of(options(context))
    names = [agent] if agent is not None else home.agents()
    reports = [examine(home.agent(name)) for name in names] or [examine(None)]
    if as_json:
        documents = [report.to_json() for report in reports]
        console.document(documents[0] if len(documents) == 1 else documents)
    else:
        for report in reports:
            console.show(report)
    if any(report.failed for report in reports):
        raise typer.Exit(1)


@agent_app.command("allow")
def allow_user(
    context: typer.Context,
    agent: AgentName,
    user_id: Annotated[int, typer.Argument(metavar="ID", help="A Telegram user id.")],
    label: Annotated[str | None, typer.Option(help="A name for people reading the list.")] = None,
) -> None:
    """Let a Telegram user talk to the agent."""
    added = _agent(context, agent).allowlist().allow(user_id, label=label)
    console.line(f"{user_id} may talk to {agent}" if added else f"{user_id} could already talk to {agent}")


@agent_app.command("deny")
def deny_user(
    context: typer.Context,
    agent: AgentName,
    user_id: Annotated[int, typer.Argument(metavar="ID", help="A Telegram user id.")],
) -> None:
    """Stop a Telegram user from talking to the agent."""
    removed = _agent(context, agent).allowlist().deny(user_id)
    console.line(f"{user_id} may no longer talk to {agent}" if removed else f"{user_id} was not allowed")


@agent_app.command("allowed")
def allowed(context: typer.Context, agent: AgentName, as_json: AsJson = False) -> None:
    """Who may talk to the agent."""
    allowlist = _agent(context, agent).allowlist()
    if as_json:
        console.document(
            {
                "users": [entry.model_dump(mode="json") for entry in allowlist.users],
                "groups": [group.model_dump(mode="json") for group in allowlist.groups],
            }
        )
        return
    rows = [["user", entry.id, entry.label or "-"] for entry in allowlist.users]
    rows += [[group.kind, group.id, group.label or "-"] for group in allowlist.groups]
    console.table(
        ["kind", "id", "label"], rows, empty=f"Nobody yet. Add yourself: rightlab agent allow {agent} YOUR_ID"
    )


@agent_app.command("destroy")
def destroy(
    context: typer.Context,
    agent: AgentName,
    yes: Annotated[bool, typer.Option("-y", "--yes", "--force", help="Do not ask.")] = False,
) -> None:
    """Delete an agent with everything it has: files, history, ledger, credentials."""
    from rightlab.runtime.lease import lease_is_held

    home = home_of(options(context))
    found = home.agent(agent)
    if lease_is_held(found):
        raise UsageError(f"agent {agent!r} is up", fix=f"Stop it first: rightlab down {agent}")
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError("destroy deletes everything of the agent", fix="Add -y to say that you mean it.")
        typer.confirm(f"Delete {found.root} and all it holds?", abort=True)
    home.destroy_agent(agent)
    console.line(f"Agent {agent} is gone")


for name, what in (
    ("backup", "backups"),
    ("restore", "restoring a backup"),
    ("rebootstrap", "bootstrapping again"),
):
    later(agent_app, name, what)
