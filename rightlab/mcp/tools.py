"""The tool table as data: name, words for the model, parameters, who may call it, and the port it calls.

List, schemas and the server's instructions all come from the table, in one fixed order, so they cannot drift
from each other and are the same bytes in every process (the prompt cache depends on it).
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from rightlab.errors import ContentError
from rightlab.mcp.registry import InvocationKind, Scope

__all__ = [
    "Failure",
    "NoParams",
    "Params",
    "Tool",
    "ToolContext",
    "input_schema",
    "instructions",
    "sorted_tools",
]


class Params(BaseModel):
    """Parameters of a tool: unknown names are refused (spec agent-runtime 8.2)."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class NoParams(Params):
    """A tool without parameters."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A refusal in the envelope of spec 8.4: ``{"error": {"code", "message", "details"?}}``, is_error."""

    code: str
    message: str
    details: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.details:
            error["details"] = dict(self.details)
        return {"error": error}


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a tool gets besides its parameters: the caller's scope (None for tools that need none)."""

    scope: Scope | None


Answer = Mapping[str, Any] | Failure
Handler = Callable[[ToolContext, Any], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Tool:
    """One row of the table.

    ``summary`` is the tool's description, ``advice`` one sentence for the instructions. ``kinds`` None: any
    caller, scope or not; else only these kinds, others get ``forbidden``. ``timeout`` in seconds;
    ``failed`` is the code of an unexpected failure or a timeout, ``uncertain`` whether a timeout may have had
    its effect all the same.
    """

    name: str
    summary: str
    advice: str
    params: type[Params]
    handler: Handler
    kinds: frozenset[InvocationKind] | None = None
    forbidden: str = "tool_failed"
    failed: str = "tool_failed"
    timeout: float = 30.0
    uncertain: bool = False

    def parse(self, arguments: Mapping[str, Any]) -> Params | Failure:
        """The call's parameters, or why they cannot be."""
        try:
            return self.params.model_validate(dict(arguments))
        except ContentError as error:
            code = "empty_content" if error.kind == "EmptyContent" else "invalid_argument"
            return Failure(code, str(error), {"kind": error.kind})
        except ValidationError as error:
            problems = [
                f"{'.'.join(str(part) for part in item['loc']) or 'arguments'}: {item['msg']}"
                for item in error.errors(include_url=False)
            ]
            return Failure("invalid_argument", "; ".join(problems[:3]))


def sorted_tools(tools: Sequence[Tool]) -> tuple[Tool, ...]:
    """The table in its one order: by name."""
    return tuple(sorted(tools, key=lambda tool: tool.name))


def input_schema(tool: Tool) -> dict[str, Any]:
    """The tool's JSON Schema: generated from its parameters, without pydantic's titles and our docstrings."""
    schema: dict[str, Any] = _trimmed(tool.params.model_json_schema())
    schema.pop("description", None)
    schema.setdefault("properties", {})
    return schema


def _trimmed(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _trimmed(item)
            for key, item in value.items()
            if not (key == "title" and isinstance(item, str)) and not (key == "default" and item is None)
        }
    if isinstance(value, list):
        return [_trimmed(item) for item in value]
    return value


def instructions(tools: Sequence[Tool]) -> str:
    """The server's own words for the model: what each tool is for and who may use it."""
    lines = ["Tools of this agent's platform. Chat and thread are known; never pass them."]
    for tool in sorted_tools(tools):
        note = "" if tool.kinds is None else f" ({_named(tool.kinds)} turns only)"
        lines.append(f"- `{tool.name}`{note}: {tool.advice}")
    return "\n".join(lines)


def _named(kinds: frozenset[InvocationKind]) -> str:
    return ", ".join(sorted(kind.replace("_", "-") for kind in kinds))
