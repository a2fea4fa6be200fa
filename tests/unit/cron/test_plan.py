"""Slots after an absence: which run, which are missed, and why."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rightlab.cron import Job, next_fires
from rightlab.cron.plan import ago, plan


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)


def job(**changes: Any) -> Job:
    created = utc(2026, 6, 1, 8)
    base = Job(
        name="j",
        kind="prompt",
        schedule="0 * * * *",
        timezone="UTC",
        recurring=True,
        run_at=None,
        prompt="Hi",
        notebook=None,
        parameters={},
        model=None,
        max_budget_usd=5.0,
        lock_ttl="30m",
        deadline_seconds=1800.0,
        catchup="latest",
        catchup_max=10,
        catchup_lateness_seconds=None,
        overlap="skip",
        retries=1,
        enabled=True,
        target_chat_id=None,
        target_thread_id=0,
        created_by="person",
        next_slot=None,
        last_slot=None,
        triggered_at=None,
        created_at=created,
        updated_at=created,
    )
    made = replace(base, **changes)
    return replace(made, next_slot=changes.get("next_slot", made.first_slot(created)))


def outcome(one: Job, now: datetime) -> list[tuple[str, str, str]]:
    decided = plan(one, now)
    return (
        [(d.slot.strftime("%H:%M"), d.status, d.reason or "") for d in decided.decisions] if decided else []
    )


def test_nothing_is_due_before_its_time_or_when_paused() -> None:
    assert plan(job(), utc(2026, 6, 1, 8, 59, 59)) is None
    assert plan(job(enabled=False), utc(2026, 6, 1, 12)) is None


def test_on_time_needs_no_reason() -> None:
    assert outcome(job(), utc(2026, 6, 1, 9, 0, 4)) == [("09:00", "due", "")]


@pytest.mark.parametrize(
    ("policy", "due", "missed"),
    [
        ({"catchup": "none"}, [], ["09:00", "10:00", "11:00"]),
        ({"catchup": "latest"}, ["11:00"], ["09:00", "10:00"]),
        ({"catchup": "all"}, ["09:00", "10:00", "11:00"], []),
        ({"catchup": "all", "catchup_max": 2}, ["10:00", "11:00"], ["09:00"]),
        ({"catchup": "all", "catchup_lateness_seconds": 3600 * 1.75}, ["10:00", "11:00"], ["09:00"]),
    ],
)
def test_down_for_three_hours(policy: Any, due: list[str], missed: list[str]) -> None:
    """Acceptance 9 of jupyter 7: the rows are exact."""
    rows = outcome(job(**policy), utc(2026, 6, 1, 11, 30))
    assert [slot for slot, status, _ in rows if status == "due"] == due
    assert [slot for slot, status, _ in rows if status == "missed"] == missed
    assert all(reason for _, _, reason in rows)
    if policy == {"catchup": "latest"}:
        assert rows[-1][2] == "caught up: 30 min late, 2 earlier slots missed"


def test_pain_OC61028_catch_up_is_reckoned_in_the_jobs_zone() -> None:
    """A 21:00 Shanghai job, looked at just after a restart at 17:12 UTC, fires for 21:00 local, once."""
    one = job(schedule="0 21 * * *", timezone="Asia/Shanghai")
    assert one.next_slot == utc(2026, 6, 1, 13)
    decided = plan(one, utc(2026, 6, 1, 17, 12))
    assert decided is not None
    assert [(d.slot, d.status) for d in decided.decisions] == [(utc(2026, 6, 1, 13), "due")]
    assert decided.next_slot == utc(2026, 6, 2, 13)


def test_months_away_are_counted_not_forgotten() -> None:
    decided = plan(job(schedule="* * * * *"), utc(2026, 8, 1))
    assert decided is not None
    assert len(decided.decisions) <= 210
    first, last = decided.decisions[0], decided.decisions[-1]
    assert (first.status, last.status, last.slot) == ("missed", "due", utc(2026, 8, 1))
    assert "with the" in (first.reason or "")
    total = int((utc(2026, 8, 1) - utc(2026, 6, 1, 8)).total_seconds() / 60)
    assert f"{total - 1} earlier slots missed" in (last.reason or "")


def test_a_one_time_job_missed_while_offline_fires_late_and_never_again() -> None:
    """C27: a run-at time that passed while nobody was running fires at the next start."""
    one = job(schedule="", run_at=utc(2026, 6, 1, 9), recurring=False)
    decided = plan(one, utc(2026, 6, 2, 12))
    assert decided is not None
    assert decided.next_slot is None
    assert [(d.status, d.reason) for d in decided.decisions] == [
        ("due", "started 1 d 3 h late: nobody was running at its time")
    ]


@settings(max_examples=60, deadline=None)
@given(
    looks=st.lists(st.integers(1, 40_000), min_size=1, max_size=12),
    policy=st.sampled_from(["none", "latest", "all"]),
    expr=st.sampled_from(["0 * * * *", "*/20 * * * *", "30 2 * * *", "5 1,2,3 * * *"]),
)
def test_pain_OC42640_each_slot_is_decided_once_however_often_one_looks(
    looks: list[int], policy: Any, expr: str
) -> None:
    one = job(schedule=expr, timezone="Europe/Berlin", catchup=policy)
    one = replace(one, created_at=utc(2026, 10, 24, 12))
    one = replace(one, next_slot=one.first_slot(one.created_at))
    now, seen = one.created_at, []
    for seconds in looks:
        now += timedelta(seconds=seconds)
        decided = plan(one, now)
        if decided is not None:
            seen += [d.slot for d in decided.decisions]
            one = replace(one, next_slot=decided.next_slot, last_slot=decided.last_slot)
    assert seen == sorted(set(seen))
    fires = [fire.astimezone(UTC) for fire in next_fires(expr, "Europe/Berlin", one.created_at, 500)]
    assert seen == [fire for fire in fires if fire <= now][: len(seen)]
    assert len(seen) == sum(fire <= now for fire in fires)


def test_ago_in_two_units() -> None:
    assert [ago(timedelta(seconds=s)) for s in (5, 60, 90, 3600, 11_520, 90_000)] == [
        "5 s", "1 min", "1 min 30 s", "1 h", "3 h 12 min", "1 d 1 h",
    ]  # fmt: skip
