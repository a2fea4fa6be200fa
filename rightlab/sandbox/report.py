"""Reading what the health script printed inside."""

from collections.abc import Iterable

from rightlab.sandbox.base import Check, Health

__all__ = ["read_report"]

_FIXES = {
    "folder": "Make the agent's folder writable for the user who runs rightlab.",
    "proxy": "Restart the agent.",
    "gateway": "Restart the agent.",
    "mcp": "Restart the agent.",
}


def read_report(output: str, before: Iterable[Check], good: str) -> Health:
    """The checks of ``output`` (lines of name, ok or no, detail, by tabs) after those of ``before``."""
    checks = list(before)
    seen = 0
    for line in output.splitlines():
        name, tab, rest = line.partition("\t")
        word, second, detail = rest.partition("\t")
        if tab and second and word in ("ok", "no"):
            checks.append(Check(name, word == "ok", detail))
            seen += 1
    if not seen:
        checks.append(Check("answer", False, "nothing came back from inside"))
    bad = [check for check in checks if not check.ok]
    if not bad:
        return Health(True, good, None, tuple(checks))
    fix = next((_FIXES[check.name] for check in bad if check.name in _FIXES), "Run `rightlab doctor`.")
    return Health(False, "; ".join(check.detail for check in bad), fix, tuple(checks))
