"""The MCP aggregator: which tools an agent's invocations have, and what each of them may act for.

The server itself (:class:`Aggregator`) stands on the official SDK and is loaded when it is used.
"""

from typing import TYPE_CHECKING

from rightlab.lazy import lazy_exports

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

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "aggregator": ("Aggregator",),
        "builtin": ("builtin_tools",),
        "registry": ("InvocationKind", "InvocationRegistry", "MessagePort", "Scope"),
        "tools": ("Failure", "Params", "Tool", "ToolContext"),
    },
)
