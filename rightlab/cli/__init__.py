"""The ``rightlab`` command (contract, "Command line")."""

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 1 the thing asked for failed, 2 bad usage or bad input."""
    from rightlab.cli.app import run

    sys.exit(run(list(sys.argv[1:] if argv is None else argv)))
