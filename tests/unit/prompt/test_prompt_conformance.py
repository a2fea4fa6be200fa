"""The conformance tables of the seed's registry (spec prompt-registry 2.1-2.4), one test per row id.

Where a row departs, spec prompt-registry 6.4 says so.
"""

import pytest

from rightlab.errors import PromptError, TemplateError
from rightlab.prompt import (
    TOOL_ORDER_REST,
    AssembledContext,
    AssembledSection,
    Assembly,
    PromptRegistry,
    ToolProviderResult,
)


class Counter:
    def __init__(self):
        self.count = 0

    def __call__(self):
        self.count += 1


class RaisesOnce:
    def __init__(self):
        self.armed = True

    def __call__(self):
        if self.armed:
            self.armed = False
            raise RuntimeError("not now")


async def render(registry, context=None):
    return (await registry.assemble(context)).render()


# ---- 2.1 main suite


async def test_SP_01_persona_is_a_section_with_a_reserved_name():
    registry = PromptRegistry(persona="P")
    assembly = await registry.assemble()
    assert [(one.name, one.order) for one in assembly.sections] == [
        ("harness:identity", -100),
        ("deployment:persona", 0),
    ]
    identity = assembly.sections[0].text
    assert assembly.render() == f"{identity}\n\nP"
    with pytest.raises(PromptError) as caught:
        registry.section("deployment:persona", 0, "other")
    assert caught.value.code == "duplicate"


@pytest.mark.parametrize(
    "options", [{}, {"persona": ""}, {"tool_order": None}], ids=["SP-02", "SP-03", "none"]
)
async def test_SP_02_SP_03_identity_alone(options):
    assembly = await PromptRegistry(**options).assemble()
    assert assembly.render() == assembly.sections[0].text


async def test_SP_04_everything_together(tool):
    registry = PromptRegistry(persona="persona")
    registry.section("cwd", 20, lambda context: "in /w")
    registry.section("rules", 10, "rules")
    registry.tools(lambda context: ToolProviderResult([tool("echo", extra=1)]))
    assembly = await registry.assemble()
    assert [one.name for one in assembly.sections] == [
        "harness:identity",
        "deployment:persona",
        "rules",
        "cwd",
    ]
    assert assembly.tools == [tool("echo", extra=1)]
    assert assembly.variables == {}
    assert assembly.render().split("\n\n")[1:] == ["persona", "rules", "in /w"]


async def test_SP_05_a_callable_sees_each_assembly_s_own_context(registry):
    seen = []

    def text(context):
        seen.append(context)
        return str(context.get("who", "nobody"))

    registry.section("s", 1, text)
    first = {"who": "ann"}
    assert (await registry.assemble(first))["s"].text == "ann"
    assert (await registry.assemble())["s"].text == "nobody"
    assert len(seen) == 2
    assert seen[0] is first


async def test_SP_06_closing_a_plugin_takes_all_of_it_away(registry, tool):
    plugin = registry.plugin("extra")
    plugin.section("s", 1, "s")
    plugin.tools(lambda context: [tool("t")])
    plugin.variable("v", lambda context: "x")
    assert (await registry.assemble()).variables == {"v": "x"}
    plugin.close()
    assembly = await registry.assemble()
    assert [one.name for one in assembly.sections] == ["harness:identity", "deployment:persona"]
    assert assembly.tools == []
    assert assembly.variables == {}
    with pytest.raises(PromptError) as caught:
        plugin.section("again", 1, "")
    assert caught.value.code == "inactive"


async def test_SP_07_duplicate_section_leaves_the_first(registry, names):
    registry.section("dup", 1, "one")
    with pytest.raises(PromptError) as caught:
        registry.section("dup", 1, "two")
    assert caught.value.code == "duplicate"
    assembly = await registry.assemble()
    assert names(assembly) == ["dup"]
    assert assembly["dup"].text == "one"


@pytest.mark.parametrize("kind", ["SP-08", "SP-09", "SP-10"])
async def test_SP_08_SP_09_SP_10_a_raising_change_listener_vetoes(kind, registry, names, tool):
    def register():
        if kind == "SP-08":
            return registry.section("s", 1, "s")
        if kind == "SP-09":
            return registry.tools(lambda context: [tool("t")])
        return registry.variable("v", "x")

    listening = registry.on_change(RaisesOnce())
    heard = Counter()
    registry.on_change(heard)
    with pytest.raises(RuntimeError, match="not now"):
        register()
    assert heard.count == 2  # registered, taken back
    empty = await registry.assemble()
    assert (names(empty), empty.tools, empty.variables) == ([], [], {})
    listening.close()
    register()
    full = await registry.assemble()
    assert len(names(full)) + len(full.tools) + len(full.variables) == 1


async def test_SP_11_listeners_share_one_assembly_and_context(registry):
    seen = {}
    given = {"a": 1}

    async def first(assembly, context, following):
        seen["context"] = context
        assembly.sections.append(AssembledSection("late", "late text", order=-1000))
        return await following()

    def second(assembly, context, following):
        seen["names"] = [one.name for one in assembly.sections]
        return following()

    registry.on_assemble(first)
    registry.on_assemble(second)
    assembly = await registry.assemble(given)
    assert seen["context"] is given
    assert seen["names"][-1] == "late"
    assert assembly.sections[-1].name == "late"
    assert assembly.render().endswith("\n\nlate text")


async def test_SP_12_an_emptied_assembly_is_a_veto(registry):
    registry.on_assemble(lambda assembly, context, following: Assembly())
    assembly = await registry.assemble()
    assert assembly.sections == []
    assert assembly.render() == ""


async def test_SP_13_an_assembly_is_a_snapshot(registry):
    registry.section("s", 1, "text")
    schema = {"name": "t", "description": "d", "parameters": {"properties": {"a": {"type": "string"}}}}
    registry.tools(lambda context: [schema])
    first = await registry.assemble()
    first.sections[2].name = "x"
    first.sections[2].text = "x"
    first.tools[0]["description"] = "x"
    first.tools[0]["parameters"]["properties"]["a"]["type"] = "x"
    second = await registry.assemble()
    assert second["s"].text == "text"
    assert second.tools == [
        {"name": "t", "description": "d", "parameters": {"properties": {"a": {"type": "string"}}}}
    ]
    assert schema["parameters"]["properties"]["a"]["type"] == "string"


def test_SP_14_empty_sections_are_dropped():
    hand_made = Assembly(sections=[AssembledSection("a", ""), AssembledSection("b", "content")])
    assert hand_made.render() == "content"


def test_SP_15_a_tool_provider_announces_itself(registry):
    heard = Counter()
    registry.on_change(heard)
    registration = registry.tools(lambda context: [])
    assert heard.count == 1
    registration.close()
    registration.close()
    assert heard.count == 2


@pytest.mark.parametrize("through", ["SP-16", "SP-18"])
async def test_SP_16_SP_18_a_tool_provider_goes_away(through, registry, tool):
    plugin = registry.plugin("p")
    registration = plugin.tools(lambda context: [tool("t")])
    assert len((await registry.assemble()).tools) == 1
    (plugin if through == "SP-16" else registration).close()
    assert (await registry.assemble()).tools == []


async def test_SP_17_a_section_goes_away(registry, names):
    registration = registry.section("s", 1, "s")
    registration.close()
    assert names(await registry.assemble()) == []


async def test_SP_19_a_variable_without_a_value_keeps_its_key(registry):
    heard = Counter()
    registry.on_change(heard)
    registration = registry.variable("who", lambda context: context.get("who"))
    assert heard.count == 1
    assert (await registry.assemble({"who": "ann"})).variables == {"who": "ann"}
    assert (await registry.assemble()).variables == {"who": None}
    registration.close()
    assert heard.count == 2
    assert (await registry.assemble()).variables == {}


async def test_SP_20_variable_names_are_checked(registry):
    registry.variable("model", "m")
    with pytest.raises(PromptError) as caught:
        registry.variable("model", "n")
    assert caught.value.code == "duplicate"
    for name in ("Not Valid", "a\n", "", "é", "_a", "1a"):
        with pytest.raises(PromptError) as caught:
            registry.variable(name, "x")
        assert caught.value.code == "bad_name"
    assert (await registry.assemble()).variables == {"model": "m"}


async def test_SP_21_the_persona_is_a_template():
    registry = PromptRegistry(persona="{{model}} in {{cwd}}")
    registry.variable("model", "m")
    registry.variable("cwd", lambda context: "/w")
    assert (await render(registry)).endswith("m in /w")


async def test_SP_22_a_listener_may_set_variables(registry):
    registry.section("s", 1, "<{{extra}}>")

    def listener(assembly, context, following):
        assembly.variables["extra"] = "new"
        return following()

    registry.on_assemble(listener)
    assert (await render(registry)).endswith("<new>")


async def test_SP_23_an_unknown_reference_names_everything(registry):
    registry.section("persona", 1, "on {{modle}}", owner="the-owner")
    registry.variable("model", "m")
    assembly = await registry.assemble()
    with pytest.raises(TemplateError) as caught:
        assembly.render()
    error = caught.value
    assert (error.code, error.section, error.owner, error.offset) == ("unknown", "persona", "the-owner", 3)
    for word in ("modle", "persona", "model"):
        assert word in str(error)


@pytest.mark.parametrize(
    ("row", "variables", "text", "code", "words"),
    [
        ("SP-24", {}, "{{x}}", "unknown", ("none",)),
        ("SP-25", {"cwd": None}, "in {{cwd}}", "no_value", ("'s'",)),
        ("SP-26", {"model": "m"}, "on {{ model }}", "bad_name", ("'s'",)),
        ("SP-28a", {"model": "m"}, "{{{model}}}", "broken_open", ()),
        ("SP-28b", {"model": "m"}, "x {{a{b}} y {{model}}", "broken_open", ()),
        ("SP-29", {"model": "m"}, "on {{constructor}}", "unknown", ()),
        ("SP-29py", {"model": "m"}, "on {{__class__}}", "bad_name", ()),
        ("SP-29keys", {"model": "m"}, "on {{keys}}", "unknown", ()),
    ],
)
async def test_SP_24_to_SP_29_faults(row, variables, text, code, words, registry):
    for name, value in variables.items():
        registry.variable(name, value)
    registry.section("s", 1, text)
    with pytest.raises(TemplateError) as caught:
        await render(registry)
    assert caught.value.code == code
    assert all(word in str(caught.value) for word in words)


@pytest.mark.parametrize(
    ("row", "variables", "text", "expected"),
    [
        ("SP-27", {}, "shell ${X:-{{fallback} stays", "shell ${X:-{{fallback} stays"),
        ("SP-30", {"constructor": "own"}, "{{constructor}}", "own"),
        ("SP-31", {"model": "a {{sneaky}} b"}, "{{model}}", "a {{sneaky}} b"),
    ],
)
async def test_SP_27_SP_30_SP_31_text(row, variables, text, expected, registry):
    for name, value in variables.items():
        registry.variable(name, value)
    registry.section("s", 1, text)
    assert (await registry.assemble())["s"].rendered == expected


# ---- 2.2 scopes


async def test_SC_01_a_scope_s_persona_shadows_the_deployment_s():
    registry = PromptRegistry(persona="deployment")
    scope = registry.scope("s")
    scope.section("deployment:persona", 0, "mine")
    assert "mine" in await render(registry, {"scope": "s"})
    assert "deployment" not in await render(registry, {"scope": "s"})
    assert "mine" not in await render(registry)


async def test_SC_02_a_scope_s_section_lives_with_it(registry, names):
    scope = registry.scope(key := object())
    scope.section("extra", 50, "extra")
    assert names(await registry.assemble({"scope": key})) == ["extra"]
    assert names(await registry.assemble({"scope": scope})) == ["extra"]
    assert names(await registry.assemble({"scope": object()})) == []
    scope.close()
    assert names(await registry.assemble({"scope": key})) == []


def test_SC_03_the_two_duplicate_messages(registry):
    scope = registry.scope("s")
    for handle, words in ((registry, "through a scope"), (scope, "in this scope")):
        handle.section("d", 1, "")
        with pytest.raises(PromptError, match=words) as caught:
            handle.section("d", 1, "")
        assert str(caught.value).count("test_prompt_conformance.py:") == 2  # both registrations


async def test_SC_04_a_scope_s_variable_shadows():
    registry = PromptRegistry(persona="mode {{mode}}")
    registry.variable("mode", "normal")
    registry.scope("s").variable("mode", "strict")
    assert "mode strict" in await render(registry, {"scope": "s"})
    assert "mode normal" in await render(registry)


async def test_SC_05_a_closed_scope_leaves_nothing(registry):
    scope = registry.scope("s")
    scope.variable("v", "1")
    with pytest.raises(PromptError):
        scope.variable("v", "2")
    scope.close()
    registry.scope("s").variable("v", "3")
    assert (await registry.assemble({"scope": "s"})).variables == {"v": "3"}


async def test_SC_06_tool_providers_add_up(registry, tool):
    registry.tools(lambda context: [tool("b")])
    registry.scope("s").tools(lambda context: [tool("a")])
    assert [one.name for one in (await registry.assemble({"scope": "s"})).tools] == ["a", "b"]
    assert [one.name for one in (await registry.assemble()).tools] == ["b"]


async def test_SC_07_a_known_tool_may_be_absent(tool):
    good = PromptRegistry(tool_order=["bash", TOOL_ORDER_REST])
    bad = PromptRegistry(tool_order=["basj", TOOL_ORDER_REST])
    for registry in (good, bad):
        registry.tools(lambda context: {"schemas": [tool("read")], "known_names": ["read", "bash"]})
    assert [one.name for one in (await good.assemble()).tools] == ["read"]
    with pytest.raises(PromptError, match=r"basj.*bash, read"):
        await bad.assemble()


async def test_SC_08_a_scope_s_listener_hears_only_its_own(registry, names):
    calls = []

    async def listener(assembly, context, following):
        calls.append(context)
        assembly = await following()
        assembly.sections.append({"name": "added", "text": "x"})
        return assembly

    registry.scope("s").on_assemble(listener)
    assert names(await registry.assemble({"scope": "s"})) == ["added"]
    assert names(await registry.assemble({"scope": "other"})) == []
    assert names(await registry.assemble()) == []
    assert len(calls) == 1


# ---- 2.3 tool order


def test_TO_01_the_marker():
    assert TOOL_ORDER_REST == "<unlisted-tools>"


@pytest.mark.parametrize("turned", [False, True], ids=["TO-02", "TO-03"])
async def test_TO_02_TO_03_by_name_whatever_the_order_of_registration(turned, registry, tool):
    providers = [[tool("charlie"), tool("alpha")], [tool("bravo")]]
    for one in reversed(providers) if turned else providers:
        registry.tools(one)
    assert [one.name for one in (await registry.assemble()).tools] == ["alpha", "bravo", "charlie"]


async def test_TO_by_code_point(registry, tool):
    registry.tools([tool(name) for name in ["B", "a", "_", "Z", "b", "10", "9"]])
    assert [one.name for one in (await registry.assemble()).tools] == ["10", "9", "B", "Z", "_", "a", "b"]


async def test_TO_04_the_configured_order(tool):
    registry = PromptRegistry(tool_order=["todo_write", TOOL_ORDER_REST, "bash"])
    registry.tools([tool(name) for name in ("bash", "echo_b", "todo_write", "echo_a")])
    assert [one.name for one in (await registry.assemble()).tools] == [
        "todo_write",
        "echo_a",
        "echo_b",
        "bash",
    ]


async def test_TO_05_unknown_names_are_all_named(tool):
    registry = PromptRegistry(tool_order=["wraith", TOOL_ORDER_REST, "ghost"])
    registry.tools([tool("todo_write"), tool("bash")])
    with pytest.raises(
        PromptError, match=r"tools that do not exist: wraith, ghost \(known: bash, todo_write\)"
    ):
        await registry.assemble()


async def test_TO_06_no_tools_at_all():
    registry = PromptRegistry(tool_order=["ghost", TOOL_ORDER_REST])
    with pytest.raises(PromptError, match=r"a tool that does not exist: ghost \(known: none\)"):
        await registry.assemble()


@pytest.mark.parametrize("order", [None, [TOOL_ORDER_REST]], ids=["TO-07a", "TO-07b"])
async def test_TO_07_the_marker_is_no_tool(order, tool):
    registry = PromptRegistry(tool_order=order)
    registry.tools([tool(TOOL_ORDER_REST)])
    with pytest.raises(PromptError) as caught:
        await registry.assemble()
    assert caught.value.code == "reserved"


async def test_TO_07_the_marker_may_be_a_known_name(tool):
    registry = PromptRegistry()
    registry.tools({"schemas": [tool("a")], "known_names": ["a", TOOL_ORDER_REST]})
    assert [one.name for one in (await registry.assemble()).tools] == ["a"]


async def test_TO_08_equal_names_keep_their_order(registry, tool):
    registry.tools([tool("dup", n=1), tool("anchor"), tool("dup", n=2)])
    tools = (await registry.assemble()).tools
    assert [(one.name, one.get("n")) for one in tools] == [("anchor", None), ("dup", 1), ("dup", 2)]


async def test_TO_09_a_listener_s_tools_are_not_sorted(registry, tool):
    seen = []
    registry.tools([tool("zulu"), tool("alpha")])

    def listener(assembly, context, following):
        seen.extend(one.name for one in assembly.tools)
        assembly.tools.append(tool("aardvark"))
        return following()

    registry.on_assemble(listener)
    assembly = await registry.assemble()
    assert seen == ["alpha", "zulu"]
    assert [one.name for one in assembly.tools] == ["alpha", "zulu", "aardvark"]


@pytest.mark.parametrize(
    ("order", "words"),
    [
        ([], "needs the entry"),
        (["bash", "todo_write"], "needs the entry"),
        (["bash", "bash", TOOL_ORDER_REST], "more than once"),
        ([TOOL_ORDER_REST, TOOL_ORDER_REST], "more than once"),
        (["bash", "bash"], "more than once"),
        ([None, TOOL_ORDER_REST], "list of tool names"),
    ],
    ids=["TO-10a", "TO-10b", "TO-11a", "TO-11b", "repeat-first", "TO-12"],
)
def test_TO_10_to_TO_12_a_bad_order_is_refused_at_once(order, words):
    with pytest.raises(PromptError, match=words) as caught:
        PromptRegistry(tool_order=order)
    assert caught.value.code == "tool_order"


# ---- 2.4 contexts and complete sections


async def test_B_01_without_the_identity():
    assembly = await PromptRegistry(persona="P", identity=None).assemble()
    assert [one.name for one in assembly.sections] == ["deployment:persona"]
    assert assembly.render() == "P"


async def test_B_02_contexts_can_be_off():
    registry = PromptRegistry(include_contexts=False)
    called = []
    registry.context("c", 1, lambda context: called.append(1) or "x")

    def listener(assembly, context, following):
        assembly.contexts.append(AssembledContext("late", "late"))
        return following()

    registry.on_assemble(listener)
    assembly = await registry.assemble()
    assert assembly.contexts == []
    assert assembly.render_contexts() == ""
    assert called == []


async def test_B_03_contexts_in_order(registry):
    registry.context("b", 20, "second")
    registry.context("a", 10, "first")
    assembly = await registry.assemble()
    assert [one.name for one in assembly.contexts] == ["a", "b"]
    preamble, *bodies = assembly.render_contexts().split("\n\n")
    assert preamble
    assert bodies == ["first", "second"]


@pytest.mark.parametrize("order", [float("nan"), float("inf"), float("-inf"), True, "1", None])
@pytest.mark.parametrize("kind", ["section", "context"])
async def test_B_04_B_05_orders_are_finite(order, kind, registry, names):
    with pytest.raises(PromptError) as caught:
        getattr(registry, kind)("s", order, "x")
    assert caught.value.code == "order"
    assembly = await registry.assemble()
    assert (names(assembly), assembly.contexts) == ([], [])


async def test_B_05_duplicate_context(registry):
    registry.context("c", 1, "one")
    with pytest.raises(PromptError) as caught:
        registry.context("c", 1, "two")
    assert caught.value.code == "duplicate"
    assert [one.text for one in (await registry.assemble()).contexts] == ["one"]


async def test_B_06_a_provider_registered_meanwhile_waits(registry, tool):
    added = []

    def provider(context):
        if not added:
            added.append(registry.tools([tool("new")]))
        return [tool("old")]

    registry.tools(provider)
    assert [one.name for one in (await registry.assemble()).tools] == ["old"]
    assert [one.name for one in (await registry.assemble()).tools] == ["new", "old"]


async def test_B_07_a_variable_registered_meanwhile_counts(registry):
    def provider(context):
        if not registry._layers.peek(None).variables.get("second"):
            registry.variable("second", "2")
        return "1"

    registry.variable("first", provider)
    assert (await registry.assemble()).variables == {"first": "1", "second": "2"}


async def test_B_08_a_complete_section_is_the_whole_prompt(registry):
    registry.section("all", 5, "ALL {{who}}", complete=True)
    registry.section("other", 1, "other")
    registry.variable("who", "me")

    async def listener(assembly, context, following):
        assembly["all"].text = "changed"
        answer = await following()
        answer.sections.append(AssembledSection("late", "late"))
        return answer

    registry.on_assemble(listener, first=True)
    assembly = await registry.assemble()
    assert [(one.name, one.text) for one in assembly.sections] == [("all", "ALL {{who}}")]
    assert assembly.render() == "ALL me"


async def test_B_09_two_complete_sections(registry):
    registry.section("one", 1, "", complete=True)
    registry.section("two", 2, "", complete=True)
    with pytest.raises(PromptError, match="'one', 'two'") as caught:
        await registry.assemble()
    assert caught.value.code == "complete_conflict"


async def test_B_10_contexts_are_snapshots(registry):
    registry.context("c", 1, "text")
    (await registry.assemble()).contexts[0].text = "x"
    assert (await registry.assemble()).contexts[0].text == "text"


async def test_B_11_empty_and_interpolated_contexts(registry):
    registry.context("empty", 1, "")
    assert (await registry.assemble()).render_contexts() == ""
    registry.context("full", 2, "at {{hour}}")
    registry.variable("hour", "9")
    assert (await registry.assemble()).render_contexts().endswith("\n\nat 9")


async def test_B_12_a_context_s_fault_is_its_own(registry):
    registry.context("facts", 1, "{{missing}}")
    assembly = await registry.assemble()
    assembly.render()
    with pytest.raises(TemplateError, match="context 'facts'"):
        assembly.render_contexts()


def test_B_13_contexts_announce_themselves(registry):
    heard = Counter()
    registry.on_change(heard)
    registration = registry.context("c", 1, "")
    assert heard.count == 1
    registration.close()
    assert heard.count == 2


async def test_B_14_a_shadowed_section_is_not_called(registry):
    calls = []
    registry.section("s", 1, lambda context: calls.append("global") or "g")
    registry.scope("k").section("s", 1, lambda context: calls.append("scoped") or "s")
    assert (await registry.assemble({"scope": "k"}))["s"].text == "s"
    assert calls == ["scoped"]


async def test_B_15_a_variable_that_replaces_itself(registry):
    scope = registry.scope("k")
    held = []

    def provider(context):
        held[0].close()
        scope.variable("v", "next")
        return "now"

    held.append(scope.variable("v", provider))
    assert (await registry.assemble({"scope": "k"})).variables == {"v": "now"}
    assert (await registry.assemble({"scope": "k"})).variables == {"v": "next"}


async def test_B_16_scoped_contexts(registry):
    registry.context("c", 1, "global")
    scope = registry.scope("k")
    scope.context("c", 1, "scoped")
    with pytest.raises(PromptError, match="in this scope"):
        scope.context("c", 1, "again")
    assert (await registry.assemble({"scope": "k"})).contexts[0].text == "scoped"
    scope.close()
    assert (await registry.assemble({"scope": "k"})).contexts[0].text == "global"


async def test_B_17_a_scope_without_contexts(registry):
    registry.context("c", 1, "x")
    registration = registry.scope("k").suppress_contexts()
    assert (await registry.assemble({"scope": "k"})).contexts == []
    assert len((await registry.assemble()).contexts) == 1
    registration.close()
    assert len((await registry.assemble({"scope": "k"})).contexts) == 1


async def test_B_18_a_scope_s_tools_leave_no_residue(registry, tool):
    scope = registry.scope("k")
    scope.tools([tool("a")]).close()
    assert registry._layers.peek("k") is None
    scope.tools([tool("b")])
    assert [one.name for one in (await registry.assemble({"scope": "k"})).tools] == ["b"]


async def test_B_19_a_plugin_takes_its_contexts_along(registry):
    with registry.plugin("p") as plugin:
        plugin.context("c", 1, "x")
        assert len((await registry.assemble()).contexts) == 1
    assert (await registry.assemble()).contexts == []


async def test_BI_1_a_well_formed_result_is_taken(registry, tool):
    made = Assembly([AssembledSection("a", "A")], [tool("t")], {"v": None}, [AssembledContext("c", "C")])
    registry.on_assemble(lambda assembly, context, following: made)
    assert (await registry.assemble()) is made


@pytest.mark.parametrize(
    ("row", "change", "code", "words"),
    [
        ("BI-2", lambda a: a.sections.append(AssembledSection("", "x")), "bad_name", "section"),
        (
            "BI-3",
            lambda a: a.sections.append(AssembledSection("harness:identity", "x")),
            "duplicate",
            "harness",
        ),
        ("BI-4", lambda a: a.sections.append(AssembledSection("s", 5)), "bad_text", "'s'"),
        ("BI-5", lambda a: a.contexts.append(AssembledContext("", "x")), "bad_name", "context"),
        ("BI-6", lambda a: a.contexts.extend([AssembledContext("c", "")] * 2), "duplicate", "'c'"),
        ("BI-7", lambda a: a.contexts.append(AssembledContext("c", None)), "bad_text", "'c'"),
        ("BI-8", lambda a: a.tools.append({"name": ""}), "bad_tools", "tool"),
        ("BI-9", lambda a: a.variables.update({"Not": "x"}), "bad_name", "'Not'"),
        ("BI-10", lambda a: a.variables.update({"n": 5}), "bad_value", "'n'"),
    ],
)
async def test_BI_2_to_BI_10_a_malformed_result_is_refused(row, change, code, words, registry):
    def listener(assembly, context, following):
        change(assembly)
        return following()

    registry.on_assemble(listener)
    with pytest.raises(PromptError, match=words) as caught:
        await registry.assemble()
    assert caught.value.code == code
