"""The MCP aggregator: which tools an agent's invocations have, and what each of them may act for.

The server itself (:class:`Aggregator`) stands on the official SDK and is loaded when it is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rightlab.mcp.aggregator import Aggregator
    from rightlab.mcp.builtin import builtin_tools
    from rightlab.mcp.registry import InvocationKind, InvocationRegistry, MessagePort, Scope
    from rightlab.mcp.tools import Failure, Params, Tool, ToolContext

__all__ = [
    "Aggregator",
    "Failure",
    "InvocationKind",
    "InvocationRegistry",
    "MessagePort",
    "Params",
    "Scope",
    "Tool",
    "ToolContext",
    "builtin_tools",
]

_HOMES = {
    "Aggregator": "aggregator",
    "builtin_tools": "builtin",
    "InvocationKind": "registry",
    "InvocationRegistry": "registry",
    "MessagePort": "registry",
    "Scope": "registry",
    "Failure": "tools",
    "Params": "tools",
    "Tool": "tools",
    "ToolContext": "tools",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(f"rightlab.mcp.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'rightlab.mcp' has no attribute {name!r}")
