"""Is it alive, and what did it just do: ``lab.overview()`` (spec views 00, agent-runtime 12.2).

Facts from ``data.db`` and the agent's files, read only. It never runs doctor and nothing in the sandbox.
"""

import statistics
from dataclasses import asdict, dataclass
from datetime import datetime, time, timedelta
from typing import Any, Literal

from rightlab.clock import Clock, SystemClock, iso, parse_iso
from rightlab.home import AgentHome
from rightlab.html import Block, Column, Footer, Page, Pairs, Table, ago, mimebundle, money, plural, zone
from rightlab.runtime.crons import Crons
from rightlab.runtime.status import Status, read_status
from rightlab.store import Store
from rightlab.usage import Day, Ledger, summarize

__all__ = ["Active", "Failure", "Overview", "Signal", "Undelivered", "read_overview"]

Level = Literal["bad", "warn", "info"]

MOST_SIGNALS = 30
WINDOW = timedelta(hours=24)
SPIKE = 2.0
"""A day is dear when it cost this many times the median of the days that cost anything (spec agent-runtime 12.2)."""
SPIKE_DAYS = 30
SIGNS: dict[Level, str] = {"bad": "✗ bad", "warn": "⚠ look", "info": "ℹ note"}


@dataclass(frozen=True, slots=True)
class Active:
    """A turn or run that is under way (``cut``: its owner died; the next start settles it)."""

    kind: str
    name: str
    state: str
    since: str


@dataclass(frozen=True, slots=True)
class Failure:
    """A turn or run of the last 24 h that did not end well."""

    kind: str
    name: str
    at: str
    why: str


@dataclass(frozen=True, slots=True)
class Undelivered:
    """One part of a message that is not in its chat, as far as we know."""

    source: str
    chat_id: int
    part: int
    state: str
    since: str
    error: str | None


@dataclass(frozen=True, slots=True)
class Signal:
    """Something a person may want to know, at a time (ISO 8601, UTC)."""

    at: str
    level: Level
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Overview:
    """The facts. ``today`` are the day's sums in ``zone``, None when nothing ran; ``p50_usd`` of an interactive turn
    in 14 days, None below 20 of them; ``signals`` newest first, at most 30."""

    status: Status
    zone: str
    now: datetime
    active: tuple[Active, ...] = ()
    failures: tuple[Failure, ...] = ()
    undelivered: tuple[Undelivered, ...] = ()
    today: Day | None = None
    p50_usd: float | None = None
    next_cron: tuple[str, str] | None = None
    signals: tuple[Signal, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "agent": self.status.agent,
            "at": iso(self.now),
            "zone": self.zone,
            "up": self.status.up,
            "active": [asdict(item) for item in self.active],
            "failures": [asdict(item) for item in self.failures],
            "undelivered": [asdict(item) for item in self.undelivered],
            "cost_today_usd": None if self.today is None else self.today.cost_usd,
            "cost_today_unknown": 0 if self.today is None else self.today.unknown_costs,
            "next_cron": self.next_cron,
            "signals": [asdict(item) for item in self.signals],
        }

    def page(self) -> Page:
        status = self.status
        title = " · ".join([status.agent, status.state_word, status.source, self.zone])
        if status.problem is not None:
            return Page(title, error=status.problem)
        body: list[Block] = [Pairs(self._facts()), self._signal_table()]
        if self.active:
            body.append(self._table(self.active, "Under way", "since"))
        if self.failures:
            body.append(self._table(self.failures, "Failures of the last 24 hours", "at"))
        if self.undelivered:
            body.append(self._table(self.undelivered, "Not delivered", "since"))
        footer = Footer(as_of=self.now, now=None, zone=self.zone, source=status.source)
        return Page(title, self._sentence(), *body, footer=footer)

    def _facts(self) -> dict[str, Any]:
        if self.today is None:
            cost = "nothing: no invocation yet"
        else:
            cost = f"{money(self.today.cost_usd)} in {plural(self.today.rows, 'invocation')}"
            if self.today.unknown_costs:
                cost += f", the price of {self.today.unknown_costs} is unknown"
        return {
            "under way": plural(len(self.active), "turn or run", "turns and runs")
            if self.active
            else "nothing",
            "failed in 24 h": plural(len(self.failures), "turn or run", "turns and runs")
            if self.failures
            else "nothing",
            f"cost today ({self.zone})": cost,
            "undelivered": plural(len(self.undelivered), "part") if self.undelivered else "nothing",
            "next cron": self._cron_words() or "none is scheduled",
            "learning": "not available yet",
        }

    def _cron_words(self) -> str:
        if self.next_cron is None:
            return ""
        name, moment = self.next_cron
        return f"{name} {ago(parse_iso(moment), self.now)}" + (
            "" if self.status.up else ", once the agent is up"
        )

    def _sentence(self) -> str:
        last = self.status.last_turn
        if last is None:
            said = "No turn yet."
        else:
            usual = "" if self.p50_usd is None else f" (P50 {money(self.p50_usd)})"
            moment = ago(parse_iso(str(last["started_at"])), self.now)
            said = f"Last turn {moment} cost {money(last['cost_usd'])}{usual}."
        if self.next_cron is not None:
            said += f" Next cron: {self._cron_words()}."
        failed = plural(len(self.failures), "failure") if self.failures else "No failure"
        parts = (
            plural(len(self.undelivered), "part") + " undelivered"
            if self.undelivered
            else "Nothing undelivered"
        )
        return f"{said} {failed} in 24 h. {parts}."

    def _signal_table(self) -> Table:
        rows = [
            {
                "when": ago(parse_iso(item.at), self.now),
                "sign": SIGNS[item.level],
                "kind": item.kind,
                "what": item.text,
            }
            for item in self.signals
        ]
        return Table(
            rows, ["when", "sign", "kind", "what"], caption="Signals, newest first", empty="No signals."
        )

    def _table(self, items: tuple[Any, ...], caption: str, moment: str) -> Table:
        rows = [{**asdict(item), moment: ago(parse_iso(getattr(item, moment)), self.now)} for item in items]
        columns = [Column(key, format=str) if key == "chat_id" else Column(key) for key in rows[0]]
        return Table(rows, columns, caption=caption)

    def text(self) -> str:
        return self.page().text()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return mimebundle(self, self.page(), include, exclude)


def read_overview(agent: AgentHome, clock: Clock | None = None) -> Overview:
    """The overview of ``agent``. What is broken (agent.yaml, database) is ``status.problem``, not an exception."""
    clock = clock or SystemClock()
    now = clock.now()
    status = read_status(agent)
    if status.problem is not None or not agent.db_path.exists():
        return Overview(status, "UTC", now)
    tz = agent.config().timezone
    since = iso(now - WINDOW)
    with Store.open(agent.db_path, role="reader") as store:
        ledger = Ledger(store, clock)
        days = ledger.by_day(days=SPIKE_DAYS, timezone=tz)
        recent = ledger.rows(days=14, sources="interactive")
        active = _active(store, status.up)
        failures = _failures(store, since)
        undelivered = _undelivered(store)
        slots = _slots(store, since)
    today = next((day for day in days if day.day == now.astimezone(zone(tz)).date()), None)
    jobs = [view for view in Crons(agent).jobs() if view.fires]
    first = min(jobs, key=lambda view: view.fires[0]["utc"], default=None)
    signals = [
        *(Signal(item.at, "bad", f"{item.kind} failed", f"{item.name}: {item.why}") for item in failures),
        *(
            Signal(
                item.since,
                "warn",
                "undelivered",
                f"{item.source}, part {item.part}: {item.error or item.state}",
            )
            for item in undelivered
        ),
        *(
            Signal(item.since, "info", "under way", f"{item.kind} {item.name} is {item.state}")
            for item in active
        ),
        *slots,
        *_spikes(days, tz, now),
        *_health(status, now, jobs=len(jobs)),
    ]
    signals.sort(key=lambda item: item.at, reverse=True)
    return Overview(
        status=status,
        zone=tz,
        now=now,
        active=active,
        failures=failures,
        undelivered=undelivered,
        today=today,
        p50_usd=summarize(row.total_cost_usd for row in recent).p50,
        next_cron=None if first is None else (first.job.name, first.fires[0]["utc"]),
        signals=tuple(signals[:MOST_SIGNALS]),
    )


def _active(store: Store, up: bool) -> tuple[Active, ...]:
    turns = store.rows("SELECT channel, started_at FROM turns WHERE status = 'running' ORDER BY id")
    runs = store.rows(
        "SELECT producer_ref, status, coalesce(started_at, created_at) AS since FROM async_runs"
        " WHERE status IN ('queued', 'running') ORDER BY created_at"
    )
    # A run is a process of its own and outlives its owner; a turn does not.
    return (
        *(Active("turn", row["channel"], "running" if up else "cut", row["started_at"]) for row in turns),
        *(Active("run", row["producer_ref"], row["status"], row["since"]) for row in runs),
    )


def _failures(store: Store, since: str) -> tuple[Failure, ...]:
    turns = store.rows(
        "SELECT channel, status, error, coalesce(finished_at, started_at) AS at FROM turns"
        " WHERE status IN ('failed', 'lost') AND coalesce(finished_at, started_at) >= ?",
        since,
    )
    runs = store.rows(
        "SELECT producer_ref, status, reason, coalesce(finished_at, updated_at) AS at FROM async_runs"
        " WHERE status IN ('failed', 'lost') AND coalesce(finished_at, updated_at) >= ?",
        since,
    )
    found = [Failure("turn", row["channel"], row["at"], row["error"] or row["status"]) for row in turns]
    found += [Failure("run", row["producer_ref"], row["at"], row["reason"] or row["status"]) for row in runs]
    return tuple(sorted(found, key=lambda item: item.at, reverse=True))


def _undelivered(store: Store) -> tuple[Undelivered, ...]:
    rows = store.rows(
        "SELECT source, chat_id, part, outbox_parts.state AS state, outbox_parts.error AS error, created_at"
        " FROM outbox_parts JOIN outbox ON outbox.id = outbox_parts.outbox_id"
        " WHERE outbox_parts.state <> 'sent' ORDER BY outbox.id DESC, part"
    )
    return tuple(
        Undelivered(
            row["source"], row["chat_id"], row["part"] + 1, row["state"], row["created_at"], row["error"]
        )
        for row in rows
    )


def _slots(store: Store, since: str) -> list[Signal]:
    rows = store.rows(
        "SELECT job_name, status, reason, updated_at FROM cron_slots"
        " WHERE status IN ('skipped', 'missed') AND updated_at >= ?",
        since,
    )
    return [
        Signal(
            row["updated_at"],
            "warn",
            f"run {row['status']}",
            f"{row['job_name']}: {row['reason'] or 'no reason'}",
        )
        for row in rows
    ]


def _spikes(days: list[Day], tz: str, now: datetime) -> list[Signal]:
    """Days of the last week that cost at least twice the median day; with one day there is nothing to compare."""
    costly = [day for day in days if day.cost_usd]
    if len(costly) < 2:
        return []
    median = statistics.median(day.cost_usd for day in costly if day.cost_usd is not None)
    found = []
    for day in costly:
        end = datetime.combine(day.day, time.max, tzinfo=zone(tz))
        if day.cost_usd is None or day.cost_usd < SPIKE * median or end < now - timedelta(days=7):
            continue
        text = f"{day.day} cost {money(day.cost_usd)}, {day.cost_usd / median:.1f} times the median day"
        found.append(Signal(iso(min(end, now)), "warn", "dear day", text))
    return found


def _health(status: Status, now: datetime, *, jobs: int) -> list[Signal]:
    """What stands in the way now, as the status has it."""
    found = [Signal(iso(now), "warn", "warning", text) for text in status.warnings]
    telegram = status.channels.get("telegram") or {}
    if telegram.get("last_error"):
        found.append(Signal(iso(now), "bad", "Telegram", str(telegram["last_error"])))
    if status.sandbox == "none":
        text = "there is none: its commands run on this machine as you"
        found.append(Signal(iso(now), "warn", "sandbox", text))
    if jobs and not status.up:
        text = f"{plural(jobs, 'job')} scheduled and nobody runs them: the agent is down"
        found.append(Signal(iso(now), "warn", "crons", text))
    return found
