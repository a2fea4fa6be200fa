"""Where the registry is stricter or kinder than its model (spec prompt-registry 6.4), and what goes wrong."""

import asyncio
import gc
import itertools
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rightlab.errors import PromptError
from rightlab.prompt import Assembly, PromptRegistry


def order(registry, context=None):
    return [one.name for one in registry.assemble_now(context).sections if one.name not in BUILT_IN]


BUILT_IN = ("harness:identity", "deployment:persona")


def test_ties_go_by_name_and_a_shadow_by_its_own_order(registry):
    for name in ("b", "a", "Z"):
        registry.section(name, 5, name)
    scope = registry.scope("s")
    scope.section("c", 5, "c")
    scope.section("b", 5, "b2")
    scope.section("a", -500, "a2")
    assert order(registry) == ["Z", "a", "b"]
    assert next(one.name for one in registry.assemble_now({"scope": "s"}).sections) == "a"
    assert order(registry, {"scope": "s"}) == ["a", "Z", "b", "c"]


REGISTRATIONS = (
    lambda r: r.section("a", 1, "A {{v}}"),
    lambda r: r.section("b", 1, "B {{w}}"),
    lambda r: r.section("c", 9, "C", before="a"),
    lambda r: r.section("d", 9, "D", after="a"),
    lambda r: r.section("e", 8, "E", after="d"),
    lambda r: r.variable("v", "1"),
    lambda r: r.variable("w", "2"),
    lambda r: r.context("x", 1, "X"),
    lambda r: r.context("y", 1, "Y"),
    lambda r: r.tools([{"name": "t2"}, {"name": "t1"}]),
    lambda r: r.tools([{"name": "t0"}]),
    lambda r: r.scope("s").section("a", 1, "scoped"),
)


@settings(max_examples=80)
@given(st.permutations(REGISTRATIONS), st.sampled_from([None, "s"]))
def test_the_same_registrations_in_any_order_give_the_same_bytes(turned, scope):
    def made(registrations):
        registry = PromptRegistry()
        for register in registrations:
            register(registry)
        assembly = registry.assemble_now({"scope": scope})
        return assembly.render(), assembly.render_contexts(), assembly.tools

    assert made(turned) == made(REGISTRATIONS)


def test_the_sections_joined_are_the_prompt(registry):
    for name, text in (("a", "one\n"), ("b", ""), ("c", " "), ("d", "\ntwo")):
        registry.section(name, 1, text, literal=True)
    assembly = registry.assemble_now()
    parts = assembly.parts()
    assert b"\n\n".join(part.data for part in parts) == assembly.render_bytes()
    document = assembly.to_json()
    assert sum(one["bytes"] for one in document["sections"]) + 2 * (len(parts) - 1) == document["bytes"]
    assert document["text"] == assembly.render()
    assert set(document["sections"][0]) == {
        "name",
        "order",
        "owner",
        "bytes",
        "tokens",
        "sha256",
        "stability",
    }
    assert {"mode", "bytes", "tokens", "sha256", "sections", "problems", "text"} <= set(document)


def test_literal_text_is_never_interpolated(registry):
    data = "docker {{.Server}} {{{x}}} {{unknown}}"
    registry.section("d", 1, data, literal=True)
    registry.context("c", 1, data, literal=True)
    registry.tools([{"name": "t", "description": data}])
    assembly = registry.assemble_now()
    assert assembly["d"].rendered == data
    assert assembly.render_contexts().endswith(data)
    assert assembly.tools[0].description == data


# ---- anchors


def test_anchors_place_beside_a_name(registry):
    registry.section("a", 10, "")
    registry.section("b", 20, "")
    registry.section("after-a-2", 2, "", after="a")
    registry.section("after-a-1", 1, "", after="a")
    registry.section("before-a", 99, "", before="a")
    registry.section("chained", 0, "", after="after-a-2")
    registry.section("last", 0, "", after="deployment:persona", before="b")
    names = [one.name for one in registry.assemble_now().sections]
    assert names[2:] == ["last", "before-a", "a", "after-a-1", "after-a-2", "chained", "b"]
    assert registry.assemble_now()["chained"].order == 10


def test_cycles_are_reported_by_name(registry):
    registry.section("a", 1, "", after="c")
    registry.section("b", 2, "", after="a")
    registry.section("c", 3, "", before="b")
    registry.section("hanger", 3, "", after="b")
    with pytest.raises(PromptError, match=r"in a circle: a, b, c") as caught:
        registry.assemble_now()
    assert caught.value.code == "anchor_cycle"
    problems = registry.check()
    assert {one.section for one in problems} == {"a", "b", "c"}
    with pytest.raises(PromptError) as caught:
        registry.section("self", 1, "", after="self")
    assert caught.value.code == "anchor_cycle"


def test_an_unknown_anchor_falls_back_to_the_number(registry):
    registry.section("x", 5, "x", after="gone")
    assembly = registry.assemble_now()
    assert assembly.sections[-1].name == "x"
    assert [(one.code, one.section) for one in assembly.problems] == [("anchor_unknown", "x")]


def test_contradicting_anchors(registry):
    registry.section("a", 1, "")
    registry.section("b", 2, "")
    registry.section("x", 0, "", after="b", before="a")
    with pytest.raises(PromptError) as caught:
        registry.assemble_now()
    assert (caught.value.code, caught.value.section) == ("anchor_conflict", "x")


def test_a_thousand_chained_anchors_do_not_recurse(registry):
    registry.section("s0", 1, "")
    for n in range(1, 3000):
        registry.section(f"s{n}", 1, "", after=f"s{n - 1}")
    assert order(registry) == [f"s{n}" for n in range(3000)]


# ---- waterfall


async def test_next_works_once(registry):
    async def listener(assembly, context, following):
        await following()
        return await following()

    registry.on_assemble(listener, owner="greedy")
    with pytest.raises(PromptError, match="next") as caught:
        await registry.assemble()
    assert (caught.value.code, caught.value.owner) == ("next_twice", "greedy")


@pytest.mark.parametrize(
    ("result", "code"),
    [(None, "listener_empty"), ("text", "listener_empty"), (ValueError("boom"), "listener_failed")],
)
@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_bad_listener_is_named(result, code, asynchronous, registry):
    def listener(assembly, context, following):
        if isinstance(result, Exception):
            raise result
        return result

    async def later(assembly, context, following):
        return listener(assembly, context, following)

    registry.on_assemble(later if asynchronous else listener, owner="bad one")
    with pytest.raises(PromptError, match="listener") as caught:
        await registry.assemble()
    assert (caught.value.code, caught.value.owner) == (code, "bad one")


@pytest.mark.parametrize("when", ["before", "after", "never"])
async def test_an_optional_listener_that_fails_is_passed_over(when, registry, names):
    async def bad(assembly, context, following):
        if when == "before":
            raise ValueError("boom")
        if when == "after":
            await following()
        return None

    def inner(assembly, context, following):
        assembly.sections.append({"name": "inner", "text": "x"})
        return following()

    registry.on_assemble(bad, required=False, owner="bad")
    registry.on_assemble(inner)
    assembly = await registry.assemble()
    assert names(assembly) == ["inner"]
    assert [one.owner for one in assembly.problems] == ["bad"]


async def test_a_listener_that_hangs_is_named(registry):
    async def hang(assembly, context, following):
        await asyncio.sleep(60)

    registry.on_assemble(hang, owner="sleepy")
    with pytest.raises(PromptError, match="sleepy") as caught:
        await registry.assemble(timeout=0.05)
    assert caught.value.code == "timeout"


async def test_cancelling_is_not_swallowed(registry):
    started = asyncio.Event()

    async def hang(assembly, context, following):
        started.set()
        await asyncio.sleep(60)

    registry.on_assemble(hang, required=False)
    task = asyncio.create_task(registry.assemble())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_outermost_wins_and_first_puts_one_outermost(registry):
    log = []

    def named(name):
        async def listener(assembly, context, following):
            log.append(name)
            inner = await following()
            return Assembly(inner.sections, variables={**inner.variables, name: str(len(inner.variables))})

        return listener

    registry.on_assemble(named("a"))
    registry.on_assemble(named("b"))
    registry.on_assemble(named("c"), first=True)
    assembly = await registry.assemble()
    assert log == ["c", "a", "b"]
    assert assembly.variables == {"b": "0", "a": "1", "c": "2"}


async def test_a_registration_made_meanwhile_waits_for_the_next_assembly(registry, names):
    async def listener(assembly, context, following):
        if not names(assembly):
            registry.section("late", 1, "x")
        return await following()

    registry.on_assemble(listener)
    assert names(await registry.assemble()) == []
    assert names(await registry.assemble()) == ["late"]


# ---- one contributor can never brick every agent


def broken(context):
    raise ZeroDivisionError("by zero")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (broken, "provider_failed"),
        (lambda c: None, "bad_text"),
        (lambda c: 5, "bad_text"),
        ("{{gone}}", "unknown"),
    ],
)
def test_an_optional_section_is_dropped_and_recorded(text, code, registry):
    registry.section("bad", 1, text, required=False, owner="somebody")
    registry.section("good", 2, "good")
    assembly = registry.assemble_now()
    assert assembly.render().endswith("good")
    assert [(one.code, one.section, one.owner) for one in assembly.problems] == [(code, "bad", "somebody")]
    assert assembly.to_json()["problems"][0]["section"] == "bad"


def test_a_required_section_fails_with_a_message_for_people(registry):
    registry.section("bad", 1, broken, owner="somebody")
    with pytest.raises(PromptError, match=r"section 'bad' of somebody failed: ZeroDivisionError: by zero"):
        registry.assemble_now()


async def test_an_async_provider_is_refused_without_a_warning(registry, recwarn):
    async def text(context):
        return "x"

    registry.section("s", 1, text)
    with pytest.raises(PromptError) as caught:
        await registry.assemble()
    assert caught.value.code == "bad_text"
    gc.collect()
    assert not recwarn.list


def test_a_shadowed_variable_that_fails_is_only_recorded(registry):
    registry.variable("v", broken, owner="old")
    scope = registry.scope("s")
    scope.variable("v", "new")
    assembly = registry.assemble_now({"scope": "s"})
    assert assembly.variables == {"v": "new"}
    assert [one.owner for one in assembly.problems] == ["old"]
    with pytest.raises(PromptError, match="variable 'v' of old failed"):
        registry.assemble_now()


def test_variables_are_text(registry):
    registry.variable("n", lambda context: 5)
    with pytest.raises(PromptError, match="int") as caught:
        registry.assemble_now()
    assert caught.value.code == "bad_value"


def test_check_reports_everything_at_once(registry):
    registry.section("unknown", 1, "{{gone}}")
    registry.section("broken", 2, broken)
    registry.section("open", 3, "{{{x}}}")
    registry.section("anchored", 4, "", after="nowhere")
    registry.context("facts", 1, "{{ bad }}")
    registry.variable("n", lambda context: 5)
    registry.tools(lambda context: "nonsense")
    registry.on_assemble(lambda assembly, context, following: None)
    codes = sorted(one.code for one in registry.check({"mode": "normal"}))
    sections = ["unknown", "provider_failed", "broken_open", "anchor_unknown"]
    assert codes == sorted([*sections, "bad_name", "bad_value", "bad_tools", "listener_empty"])


async def test_check_works_inside_a_running_loop_and_can_be_awaited(registry):
    async def listener(assembly, context, following):
        await asyncio.sleep(0)
        return await following()

    registry.on_assemble(listener)
    assert registry.check() == []
    assert await registry.check() == []


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../b", "a//b", "a/", "", "a\nb", "./a", "."])
def test_files_stay_below_the_root(path, registry):
    with pytest.raises(PromptError) as caught:
        registry.section("f", 1, "", file=path)
    assert caught.value.code == "bad_path"


def test_invalid_utf8_is_noted_once_and_passed_on(registry, tmp_path):
    (tmp_path / "F.md").write_bytes(b"a\xff\xfeb")
    registry.section("f", 1, "## F", file="F.md")
    assembly = registry.assemble_now({"root": tmp_path})
    assert assembly.render().endswith("## F\na\ufffd\ufffdb")
    assert assembly.render_bytes().endswith(b"## F\na\xff\xfeb")
    assert assembly["f"].bytes == len(b"## F\na\xff\xfeb")
    assert [(one.code, one.severity) for one in assembly.problems] == [("invalid_utf8", "note")]


def test_lone_surrogates_do_not_stop_a_turn(registry):
    registry.section("s", 1, "a\ud800b", literal=True)
    assert registry.assemble_now().render().endswith("a\ufffdb")


# ---- scopes and handles


def test_two_handles_of_one_scope_close_only_their_own(registry):
    one, two = registry.scope("k"), registry.scope("k")
    one.section("a", 1, "")
    two.section("b", 1, "")
    with pytest.raises(PromptError):
        two.section("a", 1, "")
    one.close()
    one.close()
    assert order(registry, {"scope": "k"}) == ["b"]


def test_a_nested_scope_sees_only_its_own_layer_and_ends_with_the_outer(registry):
    outer = registry.scope("outer")
    outer.section("a", 1, "")
    inner = outer.scope("inner")
    inner.section("b", 1, "")
    assert order(registry, {"scope": "inner"}) == ["b"]
    outer.close()
    assert inner.closed
    assert order(registry, {"scope": "inner"}) == []
    assert len(registry._layers) == 1


def test_a_scope_needs_a_key(registry):
    with pytest.raises(PromptError):
        registry.scope(None)


async def test_a_scope_s_listener_that_hears_everything(registry):
    heard = []

    def listener(assembly, context, following):
        heard.append(context)
        return following()

    registry.scope("k").on_assemble(listener, every=True)
    await registry.assemble()
    await registry.assemble({"scope": "other"})
    assert len(heard) == 2


def test_a_context_may_be_any_object(registry):
    class Context:
        scope = "k"
        mode = "normal"

    registry.scope("k").section("s", 1, lambda context: type(context).__name__)
    assembly = registry.assemble_now(Context())
    assert assembly["s"].text == "Context"
    assert assembly.mode == "normal"


def test_empty_names_and_wrong_texts_are_refused(registry):
    for call in (lambda: registry.section("", 1, "x"), lambda: registry.context("", 1, "x")):
        with pytest.raises(PromptError) as caught:
            call()
        assert caught.value.code == "bad_name"
    with pytest.raises(PromptError) as caught:
        registry.section("s", 1, 5)
    assert caught.value.code == "bad_text"


def test_ten_thousand_assemblies_do_not_grow(registry):
    registry.section("s", 1, "{{v}}")
    registry.variable("v", lambda context: "x")
    registry.on_assemble(lambda assembly, context, following: following())

    async def many(count):
        for _ in itertools.repeat(None, count):
            (await registry.assemble({"scope": "none"})).render()

    asyncio.run(many(200))
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    asyncio.run(many(2_000))
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 50_000
    assert len(registry._layers) == 1


# ---- a provider that blocks


@pytest.fixture
def blocker(monkeypatch):
    """A provider that does not return until the test ends, and a registry that waits 0.2 s for it."""
    import threading

    monkeypatch.setattr("rightlab.prompt.registry.BLOCKED_SECONDS", 0.2)
    monkeypatch.setattr("rightlab.prompt.build.BLOCKED_SECONDS", 0.2)
    released = threading.Event()
    calls = []

    def block(context):
        calls.append(context)
        released.wait(20)
        return "late"

    block.calls, block.release = calls, released.set
    yield block
    released.set()


async def test_a_blocking_provider_holds_up_nobody_else(registry, blocker):
    """Bad input: the loop goes on, an optional section is dropped with a recorded problem."""
    import time

    registry.section("slow", 10, blocker, required=False, owner="somebody")
    registry.section("fine", 20, "fine")
    ticks = []

    async def tick():
        while True:
            ticks.append(time.monotonic())
            await asyncio.sleep(0.01)

    ticking = asyncio.create_task(tick())
    assembly = await registry.assemble()
    ticking.cancel()
    assert len(ticks) > 10
    assert assembly.render().endswith("\n\nfine")
    (problem,) = assembly.problems
    assert (problem.code, problem.section, problem.owner) == ("timeout", "slow", "somebody")
    assert "has not come back within 0.2 s" in problem.message
    # It is not called again while it blocks, and costs no time any more.
    began = time.monotonic()
    assert len((await registry.assemble()).problems) == 1
    assert time.monotonic() - began < 0.15
    assert len(blocker.calls) == 1
    blocker.release()
    for _ in range(100):
        if not any(thread.is_alive() for thread in registry._stuck.values()):
            break
        await asyncio.sleep(0.01)
    assert (await registry.assemble()).render().endswith("late\n\nfine")


async def test_a_blocking_required_provider_fails_the_assembly_by_name(registry, blocker):
    registry.variable("slow", blocker, owner="somebody")
    with pytest.raises(PromptError, match="variable 'slow' of somebody has not come back") as caught:
        await registry.assemble()
    assert caught.value.code == "timeout"
    assert [one.code for one in registry.check()] == ["timeout"]


async def test_providers_see_the_task_s_context_variables(registry):
    import contextvars

    where = contextvars.ContextVar("where", default="nowhere")
    where.set("here")
    registry.section("place", 10, lambda context: where.get())
    assert (await registry.assemble()).render().endswith("here")


async def test_scopes_that_come_and_go_leave_nothing(registry):
    """A scope per turn or variant, for as long as the process lives; its handle is let go of as well."""
    for number in range(50):
        with registry.scope(("turn", number)) as scope:
            scope.section("extra", 10, "x")
            await registry.assemble({"scope": scope})
        registry.plugin("somebody").close()
    assert len(registry._own) < 6
    assert len(registry._layers) == 1
