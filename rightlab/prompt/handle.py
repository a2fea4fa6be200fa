"""Handles: how sections, tools, variables and listeners get into a registry, and out again."""

from collections.abc import Callable, Hashable, Mapping
from typing import Any

from rightlab.errors import PromptError
from rightlab.prompt.files import check_guest_path
from rightlab.prompt.layers import (
    GLOBAL,
    ContextEntry,
    Layers,
    Listener,
    Registration,
    SectionEntry,
    ToolEntry,
    VariableEntry,
    caller,
    check_order,
)
from rightlab.prompt.template import valid_variable_name

__all__ = ["Handle"]

Text = str | Callable[[Any], str]
Provider = str | None | Callable[[Any], str | None]


class Handle:
    """Registers into one layer and owns what it registered; :meth:`close` takes all of it back.

    A handle from :meth:`scope` registers for one scope key: a section, context or variable there shadows the
    global one of the same name, tool providers add up, listeners hear only assemblies of that scope. Two
    handles of one key share the layer; each closes only its own. :meth:`plugin` is the same for the layer of
    this handle. What a handle minted closes with it. Registering through a closed handle raises ``inactive``.
    """

    def __init__(self, layers: Layers, key: Hashable = GLOBAL, owner: str | None = None) -> None:
        self._layers = layers
        self._key = key
        self._owner = owner
        self._own: list[Registration | Handle] = []
        self._closed = False

    @property
    def key(self) -> Hashable:
        """The scope key; ``None`` for the global layer."""
        return self._key

    @property
    def closed(self) -> bool:
        return self._closed

    def section(
        self,
        name: str,
        order: float,
        text: Text = "",
        *,
        literal: bool = False,
        required: bool = True,
        complete: bool = False,
        file: str | None = None,
        head: int | None = None,
        wrap: str | None = None,
        before: str | None = None,
        after: str | None = None,
        when: Callable[[Any], bool] | None = None,
        owner: str | None = None,
    ) -> Registration:
        """Contribute a section.

        ``text`` is a template, or with ``literal`` data that is never interpolated; a callable gets the
        context of each assembly. With ``file`` (relative to the guest root) ``text`` is the heading above the file's
        content, which is always literal; ``head`` keeps the first lines; ``wrap`` names the source in the
        untrusted frame; a missing file drops the section. ``before``/``after`` name a section to stand next
        to instead of by ``order``. A failing section with ``required=False`` is dropped and recorded. With
        ``complete`` the section is the whole prompt. ``when`` decides per assembly whether it takes part.

        Raises :class:`PromptError`: duplicate, order, bad_name, bad_path, bad_text, inactive.
        """
        who, where = self._caller(owner)
        check_name(name, "section", who)
        check_order(order, "section", name, who)
        check_text(text, "section", name, who)
        if file is not None:
            check_guest_path(file)
            who = file if owner is None else owner
        elif head is not None or wrap is not None:
            raise PromptError(f"section {name!r}: head and wrap go with file", code="bad_text", section=name)
        if head is not None and (isinstance(head, bool) or not isinstance(head, int) or head < 1):
            raise PromptError(f"section {name!r}: head must be 1 or more", code="bad_text", section=name)
        if name in (before, after):
            raise PromptError(f"section {name!r} is anchored to itself", code="anchor_cycle", section=name)
        entry = SectionEntry(
            name=name,
            order=order,
            text=text,
            literal=literal,
            required=required,
            complete=complete,
            file=file,
            head=head,
            wrap=wrap,
            before=before,
            after=after,
            when=when,
            owner=who,
            where=where,
        )
        return self._keep(lambda: self._layers.put_named(self._key, "sections", entry, "section"))

    def context(
        self,
        name: str,
        order: float,
        text: Text,
        *,
        literal: bool = False,
        required: bool = True,
        owner: str | None = None,
    ) -> Registration:
        """Contribute a tail context: a dynamic fact that belongs behind the conversation."""
        who, where = self._caller(owner)
        check_name(name, "context", who)
        check_order(order, "context", name, who)
        check_text(text, "context", name, who)
        entry = ContextEntry(name, order, text, literal, required, who, where)
        return self._keep(lambda: self._layers.put_named(self._key, "contexts", entry, "context"))

    def variable(self, name: str, provider: Provider, *, owner: str | None = None) -> Registration:
        """Contribute a variable: text, or a callable of the context giving text or ``None`` (no value)."""
        who, where = self._caller(owner)
        if not valid_variable_name(name):
            raise PromptError(
                f"{name!r} cannot be the name of a variable",
                code="bad_name",
                owner=who,
                fix="Use a small letter, then small letters, digits and _.",
            )
        if provider is not None and not isinstance(provider, str) and not callable(provider):
            raise PromptError(f"variable {name!r} must be text or a callable", code="bad_value", owner=who)
        entry = VariableEntry(name, provider, who, where)
        return self._keep(lambda: self._layers.put_named(self._key, "variables", entry, "variable"))

    def tools(
        self, provider: Callable[[Any], object] | Mapping[str, Any] | list[Any], *, owner: str | None = None
    ) -> Registration:
        """Contribute tool schemas; see :class:`~rightlab.prompt.tools.ToolProviderResult` for the answer."""
        who, where = self._caller(owner)
        call = provider if callable(provider) else (lambda context: provider)
        entry = ToolEntry(call, who, where)
        return self._keep(lambda: self._layers.put(self._key, "tools", entry, "a tool provider"))

    def registered(self, name: str) -> SectionEntry | None:
        """The section ``name`` as an assembly for this handle's layer sees it, or ``None``."""
        found: SectionEntry | None = None
        with self._layers.lock:
            for layer in self._layers.visible(self._key):
                found = layer.sections.get(name, found)
        return found

    def section_names(self) -> list[str]:
        """The names of all sections that an assembly for this handle's layer sees, sorted."""
        with self._layers.lock:
            return sorted({name for layer in self._layers.visible(self._key) for name in layer.sections})

    def suppress_contexts(self) -> Registration:
        """While this is registered, assemblies that see this layer have no tail contexts at all."""
        return self._keep(lambda: self._layers.put(self._key, "silent", "", "a context suppressor"))

    def on_change(self, call: Callable[[], Any]) -> Registration:
        """Call ``call()`` after each registration and removal of anybody; raising vetoes a registration."""
        return self._keep(lambda: self._layers.on_change(call))

    def on_assemble(
        self,
        call: Callable[..., Any],
        *,
        first: bool = False,
        every: bool = False,
        required: bool = True,
        owner: str | None = None,
    ) -> Registration:
        """Join the waterfall: ``call(assembly, context, next)``, sync or async, returns the assembly to use.

        ``await next()`` (or ``return next()``), at most once, asks the listeners further in; not calling it
        replaces their answer. Listeners run in order of registration, ``first`` puts one outermost; ``every``
        makes a scoped one hear all assemblies; one with ``required=False`` is passed over when it fails.
        """
        who, _ = self._caller(owner)
        return self._keep(
            lambda: self._layers.listen(Listener(call, self._key, every, who, required), first=first)
        )

    def scope(self, key: Hashable, *, owner: str | None = None) -> "Handle":
        """A handle for the layer of ``key`` (any hashable but ``None``); assemble with ``{"scope": key}``."""
        if key is None:
            raise PromptError("a scope needs a key", code="bad_scope", owner=owner)
        self._active()
        return self._minted(Handle(self._layers, key.key if isinstance(key, Handle) else key, owner))

    def plugin(self, owner: str) -> "Handle":
        """A handle for this same layer under the name ``owner``, with a lifetime of its own."""
        self._active()
        return self._minted(Handle(self._layers, self._key, owner))

    def close(self) -> None:
        """Take back everything registered through this handle, last first. Closing twice does nothing."""
        self._closed = True
        failure: Exception | None = None
        while self._own:
            try:
                self._own.pop().close()
            except Exception as error:
                failure = failure or error
        if failure is not None:
            raise failure

    def __enter__(self) -> "Handle":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _active(self) -> None:
        if self._closed:
            raise PromptError("this handle is closed; nothing can be registered through it", code="inactive")

    def _keep(self, register: Callable[[], Registration]) -> Registration:
        self._active()
        registration = register()
        self._hold(registration)
        return registration

    def _minted(self, handle: "Handle") -> "Handle":
        self._hold(handle)
        return handle

    def _hold(self, one: "Registration | Handle") -> None:
        """Own ``one``, and let go of what was closed meanwhile: scopes come and go for as long as we live."""
        self._own = [own for own in self._own if not own.closed]
        self._own.append(one)

    def _caller(self, owner: str | None) -> tuple[str, str]:
        module, where = caller()
        return owner or self._owner or module, where


def check_name(name: object, kind: str, owner: str) -> None:
    if not isinstance(name, str) or not name:
        raise PromptError(f"a {kind} needs a name, not {name!r}", code="bad_name", owner=owner)


def check_text(text: object, kind: str, name: str, owner: str) -> None:
    if not isinstance(text, str) and not callable(text):
        raise PromptError(
            f"the text of {kind} {name!r} must be text or a callable, not {type(text).__name__}",
            code="bad_text",
            section=name,
            owner=owner,
        )
