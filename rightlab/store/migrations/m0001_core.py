"""What the store itself needs: ``meta``, with the fencing token of the agent's owner."""

__all__ = ["NAME", "NUMBER", "STATEMENTS"]

NUMBER = 1
NAME = "core"
STATEMENTS: tuple[str, ...] = (
    "CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID",
    "INSERT OR IGNORE INTO meta (key, value) VALUES ('fence', 0)",
)
