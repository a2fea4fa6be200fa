"""Home: paths, the files people edit, ownership and the only sanctioned writers."""

from rightlab.home.ownership import Category, category_of
from rightlab.home.sockets import bind_unix, connect_unix, open_unix
from rightlab.home.writers import (
    append_line,
    atomic_write,
    make_dir,
    open_append,
    remove,
    write_agent_owned,
    write_merged,
    write_regenerated,
)

__all__ = [
    "Category",
    "append_line",
    "atomic_write",
    "bind_unix",
    "category_of",
    "connect_unix",
    "make_dir",
    "open_append",
    "open_unix",
    "remove",
    "write_agent_owned",
    "write_merged",
    "write_regenerated",
]
