"""Ask before writing: the first press says what will happen, only the second does it."""

from collections.abc import Callable

import ipywidgets

from rightlab.html import escape

__all__ = ["Confirm"]


class Confirm:
    """A button ``label`` that asks ``question`` before it calls ``work``.

    ``question`` may be a function; None from it means there is nothing to do and no question is asked. While asked,
    the keyboard stands on "Cancel": an accidental second Enter writes nothing.
    """

    def __init__(
        self,
        label: str,
        question: str | Callable[[], str | None],
        work: Callable[[], object],
        *,
        hint: str = "",
    ) -> None:
        self._question = question
        self._work = work
        self._ask = ipywidgets.Button(description=label, tooltip=hint or label)
        self._text = ipywidgets.HTML()
        self._yes = ipywidgets.Button(description=f"Yes, {label[0].lower()}{label[1:]}", tooltip="Do it")
        self._cancel = ipywidgets.Button(description="Cancel", tooltip="Do nothing")
        self._asked = ipywidgets.HBox([self._text, self._cancel, self._yes])
        self._asked.add_class("rightlab-controls")
        self._asked.layout.display = "none"
        self._ask.on_click(lambda _: self._on_ask())
        self._yes.on_click(lambda _: self._on_yes())
        self._cancel.on_click(lambda _: self._back())
        self.widget = ipywidgets.HBox([self._ask, self._asked])

    @property
    def asking(self) -> bool:
        return bool(self._asked.layout.display is None)

    def _on_ask(self) -> None:
        question = self._question() if callable(self._question) else self._question
        if question is None:
            return
        self._text.value = f'<span role="alert">{escape(question)}</span>'
        self._ask.layout.display = "none"
        self._asked.layout.display = None
        self._cancel.focus()

    def _on_yes(self) -> None:
        # A second press that was on its way before the question closed must not write twice.
        if self.asking:
            self._back()
            self._work()

    def _back(self) -> None:
        self._asked.layout.display = "none"
        self._ask.layout.display = None
        self._ask.focus()
