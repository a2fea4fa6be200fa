"""The rows a baseline is made of: what one SELECT over the ledger gives, with the day each belongs to."""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from typing import Any

from rightlab.clock import iso
from rightlab.errors import UsageError
from rightlab.store import Store
from rightlab.usage.rows import SOURCES
from rightlab.usage.windows import Days

__all__ = ["KEYS", "Filters", "Sample", "known", "read_samples", "skills_of"]

KEYS = ("source", "model", "chat", "job", "skill", "prompt", "day")
"""What a baseline can be split by."""


@dataclass(frozen=True, slots=True)
class Filters:
    """Which rows count; None is no condition. ``prompt`` is the prompt's sha256 or its beginning."""

    source: str | tuple[str, ...] | None = "interactive"
    model: str | None = None
    chat: int | None = None
    job: str | None = None
    skill: str | None = None
    prompt: str | None = None

    def __post_init__(self) -> None:
        unknown = [name for name in self.sources or () if name not in SOURCES]
        if unknown:
            raise UsageError(f"{unknown[0]!r} is no usage source", fix=f"Use one of {', '.join(SOURCES)}.")

    @property
    def sources(self) -> tuple[str, ...] | None:
        return (self.source,) if isinstance(self.source, str) else self.source

    @property
    def words(self) -> str:
        """What is counted, in a few words."""
        said = ["all sources" if self.sources is None else ", ".join(self.sources)]
        said += [
            f"{name} {value}"
            for name in ("model", "chat", "job", "skill", "prompt")
            if (value := getattr(self, name)) is not None
        ]
        return " · ".join(said)

    def to_json(self) -> dict[str, Any]:
        source = list(self.source) if isinstance(self.source, tuple) else self.source
        rest = {name: getattr(self, name) for name in ("model", "chat", "job", "skill", "prompt")}
        return {"source": source, **{name: value for name, value in rest.items() if value is not None}}


@dataclass(frozen=True, slots=True)
class Sample:
    """One row. ``cost_usd`` is None when unknown (also when what is written there can be no price)."""

    day: date
    source: str
    model: str | None
    chat_id: int | None
    job: str | None
    skills: tuple[str, ...]
    prompt: str | None
    cost_usd: float | None
    num_turns: float
    elapsed_ms: float | None
    scripted: bool
    price_version: str | None

    def keys(self, by: str) -> Iterable[str]:
        """Where it belongs when split by ``by``: one key, with ``skill`` one for each skill it used."""
        if by == "skill":
            return self.skills or ("–",)
        value = {
            "source": self.source,
            "model": self.model or "unknown",
            "chat": "–" if self.chat_id is None else str(self.chat_id),
            "job": self.job or "–",
            "prompt": (self.prompt or "unknown")[:12],
            "day": self.day.isoformat(),
        }[by]
        return (value,)


def read_samples(store: Store, days: Days, filters: Filters) -> list[Sample]:
    """The rows of ``days`` that ``filters`` lets through, in order of time. Raises StoreError."""
    where = ["ts >= ?", "ts < ?"]
    params: list[Any] = [iso(days.since), iso(days.until)]
    conditions: list[tuple[str, Any]] = [
        ("model = ?", filters.model),
        ("chat_id = ?", filters.chat),
        ("job_name = ?", filters.job),
    ]
    for condition, value in conditions:
        if value is not None:
            where.append(condition)
            params.append(value)
    if filters.prompt is not None:
        where.append("substr(prompt_sha256, 1, ?) = ?")
        params += [len(filters.prompt), filters.prompt]
    if filters.sources is not None:
        where.append(f"source IN ({', '.join('?' * len(filters.sources))})")
        params += filters.sources
    starts = days.starts()
    found = []
    for row in store.rows(
        "SELECT ts, source, model, chat_id, job_name, skills_json, prompt_sha256, total_cost_usd, num_turns,"
        f" wall_elapsed_ms, scripted, price_version FROM usage_events WHERE {' AND '.join(where)} ORDER BY ts, id",
        *params,
    ):
        skills = skills_of(row[5])
        if filters.skill is not None and filters.skill not in skills:
            continue
        found.append(
            Sample(
                day=days.day_of(row[0], starts),
                source=row[1],
                model=row[2],
                chat_id=row[3],
                job=row[4],
                skills=skills,
                prompt=row[6],
                cost_usd=known(row[7]),
                num_turns=known(row[8]) or 0.0,
                elapsed_ms=known(row[9]),
                scripted=bool(row[10]),
                price_version=row[11],
            )
        )
    return found


def known(value: Any) -> float | None:
    """``value`` as a number that can be a price, a count or a duration, else None."""
    if not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        return None
    return float(value)


def skills_of(text: str | None) -> tuple[str, ...]:
    """The skills of a row of the ledger, each once; none of what is no list."""
    if not text:
        return ()
    try:
        found = json.loads(text)
    except ValueError:
        return ()
    return tuple(dict.fromkeys(str(name) for name in found)) if isinstance(found, list) else ()
