"""The ledger: what every invocation used and cost (spec agent-runtime 3.4)."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from rightlab.clock import Clock, SystemClock, iso
from rightlab.errors import UsageError
from rightlab.store import Store, Tx
from rightlab.usage.prices import PriceTable, tokens_of
from rightlab.usage.rows import COLUMNS, SOURCES, Day, Metered, UsageRow, sum_of_day, usage_row

if TYPE_CHECKING:
    import pandas

__all__ = ["Ledger"]

_INSERTED = tuple(name for name in COLUMNS if name != "id")


class Ledger:
    """Writes and reads ``usage_events``: one row per invocation, also for the ones that failed."""

    def __init__(self, store: Store, clock: Clock | None = None, prices: PriceTable | None = None) -> None:
        self.store = store
        self.clock = clock or SystemClock()
        self.prices = prices or PriceTable()

    def record(
        self,
        result: Metered | None,
        *,
        source: str,
        chat_id: int | None = None,
        thread_id: int | None = None,
        job_name: str | None = None,
        session_uuid: str | None = None,
        model: str | None = None,
        api_key_source: str | None = None,
        wall_elapsed_ms: float | None = None,
        turn_id: str | None = None,
        run_id: str | None = None,
        invocation_id: str | None = None,
        failure: str | None = None,
        scripted: bool = False,
        skills: Sequence[str] = (),
        prompt_sha256: str | None = None,
        tx: Tx | None = None,
    ) -> UsageRow:
        """Write the row of one invocation and return it; the same result twice is written once.

        ``result`` None is a run that ended without one (killed, timed out): its cost is unknown. ``model`` is
        the full id the CLI named, for a result that names none. With ``tx`` the row is part of the caller's
        transaction.

        Raises:
            UsageError: a source that is none.
        """
        if source not in SOURCES:
            raise UsageError(f"{source!r} is no usage source", fix=f"Use one of {', '.join(SOURCES)}.")
        values = self._values(result, model)
        values.update(
            ts=iso(self.clock.now()),
            source=source,
            chat_id=chat_id,
            thread_id=thread_id,
            job_name=job_name,
            session_uuid=session_uuid or (result.session_id if result else None),
            api_key_source=api_key_source,
            wall_elapsed_ms=_whole(wall_elapsed_ms),
            turn_id=turn_id,
            run_id=run_id,
            invocation_id=invocation_id,
            failure=failure,
            is_error=int(result is None or result.is_error or failure is not None),
            scripted=int(scripted),
            skills_json=json.dumps(list(skills)) if skills else None,
            prompt_sha256=prompt_sha256,
        )

        def write(tx: Tx) -> UsageRow:
            uuid = values["result_uuid"]
            known = uuid and tx.row("SELECT * FROM usage_events WHERE result_uuid = ?", uuid)
            if known:
                return usage_row(known)
            marks = ", ".join("?" * len(_INSERTED))
            done = tx.run(
                f"INSERT INTO usage_events ({', '.join(_INSERTED)}) VALUES ({marks})",
                *(values[name] for name in _INSERTED),
            )
            return usage_row({**values, "id": done.lastrowid})

        return write(tx) if tx is not None else self.store.transact(write)

    def rows(
        self,
        *,
        days: float | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        sources: str | Iterable[str] | None = None,
        chat_id: int | None = None,
        thread_id: int | None = None,
        job_name: str | None = None,
        turn_id: str | None = None,
        limit: int | None = None,
    ) -> list[UsageRow]:
        """Rows in order of time, ``limit`` of them the newest. ``days`` counts back from now; ``until`` is
        exclusive; bounds are aware."""
        if days is not None:
            start = self.clock.now() - timedelta(days=days)
            since = start if since is None else max(since, start)
        where, params = _where(since, until, sources)
        for column, value in (
            ("chat_id", chat_id),
            ("thread_id", thread_id),
            ("job_name", job_name),
            ("turn_id", turn_id),
        ):
            if value is not None:
                where.append(f"{column} = ?")
                params.append(value)
        sql = f"SELECT {', '.join(COLUMNS)} FROM usage_events" + (
            f" WHERE {' AND '.join(where)}" if where else ""
        )
        sql += " ORDER BY ts DESC, id DESC"
        if limit is not None:
            sql += " LIMIT ?"
            params.append(limit)
        return [usage_row(row) for row in reversed(self.store.rows(sql, *params))]

    def spent(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        sources: str | Iterable[str] | None = None,
    ) -> float:
        """The known dollars of a window, for budgets; rows of unknown cost are not in it."""
        where, params = _where(since, until, sources)
        sql = "SELECT TOTAL(total_cost_usd) FROM usage_events"
        return float(self.store.value(sql + (f" WHERE {' AND '.join(where)}" if where else ""), *params))

    def by_day(
        self,
        *,
        days: int | None = None,
        timezone: str = "UTC",
        sources: str | Iterable[str] | None = None,
    ) -> list[Day]:
        """One :class:`Day` for each day in ``timezone`` with rows, oldest first; ``days`` whole days back
        and today. Raises UsageError for an unknown zone."""
        zone = _zone(timezone)
        today = self.clock.now().astimezone(zone).date()
        since = None
        if days is not None:
            first = today - timedelta(days=days)
            since = datetime(first.year, first.month, first.day, tzinfo=zone)
        grouped: dict[date, list[UsageRow]] = {}
        for row in self.rows(since=since, sources=sources):
            grouped.setdefault(row.at.astimezone(zone).date(), []).append(row)
        return [sum_of_day(day, rows) for day, rows in sorted(grouped.items())]

    def to_frame(self, **window: Any) -> "pandas.DataFrame":
        """:meth:`rows` as a data frame: the columns of the table, ``ts`` as aware UTC times."""
        import pandas as pd

        rows = self.rows(**window)
        frame = pd.DataFrame(
            [[getattr(row, name) for name in COLUMNS] for row in rows], columns=list(COLUMNS)
        )
        frame["ts"] = pd.to_datetime(frame["ts"], utc=True, format="ISO8601")
        for name in ("total_cost_usd", "cli_cost_usd", "table_cost_usd", "wall_elapsed_ms", "ttft_ms"):
            frame[name] = frame[name].astype("float64")
        return frame

    def _values(self, result: Metered | None, model: str | None) -> dict[str, Any]:
        usage: Mapping[str, Any] = result.usage if result else {}
        models = (result.model_usage if result else None) or {}
        tokens = tokens_of(usage)
        known_split = isinstance(usage.get("cache_creation"), Mapping)
        web = usage.get("server_tool_use")
        web = web if isinstance(web, Mapping) else {}
        searches = int(web.get("web_search_requests") or 0)
        cli = result.cost_usd if result else None
        table = self._table_cost(result, models, model, searches)
        total = cli if cli is not None else table
        basis = None if total is None else "cli" if cli is not None else "table"
        uuid = result.raw.get("uuid") if result else None
        return {
            "total_cost_usd": total,
            "cli_cost_usd": cli,
            "table_cost_usd": table,
            "cost_basis": basis,
            "price_version": self.prices.version,
            "num_turns": result.num_turns if result else 0,
            "input_tokens": tokens.input,
            "output_tokens": tokens.output,
            "cache_creation_tokens": tokens.write_5m + tokens.write_1h,
            "cache_read_tokens": tokens.read,
            "cache_write_5m_tokens": tokens.write_5m if known_split else None,
            "cache_write_1h_tokens": tokens.write_1h if known_split else None,
            "web_search_requests": searches,
            "web_fetch_requests": int(web.get("web_fetch_requests") or 0),
            "model_usage_json": json.dumps(models, sort_keys=True) if models else None,
            "model": _main_model(models) or model,
            "result_uuid": uuid if isinstance(uuid, str) else None,
            "ttft_ms": _whole(result.ttft_ms) if result else None,
            "api_ms": _whole(result.duration_api_ms) if result else None,
        }

    def _table_cost(
        self,
        result: Metered | None,
        models: Mapping[str, Mapping[str, Any]],
        model: str | None,
        searches: int,
    ) -> float | None:
        """Our own figure; None as soon as one part of it is unknown (web searches have no price here)."""
        if result is None or searches:
            return None
        parts = models or ({model: result.usage} if model else {})
        if not parts:
            return 0.0 if tokens_of(result.usage).prompt == 0 and result.usage else None
        # A structured reply counts one step more than it made requests.
        requests = max(1, result.num_turns - 1)
        now = self.clock.now()
        costs = [
            self.prices.cost(name, tokens_of(entry), at=now, requests=requests)
            for name, entry in parts.items()
        ]
        known = [cost for cost in costs if cost is not None]
        return sum(known) if len(known) == len(costs) else None


def _where(
    since: datetime | None, until: datetime | None, sources: str | Iterable[str] | None
) -> tuple[list[str], list[Any]]:
    where: list[str] = []
    params: list[Any] = []
    if since is not None:
        where.append("ts >= ?")
        params.append(iso(since))
    if until is not None:
        where.append("ts < ?")
        params.append(iso(until))
    if sources is not None:
        names = [sources] if isinstance(sources, str) else list(sources)
        where.append(f"source IN ({', '.join('?' * len(names))})")
        params += names
    return where, params


def _main_model(models: Mapping[str, Mapping[str, Any]]) -> str | None:
    """The model that was sent and wrote most."""

    def size(name: str) -> int:
        tokens = tokens_of(models[name])
        return tokens.prompt + tokens.output

    return max(models, key=size) if models else None


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise UsageError(
            f"there is no time zone {name!r}", fix="Use a name as Europe/Berlin or UTC."
        ) from None
