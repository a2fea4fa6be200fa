"""An agent's baselines: from its ledger, in its folder, and the check of today's turns against a saved one."""

from collections.abc import Sequence
from datetime import timedelta
from os import PathLike
from pathlib import Path

from rightlab.clock import Clock, SystemClock
from rightlab.home import AgentHome
from rightlab.store import Store
from rightlab.usage.baseline import Baseline, baseline_of, measure
from rightlab.usage.saved import find, path_of
from rightlab.usage.verdict import Verdict, compare
from rightlab.usage.windows import last_days, since_day

__all__ = ["check_baseline", "folder_of", "read_baseline", "saved_baseline"]


def folder_of(agent: AgentHome, store: str | PathLike[str] | None = None) -> Path:
    """Where the agent's baselines are saved: ``store``, else ``baselines/`` in its folder."""
    return Path(store) if store is not None else agent.root / "baselines"


def read_baseline(
    agent: AgentHome,
    *,
    days: int = 14,
    source: str | Sequence[str] | None = "interactive",
    model: str | None = None,
    chat: int | None = None,
    job: str | None = None,
    skill: str | None = None,
    prompt: str | None = None,
    by: str | Sequence[str] | None = None,
    tz: str | None = None,
    clock: Clock | None = None,
    store: str | PathLike[str] | None = None,
) -> Baseline:
    """The baseline of the last ``days`` complete days; ``tz`` defaults to the agent's zone. See
    :func:`rightlab.usage.baseline_of`. Raises UsageError, StoreError."""
    zone = tz or agent.config().timezone
    with Store.open(agent.db_path, role="reader") as ledger:
        return baseline_of(
            ledger,
            days=days,
            source=source,
            model=model,
            chat=chat,
            job=job,
            skill=skill,
            prompt=prompt,
            by=by,
            tz=zone,
            clock=clock,
            agent=agent.name,
            folder=folder_of(agent, store),
        )


def saved_baseline(agent: AgentHome, name: str, store: str | PathLike[str] | None = None) -> Baseline | None:
    """The baseline saved as ``name``; None when there is none. Raises UsageError for a damaged file."""
    path = path_of(name, folder_of(agent, store))
    return find(path, None) if path.exists() else None


def check_baseline(
    agent: AgentHome,
    reference: str | PathLike[str] | Baseline = "main",
    *,
    days: int = 14,
    store: str | PathLike[str] | None = None,
    clock: Clock | None = None,
) -> Verdict:
    """What ran since the saved baseline ``reference`` against it, today included, the last ``days`` days at most.

    Of what the baseline counts, in its zone. When too little ran since (or it is another agent's), it is the last
    ``days`` days whole that are compared, and the verdict says how many days both share. Raises UsageError, StoreError.
    """
    folder = folder_of(agent, store)
    saved = reference if isinstance(reference, Baseline) else find(reference, folder)
    now = (clock or SystemClock()).now()
    whole = last_days(days, saved.window.tz, now, today=True)
    since = since_day(max(whole.first, saved.window.last + timedelta(days=1)), saved.window.tz, now)
    windows = (since, whole) if saved.agent == agent.name else (whole,)
    with Store.open(agent.db_path, role="reader") as ledger:
        for window in windows:
            current = measure(
                ledger,
                window,
                saved.filters,
                made_at=now,
                min_sample=saved.min_sample,
                agent=agent.name,
                folder=folder,
            )
            if current.counts.get("cost_usd", 0) >= saved.min_sample:
                break
    return compare(saved, current)
