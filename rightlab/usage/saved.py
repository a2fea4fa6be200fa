"""Baselines as small JSON files meant for git (spec usage-and-baselines 4.5)."""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from os import PathLike
from pathlib import Path
from typing import Any

from rightlab.clock import iso, parse_iso
from rightlab.errors import RunError, UsageError
from rightlab.home.writers import atomic_write
from rightlab.usage.baseline import METRICS, MIN_DAYS, Baseline
from rightlab.usage.percentiles import METHOD, MIN_SAMPLE, Summary, percentile
from rightlab.usage.samples import Filters
from rightlab.usage.windows import Days

__all__ = ["FORMAT", "POINTS", "document", "find", "load", "names_in", "path_of", "save"]

FORMAT = "rightlab-baseline-1"
POINTS = 200
"""A file keeps at most so many values of a metric: above that, so many evenly spaced quantiles."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_BIGGEST = 1_000_000


def path_of(name: str, folder: Path) -> Path:
    """The file of the baseline ``name``. Raises UsageError for a name that is none."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot name a baseline", fix="Use letters, digits, dots, dashes and underscores."
        )
    return folder / f"{name}.json"


def names_in(folder: Path) -> list[str]:
    """The baselines saved in ``folder``."""
    return sorted(path.stem for path in folder.glob("*.json") if _NAME.fullmatch(path.stem))


def save(baseline: Baseline, name: str, folder: Path) -> Path:
    """Write ``baseline`` to its file, the same bytes for the same numbers; returns the path.

    Raises:
        RunError: it has no percentiles; a gate without a real baseline is decoration.
        UsageError: a name that is none.
    """
    path = path_of(name, folder)
    if baseline.cost_usd is None:
        raise RunError(
            f"there is nothing to save as baseline {name!r}: {baseline.why_not}",
            fix=f"It takes {baseline.min_sample} invocations on {baseline.min_days} days before today.",
        )
    text = json.dumps(document(replace(baseline, name=name)), ensure_ascii=False, indent=1, sort_keys=True)
    # The points of a metric on one line: a diff of one line for each.
    text = re.sub(r"\[[^\[\]{}]*\]", lambda found: re.sub(r"\s+", " ", found[0]), text)
    atomic_write(path, text + "\n")
    return path


def find(reference: str | PathLike[str], folder: Path | None) -> Baseline:
    """The baseline of a file, or the one saved under that name in ``folder``. Raises UsageError."""
    path = Path(reference)
    if path.suffix == ".json" or len(path.parts) > 1:
        return load(path)
    if folder is None:
        raise UsageError(f"where is the baseline {str(reference)!r}?", fix="Give the path of its file.")
    return load(path_of(str(reference), folder))


def load(path: str | PathLike[str]) -> Baseline:
    """Read a saved baseline. Raises UsageError: no file, damaged, another format."""
    file = Path(path)
    try:
        with file.open("rb") as stream:
            data = stream.read(_BIGGEST + 1)
    except OSError as error:
        known = names_in(file.parent)
        fix = f"Saved are: {', '.join(known)}." if known else "Save one first: rightlab baseline save AGENT"
        raise UsageError(f"no baseline to read ({error.strerror})", where=file, fix=fix) from None
    try:
        if len(data) > _BIGGEST:
            raise ValueError("it is too big")
        return _read(json.loads(data), file)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"this is no saved baseline of this version: {error}", where=file, fix="Save it again."
        ) from None


def document(baseline: Baseline) -> dict[str, Any]:
    """``baseline`` as JSON, with the name, the window, the method, the models, the prompts and the price version."""
    window = baseline.window
    found: dict[str, Any] = {
        "format": FORMAT,
        "name": baseline.name,
        "agent": baseline.agent,
        "n": baseline.n,
        **{metric: _metric_json(baseline, metric) for metric in METRICS},
        "method": baseline.method,
        "min_sample": baseline.min_sample,
        "min_days": baseline.min_days,
        "filters": baseline.filters.to_json(),
        "window": {
            "days": len(window),
            "first": window.first.isoformat(),
            "last": window.last.isoformat(),
            "zone": window.tz,
        },
        "days_seen": baseline.days_seen,
        "models": dict(baseline.models),
        "prompts": dict(list(baseline.prompts.items())[:20]),
        "price_versions": list(baseline.price_versions),
        "unknown_costs": baseline.unknown_costs,
        "scripted": baseline.scripted,
        "made_at": iso(baseline.made_at),
        "why_not": baseline.why_not,
    }
    if baseline.by:
        found["by"] = list(baseline.by)
        found["groups"] = list(baseline.records())
    return found


def _metric_json(baseline: Baseline, metric: str) -> dict[str, Any] | None:
    summary: Summary | None = getattr(baseline, metric)
    if summary is None:
        return None
    values = baseline.values[metric]
    return {
        "n": summary.n,
        "min": values[0],
        "p50": summary.p50,
        "p90": summary.p90,
        "p99": summary.p99,
        "max": values[-1],
        "values": _points(values),
    }


def _points(ordered: Sequence[float]) -> list[float]:
    if len(ordered) > POINTS:
        ordered = [percentile(ordered, (place + 0.5) / POINTS) for place in range(POINTS)]
    return [float(f"{value:.6g}") for value in ordered]


def _read(data: Any, file: Path) -> Baseline:
    if data.get("format") != FORMAT:
        raise ValueError(f"its format is {data.get('format')!r}, not {FORMAT!r}")
    if data["method"] != METHOD:
        raise ValueError(f"its method is {data['method']!r}, not {METHOD!r}")
    window, filters = data["window"], dict(data["filters"])
    source = filters.pop("source", None)
    min_sample = int(data.get("min_sample", MIN_SAMPLE))
    found = {metric: _metric(data.get(metric), min_sample) for metric in METRICS}
    return Baseline(
        n=int(data["n"]),
        cost_usd=found["cost_usd"][0],
        num_turns=found["num_turns"][0],
        elapsed_ms=found["elapsed_ms"][0],
        window=Days(
            date.fromisoformat(window["first"]), date.fromisoformat(window["last"]), str(window["zone"])
        ),
        filters=Filters(source=tuple(source) if isinstance(source, list) else source, **filters),
        days_seen=int(data["days_seen"]),
        made_at=parse_iso(data["made_at"]),
        models={str(name): int(n) for name, n in data["models"].items()},
        prompts={str(name): int(n) for name, n in data["prompts"].items()},
        price_versions=tuple(map(str, data["price_versions"])),
        scripted=int(data.get("scripted", 0)),
        counts={metric: n for metric, (_, n, _) in found.items()},
        values={metric: values for metric, (_, _, values) in found.items()},
        min_sample=min_sample,
        min_days=int(data.get("min_days", MIN_DAYS)),
        agent=data.get("agent"),
        name=data.get("name") or file.stem,
        folder=file.parent,
    )


def _metric(data: Any, min_sample: int) -> tuple[Summary | None, int, tuple[float, ...]]:
    if data is None:
        return None, 0, ()
    numbers = [float(data[key]) for key in ("p50", "p90", "p99")]
    values = tuple(sorted(float(value) for value in data["values"]))
    if not values or not all(math.isfinite(value) and value >= 0 for value in (*values, *numbers)):
        raise ValueError("a number in it is none")
    n = int(data["n"])
    if n < len(values):
        raise ValueError("it has more values than n")
    return Summary(n, numbers[0], numbers[1], numbers[2], METHOD, min_sample), n, values
