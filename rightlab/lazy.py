"""Names of a package that are loaded on first use (PEP 562), so that importing a room costs nothing (design 12)."""

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rightlab.errors import RightlabError

__all__ = ["lazy_exports", "needs_extra"]

_AGENT_EXTRA = frozenset({"claude_agent_sdk", "mcp", "mcp_types", "starlette", "uvicorn"})
"""The packages that come with ``rightlab[agent]`` alone."""


def lazy_exports(
    package: str, homes: Mapping[str, Iterable[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of ``package``; ``homes`` maps a submodule to the names that live in it.

    Asking for a name whose submodule needs a package of an extra that is not there raises RightlabError.
    """
    module_of = {name: f"{package}.{module}" for module, names in homes.items() for name in names}

    def get(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            value = getattr(import_module(module_of[name]), name)
        except ModuleNotFoundError as error:
            raise (needs_extra(error, f"{package}.{name}") or error) from None
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *module_of})

    return get, names


def needs_extra(error: ModuleNotFoundError, what: str) -> "RightlabError | None":
    """The one line to say when ``what`` misses a package of an extra; None when ``error`` is about another."""
    from rightlab.errors import RightlabError

    package = (error.name or "").partition(".")[0]
    if package not in _AGENT_EXTRA:
        return None
    return RightlabError(
        f"{what} needs the package {package}",
        fix="Install rightlab[agent]: python3 -m pip install 'rightlab[agent]'",
    )
