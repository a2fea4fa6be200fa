"""What to do with the slots that became due: a pure function of the job and the time (design 9, jupyter 4.2).

Slots are counted from the last one decided on, never from now, so a restart, a suspended machine or a jump of
the clock neither repeats a slot nor drops one in silence (pains OC#42640, OC#10021, OC#33092).
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from rightlab.cron.jobs import Job
from rightlab.cron.schedule import parse_schedule

__all__ = ["ON_TIME", "Decision", "Plan", "ago", "plan"]

ON_TIME = timedelta(seconds=60)
"""A slot that starts within this is on time; later it counts as missed and the catch-up policy decides."""

_ROWS = 200  # missed slots that get a row each; what is older shares one row


@dataclass(frozen=True)
class Decision:
    """One slot (UTC) and what becomes of it."""

    slot: datetime
    origin: Literal["schedule", "catchup"]
    status: Literal["due", "missed"]
    reason: str | None


@dataclass(frozen=True)
class Plan:
    """The decisions, oldest first, the last slot decided on and the next one (None: never again)."""

    decisions: tuple[Decision, ...]
    last_slot: datetime
    next_slot: datetime | None


def plan(job: Job, now: datetime) -> Plan | None:
    """Decide on every slot up to ``now`` (aware); None when none is due."""
    first = job.next_slot
    if not job.enabled or first is None or first > now:
        return None
    if not job.recurring:
        late = now - first
        reason = None if late <= ON_TIME else f"started {ago(late)} late: nobody was running at its time"
        return Plan(
            (Decision(first, "schedule" if reason is None else "catchup", "due", reason),), first, None
        )
    keep = _ROWS + (job.catchup_max if job.catchup == "all" else 1)
    due: deque[datetime] = deque([first], maxlen=keep)
    count, following = 1, None
    for fire in _schedule_of(job, first):
        if fire > now:
            following = fire
            break
        due.append(fire)
        count += 1
    decisions = []
    if count > len(due):
        older = count - len(due)
        reason = (
            f"missed, with the {older - 1} slots after it: nobody was running" if older > 1 else _missed(job)
        )
        decisions.append(Decision(first, "schedule", "missed", reason))
    taken = _taken(job, list(due), now)
    for slot in due:
        if slot not in taken:
            decisions.append(Decision(slot, "schedule", "missed", _missed(job)))
            continue
        late, skipped = now - slot, count - len(taken)
        if late <= ON_TIME and count == 1:
            decisions.append(Decision(slot, "schedule", "due", None))
            continue
        said = f"{ago(late)} late" if late > ON_TIME else "on time"
        if skipped and slot == due[-1]:
            said += f", {skipped} earlier slot{'s' if skipped > 1 else ''} missed"
        origin: Literal["schedule", "catchup"] = "catchup" if late > ON_TIME else "schedule"
        decisions.append(Decision(slot, origin, "due", f"caught up: {said}" if origin == "catchup" else said))
    return Plan(tuple(decisions), due[-1], following)


def _schedule_of(job: Job, after: datetime) -> Iterator[datetime]:
    return (fire.astimezone(UTC) for fire in parse_schedule(job.schedule).fires(job.timezone, after))


def _taken(job: Job, due: list[datetime], now: datetime) -> set[datetime]:
    if job.catchup == "none":
        return {due[-1]} if now - due[-1] <= ON_TIME else set()
    if job.catchup == "latest":
        return {due[-1]}
    limit = job.catchup_lateness_seconds
    fresh = [slot for slot in due if limit is None or now - slot <= max(timedelta(seconds=limit), ON_TIME)]
    return set(fresh[-job.catchup_max :])


def _missed(job: Job) -> str:
    rule = {
        "none": "catch-up is none",
        "latest": "catch-up takes the latest slot only",
        "all": f"catch-up takes {job.catchup_max} slots at most"
        + (
            ""
            if job.catchup_lateness_seconds is None
            else f", none older than {job.catchup_lateness_seconds:g} s"
        ),
    }[job.catchup]
    return f"missed: nobody was running at its time, and {rule}"


def ago(late: timedelta) -> str:
    """A duration in two units at most: ``3 h 12 min``."""
    seconds = int(late.total_seconds())
    for size, name, small_size, small in (
        (86_400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if seconds >= size:
            rest = seconds % size // small_size
            return f"{seconds // size} {name}" + (f" {rest} {small}" if rest else "")
    return f"{seconds} s"
