"""A share as a bar, a spread as a band: always with the numbers beside them."""

from collections.abc import Callable

from rightlab.html.base import Block
from rightlab.html.escape import attribute, escape, one_line
from rightlab.html.format import UNKNOWN, count, percent

__all__ = ["Band", "Bar"]

CELLS = 20
PIXELS = 160
_GROOVE = "rgba(127,127,127,0.2)"
_FILL = "rgba(88,134,214,0.8)"
_FILL_FAINT = "rgba(88,134,214,0.4)"


class Bar(Block):
    """``value`` of ``total`` under ``label``; unknown values have no bar and say so."""

    def __init__(
        self,
        label: str,
        value: float | None,
        total: float | None,
        *,
        format: Callable[[float | None], str] = count,
    ) -> None:
        self.label = label
        self.value = value
        self.total = total
        self.format = format

    @property
    def share(self) -> float | None:
        """Between 0 and 1; None when unknown or of nothing."""
        if self.value is None or not self.total:
            return None
        return min(max(self.value / self.total, 0.0), 1.0)

    def _words(self) -> str:
        if self.value is None:
            return UNKNOWN
        if self.share is None:
            return self.format(self.value)
        share = percent(self.value / (self.total or 1))
        return f"{self.format(self.value)} of {self.format(self.total)} ({share})"

    def _html(self, limit: int) -> str:
        words = f"{escape(one_line(self.label))}: {escape(self._words())}"
        if self.share is None:
            return f"<p>{words}</p>"
        bar = f'<meter min="0" max="1" value="{self.share:.4f}" title="{attribute(self.label)}"></meter>'
        return f"<p>{bar} {words}</p>"

    def _text(self) -> str:
        words = f"{one_line(self.label)}: {self._words()}"
        if self.share is None:
            return words
        full = round(self.share * CELLS)
        return f"{'█' * full}{'░' * (CELLS - full)} {words}"


class Band(Block):
    """Where the middle of many values lies: from ``low`` to ``high`` with ``mid`` marked, on a scale up to
    ``top``.

    Meant for P50, P90 and P99 (``names``). ``value`` is one more point, such as the last turn.
    """

    def __init__(
        self,
        label: str,
        low: float | None,
        mid: float | None,
        high: float | None,
        *,
        top: float | None = None,
        value: float | None = None,
        names: tuple[str, str, str] = ("P50", "P90", "P99"),
        format: Callable[[float | None], str] = count,
    ) -> None:
        self.label = label
        self.points = (low, mid, high)
        self.value = value
        self.names = names
        self.format = format
        known = [point for point in (*self.points, value, top) if point is not None]
        self.top = max(known, default=0.0)

    def _words(self) -> str:
        points = " · ".join(
            f"{one_line(name)} {self.format(point)}"
            for name, point in zip(self.names, self.points, strict=True)
        )
        return points if self.value is None else f"{points} · this one {self.format(self.value)}"

    def _places(self, room: int) -> tuple[int, int, int] | None:
        if self.top <= 0:
            return None
        low, mid, high = self.points
        if low is None or mid is None or high is None:
            return None
        first, middle, last = sorted(
            min(max(round(point / self.top * room), 0), room) for point in (low, mid, high)
        )
        return first, middle, last

    def _html(self, limit: int) -> str:
        words = f"{escape(one_line(self.label))}: {escape(self._words())}"
        places = self._places(PIXELS)
        if places is None:
            return f"<p>{words}</p>"
        first, middle, last = places
        reach = _box(max(middle - first, 1), f"margin-left:{first}px;background-color:{_FILL}")
        tail = _box(max(last - middle, 1), f"background-color:{_FILL_FAINT}")
        groove = _box(PIXELS, f"background-color:{_GROOVE}", reach + tail, attribute(self.label))
        return f"<p>{groove} {words}</p>"

    def _text(self) -> str:
        words = f"{one_line(self.label)}: {self._words()}"
        places = self._places(CELLS - 1)
        if places is None:
            return words
        first, middle, last = places
        strip = "".join("●" if at == middle else "━" if first <= at <= last else "·" for at in range(CELLS))
        return f"{strip} {words}"


def _box(pixels: int, style: str, inside: str = "", title: str = "") -> str:
    named = f' title="{title}"' if title else ""
    place = "middle" if inside else "top"
    box = f"display:inline-block;vertical-align:{place};height:10px;width:{pixels}px;{style}"
    return f'<span{named} style="{box}">{inside}</span>'
