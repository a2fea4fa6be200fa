"""The order in which the model sees its tools (spec prompt-registry 1.8)."""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from rightlab.errors import PromptError

__all__ = [
    "TOOL_ORDER_REST",
    "ToolProviderResult",
    "ToolSchema",
    "check_tool_order",
    "collect_tools",
    "order_tools",
]

TOOL_ORDER_REST = "<unlisted-tools>"


class ToolSchema(dict[str, Any]):
    """One tool as the model is told of it: a JSON object with ``name``, ``description``, ``parameters``."""

    @property
    def name(self) -> str:
        return str(self["name"])

    @property
    def description(self) -> str:
        return str(self.get("description", ""))

    @property
    def parameters(self) -> dict[str, Any]:
        return dict(self.get("parameters") or {})


@dataclass(frozen=True)
class ToolProviderResult:
    """What a tool provider answers: the schemas visible now, and all names it may ever show.

    ``known_names`` replaces, and is not added to, the names of ``schemas``; ``None`` means exactly those.
    """

    schemas: Sequence[Mapping[str, Any]]
    known_names: Iterable[str] | None = None


def check_tool_order(order: Sequence[str] | None) -> tuple[str, ...] | None:
    """``order`` checked once: text only, no repeat, and the marker present. ``None`` means by name.

    Raises :class:`PromptError` with code ``tool_order``. Source: spec prompt-registry 1.8.
    """
    if order is None:
        return None
    if isinstance(order, str) or not all(isinstance(name, str) for name in order):
        raise PromptError("the tool order must be a list of tool names", code="tool_order")
    listed = tuple(order)
    seen: set[str] = set()
    for name in listed:
        if name in seen:
            raise PromptError(f"the tool order lists {name!r} more than once", code="tool_order")
        seen.add(name)
    if TOOL_ORDER_REST not in seen:
        raise PromptError(
            f"the tool order needs the entry {TOOL_ORDER_REST!r} where all other tools go", code="tool_order"
        )
    return listed


def collect_tools(result: object, owner: str) -> tuple[list[ToolSchema], list[str]]:
    """A provider's answer as (copies of its schemas, known names); it may be a mapping or a list."""
    known: Any
    if isinstance(result, Mapping):
        schemas, known = result.get("schemas"), result.get("known_names")
    elif hasattr(result, "schemas"):
        schemas, known = result.schemas, getattr(result, "known_names", None)
    else:
        schemas, known = result, None
    if not isinstance(schemas, list | tuple):
        raise PromptError("the tool provider gave no list of schemas", code="bad_tools", owner=owner)
    tools: list[ToolSchema] = []
    for schema in schemas:
        if not isinstance(schema, Mapping) or not isinstance(schema.get("name"), str) or not schema["name"]:
            raise PromptError("the tool provider gave a schema without a name", code="bad_tools", owner=owner)
        if schema["name"] == TOOL_ORDER_REST:
            raise PromptError(
                f"a tool may not be called {TOOL_ORDER_REST!r}; the name is reserved for the tool order",
                code="reserved",
                owner=owner,
            )
        tools.append(ToolSchema(deepcopy(dict(schema))))
    names = [tool.name for tool in tools] if known is None else list(known)
    if not all(isinstance(name, str) for name in names):
        raise PromptError("the tool provider's known names must be text", code="bad_tools", owner=owner)
    return tools, names


def order_tools(
    tools: Sequence[ToolSchema], known: Iterable[str], order: tuple[str, ...] | None
) -> list[ToolSchema]:
    """``tools`` in their final order: by name (code points, stable), or as ``order`` lists them.

    Raises :class:`PromptError` (code ``tool_order``) when the order lists a name no provider knows.
    """
    by_name = sorted(tools, key=lambda tool: tool.name)
    if order is None:
        return by_name
    universe = set(known)
    missing = [name for name in order if name != TOOL_ORDER_REST and name not in universe]
    if missing:
        noun = "a tool that does not exist" if len(missing) == 1 else "tools that do not exist"
        raise PromptError(
            f"the tool order names {noun}: {', '.join(missing)} "
            f"(known: {', '.join(sorted(universe)) or 'none'})",
            code="tool_order",
        )
    ordered: list[ToolSchema] = []
    for name in order:
        if name == TOOL_ORDER_REST:
            ordered += [tool for tool in by_name if tool.name not in order]
        else:
            ordered += [tool for tool in tools if tool.name == name]
    return ordered
