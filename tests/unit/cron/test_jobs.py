"""Job specs: what may be stored, how an edit counts, and triggers as rows."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from rightlab.cron import DEFAULT_BUDGET_USD, peak_minute_warning
from rightlab.errors import RightlabError, ScheduleError, UsageError


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)


def notebook(folder: Path, name: str = "n.ipynb") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    return path


def test_a_job_is_what_was_asked_with_the_default_policies(bench: Any) -> None:
    job = bench.jobs.add("daily-report", schedule="17 9 * * 1-5", prompt="Report.", timezone="Europe/Berlin")
    assert (job.kind, job.max_budget_usd, job.catchup, job.overlap, job.retries) == (
        "prompt",
        5.0,
        "latest",
        "skip",
        1,
    )
    assert DEFAULT_BUDGET_USD == 5.0
    assert (job.deadline_seconds, job.lock_ttl, job.recurring, job.enabled) == (1800, "30m", True, True)
    assert job.next_slot == utc(2026, 6, 2, 7, 17)
    assert job.fires(bench.clock.now(), 1)[0].isoformat() == "2026-06-02T09:17:00+02:00"
    assert bench.jobs.get("daily-report") == job
    assert [one.name for one in bench.jobs.list()] == ["daily-report"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"name": "Daily"}, "cron name"),
        ({"name": "-x"}, "cron name"),
        ({"name": "a_b"}, "cron name"),
        ({"name": ""}, "cron name"),
        ({"name": "../x"}, "cron name"),
        ({"name": "a" * 65}, "cron name"),
        ({"name": "a\n"}, "cron name"),
        ({"schedule": None}, "exactly one"),
        ({"run_at": datetime(2027, 1, 1, tzinfo=UTC)}, "exactly one"),
        ({"schedule": "0 0 9 * * 1"}, "6 fields"),
        ({"timezone": "Berlin"}, "Europe/Berlin"),
        ({"prompt": "  "}, "no prompt"),
        ({"prompt": None}, "no prompt"),
        ({"notebook": "x.ipynb"}, "exactly one"),
        ({"max_budget_usd": 0}, "budget"),
        ({"max_budget_usd": float("nan")}, "budget"),
        ({"max_budget_usd": float("inf")}, "budget"),
        ({"deadline_seconds": 0}, "deadline"),
        ({"lock_ttl": "30s"}, "30m"),
        ({"catchup": "some"}, "latest"),
        ({"overlap": "maybe"}, "skip"),
        ({"parameters": {"x": {1, 2}}}, "JSON"),
    ],
)
def test_a_bad_spec_is_one_clear_line_and_stores_nothing(bench: Any, changes: Any, says: str) -> None:
    asked = {"name": "ok", "schedule": "17 9 * * *", "prompt": "Hi", **changes}
    with pytest.raises(UsageError) as caught:
        bench.jobs.add(asked.pop("name"), **asked)
    assert says in str(caught.value)
    assert bench.jobs.list() == []


def test_a_name_is_taken_once_and_an_unknown_one_lists_the_others(bench: Any) -> None:
    bench.jobs.add("one", schedule="17 9 * * *", prompt="Hi")
    with pytest.raises(UsageError, match="already"):
        bench.jobs.add("one", schedule="17 9 * * *", prompt="Hi")
    for act in (bench.jobs.get, bench.jobs.remove, bench.jobs.trigger):
        with pytest.raises(UsageError, match=r"no cron named 'two'.*There are: one"):
            act("two")
    bench.jobs.remove("one")
    with pytest.raises(UsageError, match="none"):
        bench.jobs.get("one")


def test_a_notebook_runs_as_the_person_so_only_the_person_schedules_one(bench: Any) -> None:
    mine = notebook(bench.root / "mine")
    job = bench.jobs.add("etl", schedule="17 9 * * *", notebook=mine, parameters={"n": 3})
    assert (job.kind, job.notebook, dict(job.parameters)) == ("notebook", str(mine), {"n": 3})
    with pytest.raises(UsageError, match="prompts only"):
        bench.jobs.add("evil", schedule="17 9 * * *", notebook=mine, created_by="agent")
    theirs = notebook(bench.root / "sandbox")
    with pytest.raises(UsageError, match="own folder"):
        bench.jobs.add("evil", schedule="17 9 * * *", notebook=theirs)
    link = bench.root / "mine" / "link.ipynb"
    link.symlink_to(theirs)
    with pytest.raises(UsageError, match="own folder"):
        bench.jobs.add("evil", schedule="17 9 * * *", notebook=link)
    for bad, says in (("nowhere.ipynb", "no such notebook"), (__file__, "ipynb file")):
        with pytest.raises(UsageError, match=says):
            bench.jobs.add("evil", schedule="17 9 * * *", notebook=bad)


def test_c28_schedule_and_run_at_exclude_each_other(bench: Any) -> None:
    bench.jobs.add("once", run_at=utc(2026, 6, 1, 9), prompt="Hi")
    job = bench.jobs.get("once")
    assert (job.recurring, job.schedule, job.next_slot) == (False, "", utc(2026, 6, 1, 9))
    job = bench.jobs.update("once", schedule="17 9 * * *")
    assert (job.recurring, job.run_at) == (True, None)
    job = bench.jobs.update("once", run_at=utc(2026, 6, 3))
    assert (job.recurring, job.schedule, job.next_slot) == (False, "", utc(2026, 6, 3))
    with pytest.raises(ScheduleError, match="not both"):
        bench.jobs.update("once", schedule="17 9 * * *", run_at=utc(2026, 6, 3))
    with pytest.raises(UsageError, match="nothing to change"):
        bench.jobs.update("once")
    with pytest.raises(UsageError, match="unknown field 'color'"):
        bench.jobs.update("once", color="red")
    with pytest.raises(ScheduleError, match="no time zone"):
        bench.jobs.update("once", run_at=datetime(2026, 6, 3))


async def test_pain_OC10021_an_edit_counts_from_the_last_due_slot(bench: Any) -> None:
    """A daily job edited after its run must come tomorrow, not the day after; one edited before it still runs."""
    bench.jobs.add("d", schedule="0 9 * * *", prompt="Hi")
    bench.clock.set("2026-06-01T09:00:02Z")
    await bench.tick()
    bench.clock.set("2026-06-01T12:00:00Z")
    assert bench.jobs.update("d", schedule="0 8 * * *").next_slot == utc(2026, 6, 2, 8)
    assert bench.jobs.update("d", prompt="Other").next_slot == utc(2026, 6, 2, 8)
    assert bench.jobs.update("d", schedule="0 11 * * *").next_slot == utc(2026, 6, 1, 11)


def test_pain_OC33092_editing_the_prompt_keeps_what_is_due(bench: Any) -> None:
    bench.jobs.add("d", schedule="0 9 * * *", prompt="Hi")
    bench.clock.set("2026-06-01T09:00:13Z")
    assert bench.jobs.update("d", prompt="Other").next_slot == utc(2026, 6, 1, 9)


def test_a_trigger_is_a_row_before_it_returns(bench: Any) -> None:
    bench.jobs.add("d", schedule="0 9 * * *", prompt="Hi")
    slots = [bench.jobs.trigger("d", notify=True, extra_instruction=" short ") for _ in range(3)]
    assert len({slot.slot for slot in slots}) == 3
    assert {(s.origin, s.status, s.force_notify, s.extra_instruction) for s in slots} == {
        ("manual", "due", True, "short")
    }
    assert len(bench.jobs.slots("d")) == 3
    bench.jobs.remove("d")
    assert {slot.status for slot in bench.jobs.slots("d")} == {"skipped"}


def test_peak_minutes_are_hinted_at(bench: Any) -> None:
    assert peak_minute_warning("0 9 * * *")
    assert peak_minute_warning("*/10 * * * *")
    assert peak_minute_warning("17,47 9 * * *") is None
    assert peak_minute_warning("") is None


def test_unknown_run(bench: Any) -> None:
    with pytest.raises(RightlabError, match="no run"):
        bench.jobs.run("x")
