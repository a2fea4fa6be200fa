"""Our own texts of the prompt, one file per section or topic."""

from functools import cache
from importlib.resources import files

__all__ = ["text"]


@cache
def text(name: str) -> str:
    """The text ``name`` (``base``, ``operating/cron``), without the file's last line break."""
    return files(__package__).joinpath(f"{name}.md").read_text("utf-8").rstrip("\n")
