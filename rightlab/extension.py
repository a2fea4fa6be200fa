"""``%load_ext rightlab``: the kernel's magics and hosting, and the live views of what they show.

The two faces do not know each other (design 3); this is where a kernel gets both.
"""

from typing import TYPE_CHECKING

from rightlab import kernel, views

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__all__ = ["load_ipython_extension", "unload_ipython_extension"]


def load_ipython_extension(ip: "InteractiveShell") -> None:
    """Register magics and views. Needs no home and touches none; a second load changes nothing."""
    kernel.load_ipython_extension(ip)
    views.load(ip)


def unload_ipython_extension(ip: "InteractiveShell") -> None:
    """Stop every agent this kernel owns, close the live views, take the magics out."""
    kernel.unload_ipython_extension(ip)
    views.unload()
