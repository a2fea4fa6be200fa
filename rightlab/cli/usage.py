"""``usage ...``: what agents and people's own sessions used, in tokens and money."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rightlab.cli import console
from rightlab.cli.app import app

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["usage_app"]

usage_app = typer.Typer(help="Tokens and money.", rich_markup_mode=None)
app.add_typer(usage_app, name="usage")

_SHOWN = 20
"""Errors and notes that people see; --json has all."""


@usage_app.command("import")
def import_(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Files, or folders to search.")],
    store: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep the rows here; the next import reads only what is new."),
    ] = None,
    tz: Annotated[str, typer.Option(metavar="ZONE", help="Whose days.")] = "UTC",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Tokens and list-price costs of Claude Code transcripts: files or folders, searched to the bottom."""
    from rightlab.usage.importing import import_paths, time_zone

    time_zone(tz)
    # A hundred thousand rows without a cycle among them, in a process that ends with them.
    gc.disable()
    with _progress(not as_json) as progress:
        if store is None:
            read = import_paths(paths, progress=progress)
        else:
            from rightlab.usage.import_store import ImportStore

            read = ImportStore(store).update(paths, progress=progress)
    report = read.report(tz)
    if as_json:
        console.document(report)
    else:
        _summary(report, tz)


@contextmanager
def _progress(wanted: bool) -> "Iterator[Callable[[int, int, int], None] | None]":
    """A bar with files, rate and remaining time, for people at a terminal alone."""
    if not wanted or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.progress import TransferSpeedColumn as Rate

    with Progress(
        TextColumn("{task.fields[files]} files"),
        BarColumn(),
        DownloadColumn(),
        Rate(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as bar:
        task = bar.add_task("import", total=None, files="")

        def progress(files: int, done: int, total: int) -> None:
            bar.update(task, files=str(files), completed=done, total=total)

        yield progress


def _summary(report: dict[str, Any], tz: str) -> None:
    totals = report["totals"]
    console.line(
        f"{report['files']} files, {report['lines']:,} lines: {report['requests']:,} requests of"
        f" {report['turns']:,} prompts, {report['duplicates']:,} repeated rows left out"
    )
    names = ("input", "output", "cache read", "write 5m", "write 1h", "list price")
    for head, entries in (("model", report["by_model"]), (f"day ({tz})", report["by_day"])):
        if entries:
            console.line()
            rows = [[name, *_cells(entry)] for name, entry in entries.items()]
            console.table((head, *names), [*rows, ["total", *_cells(totals)]], empty="")
    if not totals["cost_complete"]:
        console.line()
        console.line("The costs are not complete: what has no known price is not in them.")
    if totals["unknown_models"]:
        console.line(f"No known price: {', '.join(totals['unknown_models'])}")
    for title, told in (("notes", report["notes"]), ("errors", report["errors"])):
        if told:
            console.line()
            console.line(f"{len(told)} {title}:")
            console.lines(f"  {one}" for one in told[:_SHOWN])
            if len(told) > _SHOWN:
                console.line(f"  and {len(told) - _SHOWN} more; --json lists all")


def _cells(entry: dict[str, Any]) -> list[str]:
    cost = entry["cost_usd"]
    counts = ("input", "output", "cache_read", "cache_write_5m", "cache_write_1h")
    return [f"{entry[f'{name}_tokens']:,}" for name in counts] + [
        "unknown" if cost is None else f"${cost:,.4f}"
    ]
