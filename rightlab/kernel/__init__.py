"""The kernel extension: ``%load_ext rightlab``, or the kernel "rightlab", which loads it by itself (design 7).

Loading is cheap, needs no home and touches none. Unloading stops every agent of this kernel and takes the magics out.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__all__ = ["load_ipython_extension", "unload_ipython_extension"]

MAGICS = ("rightlab", "prompt", "ask")
_ATTRIBUTE = "_rightlab_magics"


def load_ipython_extension(ip: "InteractiveShell") -> None:
    """Register the magics; a second load changes nothing. Agents that were up here before a restart come back."""
    if getattr(ip, _ATTRIBUTE, None) is not None:
        return
    import atexit

    from rightlab.kernel.hosting import bring_back, stop_all
    from rightlab.kernel.magics import RightlabMagics

    magics = RightlabMagics(ip)
    ip.register_magics(magics)
    setattr(ip, _ATTRIBUTE, magics)
    # atexit runs on shutdown, restart and quit(), with 2.5 s before the server's SIGTERM (spec jupyter 0.4).
    atexit.register(stop_all)
    bring_back(magics.up)


def unload_ipython_extension(ip: "InteractiveShell") -> None:
    """Stop every agent this kernel owns and unregister the magics."""
    import atexit

    from rightlab.kernel.hosting import stop_all

    magics: Any = getattr(ip, _ATTRIBUTE, None)
    if magics is None:
        return
    stop_all()
    atexit.unregister(stop_all)
    for kind in ("line", "cell"):
        table = ip.magics_manager.magics[kind]
        for name in MAGICS:
            table.pop(name, None)
    ip.magics_manager.registry.pop(type(magics).__name__, None)
    delattr(ip, _ATTRIBUTE)
