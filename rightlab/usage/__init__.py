"""Usage: the ledger, prices and percentiles (design 10). Names are loaded on first use."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rightlab.usage.ledger import LEARNING_SOURCES, SOURCES, Day, Ledger, Metered, UsageRow
    from rightlab.usage.percentiles import METHOD, MIN_SAMPLE, Summary, percentile, summarize
    from rightlab.usage.prices import ALIASES, PRICE_VERSION, PriceTable, price, resolve_model

__all__ = [
    "ALIASES",
    "LEARNING_SOURCES",
    "METHOD",
    "MIN_SAMPLE",
    "PRICE_VERSION",
    "SOURCES",
    "Day",
    "Ledger",
    "Metered",
    "PriceTable",
    "Summary",
    "UsageRow",
    "percentile",
    "price",
    "resolve_model",
    "summarize",
]

_MODULES = {
    "ledger": ("LEARNING_SOURCES", "SOURCES", "Day", "Ledger", "Metered", "UsageRow"),
    "percentiles": ("METHOD", "MIN_SAMPLE", "Summary", "percentile", "summarize"),
    "prices": ("ALIASES", "PRICE_VERSION", "PriceTable", "price", "resolve_model"),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(f"rightlab.usage.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'rightlab.usage' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
