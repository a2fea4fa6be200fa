"""Store: ``data.db`` (SQLite, WAL) behind immediate transactions; nothing above this room sees a cursor."""

from rightlab.store.connection import Result, Row, Tx
from rightlab.store.schema import Migration, known_migrations
from rightlab.store.store import Role, Store

__all__ = ["Migration", "Result", "Role", "Row", "Store", "Tx", "known_migrations"]
