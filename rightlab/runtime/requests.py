"""Recorded requests of one agent as people look at them: which turn, which sections, where they part.

Recordings hold the bytes; ``data.db`` knows the turn of each and the hashes of its sections. Everything here is
read only and needs no owner.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rightlab.clock import SystemClock, parse_iso
from rightlab.errors import PromptError, UsageError
from rightlab.home import AgentHome
from rightlab.html import (
    Column,
    Empty,
    Footer,
    Page,
    Table,
    mimebundle,
    money,
    percent,
    plural,
    size,
    tokens,
    when,
)
from rightlab.prompt.inspect import (
    Calibration,
    Divergence,
    Listed,
    Stability,
    Trace,
    WhatIf,
    calibrate,
    first_divergence,
    first_lines,
    listed,
    section_stability,
    stability_of,
    suggest_order,
    trace,
)
from rightlab.runtime.divergences import Divergences
from rightlab.runtime.recorded_turns import (
    TurnName,
    beside,
    by_invocation,
    recorded_turns,
    rows_of,
    turn_named,
)
from rightlab.runtime.stored_requests import StoredRequest, stored_requests
from rightlab.usage import price

if TYPE_CHECKING:
    import pandas

__all__ = [
    "Requests",
    "TurnRequest",
    "read_divergence",
    "read_requests",
    "read_stability",
    "recent_calibration",
]

STABILITY_TURNS = 200
CALIBRATION_REQUESTS = 20
CRON_RUNS = 50


@dataclass(frozen=True)
class TurnRequest:
    """One model request: of which turn or run (``label``), and its recording.

    ``scope`` names the conversation or job; ``first`` is true of the first request of its invocation.
    """

    label: str
    scope: str
    source: str
    turn_id: str | None
    request: StoredRequest = field(repr=False)
    first: bool
    outline: tuple[Listed, ...] = field(repr=False)

    @cached_property
    def trace(self) -> Trace:
        """The request in cache order, its prompt cut into sections."""
        return trace(self.request, self.outline, scope=self.scope, label=self.label)

    def to_json(self) -> dict[str, Any]:
        """One row: label, scope, source, turn_id, at, model, bytes, the billed tokens, status and time."""
        summary, usage = self.request.summary, self.request.usage or {}
        return {
            "label": self.label,
            "scope": self.scope,
            "source": self.source,
            "turn_id": self.turn_id,
            "invocation_id": self.request.invocation_id,
            "at": self.request.at,
            "model": self.request.model,
            "bytes": (summary.get("request") or {}).get("bytes"),
            "input_tokens": usage.get("input_tokens"),
            "cache_read_tokens": usage.get("cache_read_input_tokens"),
            "cache_write_tokens": usage.get("cache_creation_input_tokens"),
            "output_tokens": usage.get("output_tokens"),
            "cost_usd": price(self.request.model, usage) if self.request.model and usage else None,
            "outcome": summary.get("outcome"),
            "ms": summary.get("ms"),
            "scripted": self.request.scripted,
        }


class Requests(Sequence[TurnRequest]):
    """The recorded requests of an agent, oldest first."""

    def __init__(self, agent: AgentHome, requests: Sequence[TurnRequest]) -> None:
        self._agent = agent
        self._requests = list(requests)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return Requests(self._agent, self._requests[index])
        return self._requests[index]

    def __len__(self) -> int:
        return len(self._requests)

    @property
    def scripted(self) -> bool:
        """True when a script answered any of them."""
        return any(one.request.scripted for one in self)

    @cached_property
    def calibration(self) -> Calibration:
        """Token estimates against the bill; against the script's figures when nothing was billed."""
        real = calibrate(one.request for one in self)
        return real if real.n else calibrate((one.request for one in self), scripted=True)

    def stability(self) -> dict[str, Stability]:
        """Per section, in how many turns it stayed as it was."""
        return section_stability(one.trace for one in self if one.first)

    def what_if(self) -> WhatIf:
        """Edits of the prompt to be tried on these requests before a single call."""
        return WhatIf.over((one.trace for one in self), calibration=self.calibration, price=price)

    def suggest_order(self) -> WhatIf:
        """The order by stability, ready for ``.forecast()``."""
        return suggest_order(self.what_if())

    def divergence(self, a: int = -2, b: int = -1) -> Divergence:
        """The first place where request number ``b`` differs from number ``a`` (places in this list)."""
        try:
            first, second = self[a], self[b]
        except IndexError:
            raise UsageError(
                f"there are {plural(len(self), 'recorded request')}, not enough to compare {a} and {b}",
                fix="Let the agent answer first.",
            ) from None
        return self.between(first, second)

    def between(self, a: TurnRequest, b: TurnRequest) -> Divergence:
        """The first place where ``b`` differs from ``a``, priced."""
        return first_divergence(
            a.trace,
            b.trace,
            price=price,
            factor=self.calibration.factor,
            method=f"tokens: {self.calibration.method}",
        )

    def divergences(self) -> Divergences:
        """Each request against the one before it in its conversation; only where they part."""
        last: dict[str, TurnRequest] = {}
        found = []
        for one in self:
            before = last.get(one.scope)
            if before is not None and (parted := self.between(before, one)):
                found.append(parted)
            last[one.scope] = one
        return Divergences(self._agent, found, len(self))

    def to_frame(self) -> "pandas.DataFrame":
        """One row per request (see :meth:`TurnRequest.to_json`); ``at`` as a time."""
        import pandas as pd

        frame = pd.DataFrame([one.to_json() for one in self])
        if "at" in frame:
            frame["at"] = pd.to_datetime(frame["at"], utc=True)
        return frame

    def page(self) -> Page:
        title = f"{self._agent.name} · recorded requests"
        if not self:
            return Page(
                title,
                empty=Empty(
                    "No model request is recorded yet.",
                    f'Ask something: rightlab ask {self._agent.name} "hello" (the gateway records every request).',
                ),
            )
        zone = self._agent.config().timezone
        rows = [one.to_json() for one in reversed(self._requests)]
        read = sum(row["cache_read_tokens"] or 0 for row in rows)
        paid = read + sum((row["input_tokens"] or 0) + (row["cache_write_tokens"] or 0) for row in rows)
        columns = [
            Column("label", "turn"),
            Column("at", format=lambda at: when(parse_iso(at), zone, seconds=True)),
            Column("model"),
            Column("bytes", "size", format=size),
            Column("cache_read_tokens", "read", format=tokens),
            Column("cache_write_tokens", "written", format=tokens),
            Column("input_tokens", "in full", format=tokens),
            Column("cost_usd", "cost", format=money),
            Column("outcome"),
        ]
        share = percent(read / paid) if paid else "none"
        return Page(
            title,
            f"{plural(len(self), 'request')}; {share} of their prompt tokens were read from the cache.",
            Table(rows, columns, caption="Newest first"),
            footer=Footer(
                n=len(self),
                as_of=parse_iso(self._requests[-1].request.at),
                now=SystemClock().now(),
                zone=zone,
                source="scripted model" if self.scripted else None,
            ),
        )

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return mimebundle(self, self.page(), include, exclude)

    def _repr_html_(self) -> str:
        return self.page().html()

    def __repr__(self) -> str:
        return f"<{plural(len(self), 'recorded request')} of {self._agent.name!r}>"


def read_requests(
    agent: AgentHome, *, limit: int | None = 200, keys: Sequence[str] | None = None
) -> Requests:
    """The last ``limit`` recorded requests of ``agent`` (or those of the invocations ``keys``). Raises UsageError."""
    if limit is not None and limit < 1:
        raise UsageError(f"{limit} requests", fix="Ask for at least one.")
    return _labelled(agent, stored_requests(agent.recordings_dir, limit=limit, keys=keys))


def read_divergence(agent: AgentHome, a: TurnName = None, b: TurnName = None) -> Divergence:
    """Where turn ``b`` first differs from turn ``a``: the last request of ``a`` against the first of ``b``.

    Without ``b`` the turn after ``a`` in its conversation; without both the last two of one conversation.
    Raises UsageError: no such turn, or it is not recorded.
    """
    rows = recorded_turns(agent)
    if a is None:
        second = turn_named(rows, b) if b is not None else (rows[-1] if rows else None)
        first = beside(rows, second, -1)
    else:
        first = turn_named(rows, a)
        second = turn_named(rows, b) if b is not None else beside(rows, first, 1)
    if first is None or second is None:
        raise UsageError(
            "there are no two recorded turns of one conversation to compare",
            where=f"agent {agent.name}",
            fix=f'Ask twice: rightlab ask {agent.name} "hello"',
        )
    # The calibration wants more than two requests; the newest are as good as any.
    recent = read_requests(agent, limit=CALIBRATION_REQUESTS)
    before = read_requests(agent, limit=None, keys=[first["invocation_id"]])
    after = read_requests(agent, limit=None, keys=[second["invocation_id"]])
    return recent.between(before[-1], after[0])


def read_stability(agent: AgentHome, mode: str) -> dict[str, Stability]:
    """Per section of ``mode``, over the last recorded turns; empty without recordings."""
    if mode == "cron":
        runs = rows_of(
            agent,
            "SELECT invocation_id FROM usage_events WHERE source = 'cron' AND invocation_id IS NOT NULL"
            " ORDER BY id DESC LIMIT ?",
            CRON_RUNS,
        )
        return read_requests(agent, limit=None, keys=[row["invocation_id"] for row in runs]).stability()
    if mode != "normal":
        return {}
    return stability_of(
        (
            (row["chat_id"], row["thread_id"]),
            {str(one["name"]): str(one["sha256"]) for one in json.loads(row["sections_json"])},
        )
        for row in recorded_turns(agent, last=STABILITY_TURNS)
    )


def recent_calibration(agent: AgentHome) -> Calibration:
    """Token estimates against what the newest requests were billed; a scripted model bills nobody."""
    found = stored_requests(agent.recordings_dir, limit=CALIBRATION_REQUESTS)
    return calibrate(one for one in found if not one.scripted)


# ---- which turn a request belongs to


def _labelled(agent: AgentHome, found: Sequence[StoredRequest]) -> Requests:
    keys = list(dict.fromkeys(one.key for one in found))
    turns = {row["invocation_id"]: row for row in by_invocation(agent, "turns", keys)}
    runs = {row["invocation_id"]: row for row in by_invocation(agent, "usage_events", keys)}
    outlines = _Outlines(agent)
    return Requests(
        agent,
        [_one(one, turns.get(one.key), runs.get(one.key), outlines, first=one.number == 1) for one in found],
    )


def _one(request: StoredRequest, turn: Any, run: Any, outlines: "_Outlines", *, first: bool) -> TurnRequest:
    step = "" if first else f" request {request.number}"
    if turn is not None:
        return TurnRequest(
            f"turn {turn['id']}{step}",
            f"chat {turn['chat_id']}/{turn['thread_id']}",
            "interactive",
            turn["turn_id"],
            request,
            first,
            outlines.of_turn(turn["sections_json"]),
        )
    if run is not None and run["source"] == "cron":
        job = run["job_name"] or "cron"
        run_id = str(run["run_id"] or "")[:8]
        label = f"cron {job} {run_id}".rstrip() + step
        return TurnRequest(label, f"cron {job}", "cron", None, request, first, outlines.of_mode("cron"))
    source = str(run["source"]) if run is not None else "unknown"
    name = (request.invocation_id or request.key)[:8]
    return TurnRequest(
        f"{source} {name}{step}", f"{source} {name}", source, None, request, first, outlines.of_mode("normal")
    )


class _Outlines:
    """Lists of sections: a turn's own, else those of the mode as it is now. First lines help either."""

    def __init__(self, agent: AgentHome) -> None:
        self._agent = agent
        self._modes: dict[str, tuple[tuple[Listed, ...], dict[str, bytes]]] = {}

    def of_mode(self, mode: str) -> tuple[Listed, ...]:
        return self._now(mode)[0]

    def of_turn(self, sections_json: str | None) -> tuple[Listed, ...]:
        now, heads = self._now("normal")
        if not sections_json:
            return now
        return tuple(Listed.of(one, heads.get(str(one["name"]))) for one in json.loads(sections_json))

    def _now(self, mode: str) -> tuple[tuple[Listed, ...], dict[str, bytes]]:
        from rightlab.runtime.prompts import assemble_now

        if mode not in self._modes:
            try:
                assembly = assemble_now(self._agent, mode, measured=False)
                self._modes[mode] = (listed(assembly), first_lines(assembly))
            except PromptError:
                self._modes[mode] = ((), {})
        return self._modes[mode]
