"""``demo`` and ``lab``: JupyterLab on the notebooks."""

from typing import Annotated

import typer

from rightlab.cli import console
from rightlab.cli.agents import home_of
from rightlab.cli.app import app, options
from rightlab.errors import UsageError
from rightlab.home import Home

__all__: list[str] = []

NoBrowser = Annotated[bool, typer.Option("--no-browser", help="Do not open a browser.")]


@app.command()
def demo(
    context: typer.Context,
    once: Annotated[
        bool, typer.Option("--once", help="One turn and one cron without a browser, then end.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --once: print one JSON document.")] = False,
    no_browser: NoBrowser = False,
    port: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=65535, help="JupyterLab's port.")
    ] = None,
) -> None:
    """A demo agent with a scripted model: no account, no token, nothing leaves this machine."""
    from rightlab.runtime.demo import prepare_demo, run_once
    from rightlab.runtime.jupyter import serve_lab

    if as_json and not once:
        raise UsageError("--json goes with --once", fix="Add --once, or leave --json out.")
    prepared = prepare_demo(Home.resolve(options(context).home), say=console.note)
    if once:
        found = run_once(prepared)
        if as_json:
            console.document(found)
        else:
            console.lines(
                [
                    f"{found['agent']} (scripted model): {found['turn']['text']}",
                    f"cron {found['cron']['job']}: {found['cron']['status']}, {found['cron']['delivery_status']};"
                    f" executed notebook: {found['cron']['notebook']}",
                    f"home: {found['home']}",
                    f"notebooks: {found['notebooks']}",
                ]
            )
        return
    console.note(f"The demo agent lives in {prepared.home.path}; its model is scripted.")
    if not prepared.has_history:
        console.note("Running one turn and one cron first, so that there is something to see ...")
        run_once(prepared)
    serve_lab(
        prepared.home,
        notebooks=prepared.notebooks,
        open_path="00_start.ipynb",
        browser=not no_browser,
        port=port,
        say=console.note,
    )


@app.command()
def lab(
    context: typer.Context,
    agent: Annotated[
        str | None, typer.Argument(metavar="[AGENT]", help="The agent the notebooks show.")
    ] = None,
    no_browser: NoBrowser = False,
    port: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=65535, help="JupyterLab's port.")
    ] = None,
) -> None:
    """JupyterLab on your notebooks, with the kernel "rightlab" and the running agents to attach to."""
    from rightlab.runtime.jupyter import copy_notebooks, serve_lab

    home = home_of(options(context))
    if agent is not None:
        home.agent(agent)
    serve_lab(
        home,
        notebooks=copy_notebooks(home),
        open_path="00_start.ipynb",
        agent=agent,
        browser=not no_browser,
        port=port,
        say=console.note,
    )
