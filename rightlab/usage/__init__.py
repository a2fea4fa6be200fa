"""Usage: the ledger, prices and percentiles (design 10). Names are loaded on first use."""

from typing import TYPE_CHECKING

from rightlab.lazy import lazy_exports

if TYPE_CHECKING:
    from rightlab.usage.baseline import Baseline, baseline_of
    from rightlab.usage.engine import Engine
    from rightlab.usage.ledger import Ledger
    from rightlab.usage.percentiles import METHOD, MIN_SAMPLE, Summary, percentile, summarize
    from rightlab.usage.prices import ALIASES, PRICE_VERSION, PriceTable, price, resolve_model
    from rightlab.usage.rows import LEARNING_SOURCES, SOURCES, Day, Metered, UsageRow
    from rightlab.usage.summary_text import usage_text
    from rightlab.usage.transcripts import read_transcripts
    from rightlab.usage.turn_stats import TurnStats, turn_stats
    from rightlab.usage.verdict import Verdict, compare

__all__ = [
    "ALIASES",
    "LEARNING_SOURCES",
    "METHOD",
    "MIN_SAMPLE",
    "PRICE_VERSION",
    "SOURCES",
    "Baseline",
    "Day",
    "Engine",
    "Ledger",
    "Metered",
    "PriceTable",
    "Summary",
    "TurnStats",
    "UsageRow",
    "Verdict",
    "baseline_of",
    "compare",
    "percentile",
    "price",
    "read_transcripts",
    "resolve_model",
    "summarize",
    "turn_stats",
    "usage_text",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "baseline": ("Baseline", "baseline_of"),
        "engine": ("Engine",),
        "ledger": ("Ledger",),
        "percentiles": ("METHOD", "MIN_SAMPLE", "Summary", "percentile", "summarize"),
        "prices": ("ALIASES", "PRICE_VERSION", "PriceTable", "price", "resolve_model"),
        "rows": ("LEARNING_SOURCES", "SOURCES", "Day", "Metered", "UsageRow"),
        "transcripts": ("read_transcripts",),
        "turn_stats": ("TurnStats", "turn_stats"),
        "summary_text": ("usage_text",),
        "verdict": ("Verdict", "compare"),
    },
)
