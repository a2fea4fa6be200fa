"""The inspector: what changed between two requests, what an edit would do to the cache, what to improve."""

from rightlab.prompt.inspect.cache import Cache, PricePort, Reading, readable_tokens
from rightlab.prompt.inspect.calibration import UNCALIBRATED, Calibration, calibrate
from rightlab.prompt.inspect.compare import first_divergence
from rightlab.prompt.inspect.divergence import UNKNOWN_CAUSE, Divergence
from rightlab.prompt.inspect.lint import Finding, Lint, lint
from rightlab.prompt.inspect.stability import Stability, fill_stability, section_stability, stability_of
from rightlab.prompt.inspect.trace import (
    Listed,
    Recorded,
    RecordedBlock,
    Slice,
    Trace,
    TracedBlock,
    first_lines,
    listed,
    locate,
    trace,
)
from rightlab.prompt.inspect.whatif import Forecast, Totals, WhatIf, suggest_order

__all__ = [
    "UNCALIBRATED",
    "UNKNOWN_CAUSE",
    "Cache",
    "Calibration",
    "Divergence",
    "Finding",
    "Forecast",
    "Lint",
    "Listed",
    "PricePort",
    "Reading",
    "Recorded",
    "RecordedBlock",
    "Slice",
    "Stability",
    "Totals",
    "Trace",
    "TracedBlock",
    "WhatIf",
    "calibrate",
    "fill_stability",
    "first_divergence",
    "first_lines",
    "lint",
    "listed",
    "locate",
    "readable_tokens",
    "section_stability",
    "stability_of",
    "suggest_order",
    "trace",
]
