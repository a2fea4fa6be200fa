"""The base widget: three forms, throttled from any thread, closed for good."""

import json
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

from rightlab.errors import RightlabError
from rightlab.html import Page, Paragraph, register_widget
from rightlab.views import Confirm, Throttle, View, close_all, load, unload

WIDGET = "application/vnd.jupyter.widget-view+json"


def page(text: str = "content") -> Page:
    return Page("alice", "It works.", Paragraph(text))


class HasPage:
    def page(self) -> Page:
        return page("of an object")


def until(check: Any, seconds: float = 5.0) -> None:
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.005)


def close_tree(widget: Any) -> None:
    """Close a widget that belongs to no view."""
    for one in (widget, *getattr(widget, "children", ())):
        for part in (one, one.layout, getattr(one, "style", None)):
            if part is not None:
                part.close()
        if one is not widget:
            close_tree(one)


def body(view: View) -> str:
    return str(view._parts[0].value)


def note(view: View) -> str:
    return str(view._note.value)


@pytest.mark.parametrize(
    ("source", "said"),
    [(page(), "content"), (page, "content"), (HasPage(), "of an object"), (HasPage, "of an object")],
    ids=["block", "function of a block", "object", "function of an object"],
)
def test_shows_a_block_or_what_has_a_page(wire: Any, source: object, said: str) -> None:
    view = View(source)
    assert said in body(view)


def test_publishes_widget_html_and_text(wire: Any) -> None:
    view = View(page)
    bundle = view._repr_mimebundle_()
    assert set(bundle) == {WIDGET, "text/html", "text/plain"}
    assert bundle[WIDGET]["model_id"] in wire.alive
    assert "content" in bundle["text/html"]
    assert "<style" not in bundle["text/html"]
    assert bundle["text/plain"] == page().text()
    assert set(view._repr_mimebundle_(include={"text/plain"})) == {"text/plain"}
    assert WIDGET not in view._repr_mimebundle_(exclude={WIDGET})


def test_refresh_sends_only_what_changed(wire: Any) -> None:
    said = ["one"]
    view = View(lambda: page(said[0]))
    view.refresh()
    wire.updates.clear()
    said[0] = "two"
    view.refresh()
    assert "two" in body(view)
    assert [state for state in wire.updates if "two" in str(state)]
    wire.updates.clear()
    view.refresh()
    assert not [state for state in wire.updates if "two" in str(state)]


def test_an_error_of_the_source_is_shown_and_goes_away(wire: Any) -> None:
    broken = [True]

    def read() -> Page:
        if broken[0]:
            raise RightlabError("data.db is damaged", fix="Restore a backup.")
        return page()

    view = View(read)
    assert "data.db is damaged" in body(view)
    assert "Restore a backup." in view._repr_mimebundle_()["text/plain"]
    broken[0] = False
    view.refresh()
    assert "content" in body(view)


def test_something_without_a_page_says_so(wire: Any) -> None:
    assert "has no page" in body(View(lambda: 17))


def test_hostile_and_huge_content_stays_text_and_within_the_state_limit(wire: Any) -> None:
    view = View(lambda: page('<img src=x onerror="alert(1)">' + "é\U0001f600" * 500_000))
    assert "<img" not in body(view)
    assert view.state_bytes <= 100_000
    many = View(lambda: Page("p", "s", *[Paragraph("x" * 1_900) for _ in range(2_000)]))
    assert many.state_bytes <= 100_000
    assert "Not shown" in body(many)


def test_pain_ipywidgets_1970_state_of_ten_thousand_updates_does_not_grow(wire: Any) -> None:
    counter = iter(range(100_000))
    view = View(lambda: page(str(next(counter))))
    before, alive = view.state_bytes, len(wire.alive)
    for _ in range(200):
        view.refresh()
    assert view.state_bytes <= before + 100
    assert len(wire.alive) == alive


def test_ten_thousand_events_make_few_messages_and_show_the_last(wire: Any) -> None:
    state = [0]
    view = View(lambda: page(f"event {state[0]} of 10000"))
    wire.updates.clear()
    started = time.monotonic()

    def bot() -> None:
        for _ in range(2_500):
            state[0] += 1
            view.changed()

    threads = [threading.Thread(target=bot) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    state[0] = 10_000
    view.changed()
    until(lambda: "event 10000 of 10000" in body(view))
    shown = [one for one in wire.updates if "event" in str(one)]
    assert len(shown) <= (time.monotonic() - started) * 5 + 2


def test_changed_never_waits_for_a_slow_source(wire: Any) -> None:
    gate = threading.Event()
    slow = [False]

    def read() -> Page:
        if slow[0]:
            gate.wait(10)
        return page()

    view = View(read)
    slow[0] = True
    view.changed()
    started = time.monotonic()
    for _ in range(1_000):
        view.changed()
    assert time.monotonic() - started < 0.5
    gate.set()


def test_closing_frees_every_widget_and_ends_updates(wire: Any) -> None:
    reads = [0]

    def read() -> Page:
        reads[0] += 1
        return page()

    view = View(read, controls=[])
    view.changed()
    view.close()
    view.close()
    seen = reads[0]
    assert wire.alive == set()
    view.changed()
    view.refresh()
    time.sleep(0.3)
    assert reads[0] == seen
    assert WIDGET not in view._repr_mimebundle_()
    assert "content" in view._repr_mimebundle_()["text/html"]
    assert view.run("nothing", lambda: None) is False


def test_close_does_not_wait_for_a_source_that_hangs(wire: Any) -> None:
    gate = threading.Event()
    hang = [False]
    view = View(lambda: (gate.wait(10), page())[1] if hang[0] else page())
    hang[0] = True
    view.changed()
    time.sleep(0.3)
    started = time.monotonic()
    view.close()
    assert time.monotonic() - started < 1.5
    gate.set()


def test_pain_ipywidgets_1345_old_views_close_when_many_are_opened(wire: Any) -> None:
    views = [View(page()) for _ in range(70)]
    assert [view.closed for view in views] == [True] * 6 + [False] * 64
    close_all()
    assert all(view.closed for view in views)


def test_work_runs_beside_the_caller_and_says_how_it_ended(wire: Any) -> None:
    view = View(page)
    gate = threading.Event()

    def work() -> str:
        gate.wait(10)
        return "It is up."

    assert view.run("starting alice", work)
    assert "Working: starting alice" in note(view)
    assert view.run("starting again", work) is False
    gate.set()
    until(lambda: "It is up." in note(view))
    view.changed()
    time.sleep(0.3)
    assert "It is up." in note(view), "an update took the outcome away"
    view.widget.children[1].children[0].children[0].click()
    assert "It is up." not in note(view)

    def fail() -> str:
        raise RightlabError("the token is refused", fix="Put in a new one.")

    assert view.run("starting", fail)
    until(lambda: "the token is refused" in note(view))
    assert "Put in a new one." in note(view)


def test_button_calls_its_work(wire: Any) -> None:
    view = View(page)
    pressed: list[int] = []
    button = view.button("Count", "Counts", lambda: pressed.append(1))
    button.click()
    assert pressed == [1]
    close_tree(button)


def test_confirm_writes_only_on_the_second_press(wire: Any) -> None:
    written: list[int] = []
    confirm = Confirm("Stop", "Stop alice?", lambda: written.append(1))
    ask, asked = confirm.widget.children
    _, cancel, yes = asked.children
    yes.click()
    assert written == []
    ask.click()
    assert confirm.asking
    assert "Stop alice?" in asked.children[0].value
    cancel.click()
    assert (confirm.asking, written) == (False, [])
    ask.click()
    yes.click()
    yes.click()
    assert (confirm.asking, written) == (False, [1])
    close_tree(confirm.widget)


def test_confirm_without_a_question_does_nothing(wire: Any) -> None:
    confirm = Confirm("Allow", lambda: None, lambda: pytest.fail("written"))
    confirm.widget.children[0].click()
    assert not confirm.asking
    close_tree(confirm.widget)


def test_throttle_covers_a_poke_during_its_work() -> None:
    runs: list[int] = []
    inside, go = threading.Event(), threading.Event()

    def work() -> None:
        runs.append(1)
        inside.set()
        go.wait(5)

    throttle = Throttle(work, hertz=100)
    throttle.poke()
    assert inside.wait(5)
    throttle.poke()
    throttle.poke()
    go.set()
    until(lambda: len(runs) == 2)
    time.sleep(0.05)
    assert len(runs) == 2
    throttle.close()
    throttle.poke()
    time.sleep(0.05)
    assert len(runs) == 2


class Shell:
    def __init__(self, kernel: object) -> None:
        self.kernel = kernel


def test_loading_registers_only_in_a_kernel_and_unloading_closes(wire: Any) -> None:
    from rightlab.html import base

    load(Shell(None))
    assert object not in base._widgets
    load(Shell(object()))
    load(Shell(object()))
    assert object in base._widgets
    view = View(page)
    assert set(page()._repr_mimebundle_()) == {"text/html", "text/plain"}
    unload()
    assert object not in base._widgets
    assert view.closed


def test_loading_is_cheap() -> None:
    code = (
        "import sys; import rightlab.views as v;"
        "v.load(type('S', (), {'kernel': 1})());"
        "heavy = ('ipywidgets', 'anywidget', 'pandas', 'rightlab.lab', 'rightlab.runtime');"
        "print([m for m in heavy if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_every_exported_name_exists() -> None:
    import rightlab.views as views

    assert all(hasattr(views, name) for name in views.__all__)
    assert json.dumps(sorted(views.__all__)) == json.dumps(views.__all__)
    register_widget(object, None)
