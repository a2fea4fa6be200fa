"""The first place where two requests part, its cause in words and its price (pains 7)."""

import pytest

from rightlab.prompt.inspect import UNKNOWN_CAUSE, first_divergence, trace
from rightlab.usage import price

BASE = "You are an agent. " * 400
SOUL = "## Soul\nkind, and today is {day}\nto the end"
TAIL = "## Rules\n" + "Never do that. " * 300


def prompt(day="2026-11-30", soul=SOUL, tail=TAIL):
    return {"base": BASE, "soul": soul.format(day=day), "tail": tail}


@pytest.fixture
def pair(make_request, outline):
    """Two requests from two mappings of sections, traced with their lists."""

    def make(one, other, *, say=("hello",), say_b=None, **facts):
        owners = {"soul": "SOUL.md"}
        return [
            trace(
                make_request(list(sections.values()), lines, **more),
                outline(owners, **sections),
                label=label,
            )
            for sections, lines, label, more in (
                (one, say, "turn 40", {}),
                (other, say_b or say, "turn 41", facts),
            )
        ]

    return make


def test_a_date_in_a_file(pair):
    a, b = pair(prompt(), prompt("2026-12-01"))
    found = first_divergence(a, b, price=price)
    assert found.kind == "section"
    assert found.cause == "date in SOUL.md"
    assert (found.name, found.number, found.owner) == ("soul", 2, "SOUL.md")
    assert b.system.data[found.byte : found.byte + 4] == b"2-01"
    assert a.system.data[: found.byte] == b.system.data[: found.byte]
    assert found.section_byte == found.byte - len(BASE) - 2
    assert "2026-11-30" in found.before
    assert "2026-12-01" in found.after
    # The prompt is one block to the API: all of it is written again, and what stands behind it.
    assert found.tokens_rewritten > b.system.tokens > found.tokens_behind > 0
    assert found.cost_usd == pytest.approx(found.tokens_rewritten * (2.50 - 0.10) / 1e6)
    assert "section 2 (soul)" in found.sentence
    assert "turn 40" in found.page().html()


@pytest.mark.parametrize(
    ("before", "after", "cause"),
    [
        ("at 10:15 all was well", "at 10:16 all was well", "clock in SOUL.md"),
        ("at 2026-11-30T10:15:00Z", "at 2026-12-01T09:15:01Z", "clock in SOUL.md"),
        ("now 1796074054", "now 1796074057", "clock in SOUL.md"),
        ("on 30 November 2026", "on 1 December 2026", "date in SOUL.md"),
        (
            "id 3f2b1c9a-0000-4000-8000-000000000001",
            "id 3f2b1c9a-0000-4000-8000-0000000000ff",
            "uuid in SOUL.md",
        ),
        ("run 3f2b1c9ad001", "run 3f2b1c9ad0fe", "identifier in SOUL.md"),
        ("message 41 of many", "message 42 of many", "counter in SOUL.md"),
        ("turn 9, 2026-11-30", "turn 10, 2026-12-01", "date and counter in SOUL.md"),
        ("be kind", "be terse", "SOUL.md was edited"),
        ("on 2026-11-30 be kind", "on 2026-12-01 be terse", "SOUL.md was edited"),
    ],
)
def test_causes_in_words(pair, before, after, cause):
    a, b = pair(prompt(soul=f"## Soul\n{before}"), prompt(soul=f"## Soul\n{after}"))
    assert first_divergence(a, b).cause == cause


def test_a_volatile_line_is_the_cause_although_more_changed_below(pair):
    a, b = pair(prompt(soul="## Soul\nit is 10:15\nkind"), prompt(soul="## Soul\nit is 10:16\nterse"))
    assert first_divergence(a, b).cause == "clock in SOUL.md"


def test_text_of_a_module_is_named_by_its_section(pair):
    a, b = pair(prompt(tail="## Rules\nno"), prompt(tail="## Rules\nyes"))
    assert first_divergence(a, b).cause == "text of section tail changed"


@pytest.mark.parametrize(
    ("one", "other", "cause", "name"),
    [
        ({"a": "1"}, {"a": "1", "b": "2"}, "section b added", "b"),
        ({"a": "1", "b": "2"}, {"a": "1"}, "section b removed", "b"),
        ({"a": "1", "b": "2", "c": "3"}, {"a": "1", "c": "3"}, "section b removed", "b"),
        ({"a": "1", "c": "3"}, {"a": "1", "b": "2", "c": "3"}, "section b added", "b"),
        ({"a": "1", "b": "2"}, {"b": "2", "a": "1"}, "section order", "b"),
    ],
)
def test_sections_that_come_go_and_move(pair, one, other, cause, name):
    found = first_divergence(*pair(one, other))
    assert (found.kind, found.cause, found.name) == ("section", cause, name)


def test_a_prompt_without_a_list_is_a_block_and_the_cause_unknown(make_request):
    found = first_divergence(make_request("be kind"), make_request("be terse"))
    assert (found.kind, found.path, found.cause) == ("system", "system[1]", UNKNOWN_CAUSE)
    assert found.byte == 3


# ---- tools


def test_pain_OC143017_the_order_of_the_tool_list(make_request):
    found = first_divergence(
        make_request("p", tools=["Bash", "Read", "Write"]), make_request("p", tools=["Bash", "Write", "Read"])
    )
    assert (found.kind, found.cause, found.number) == ("tool", "tool list order", 2)
    assert (found.before, found.after) == ("Read", "Write")


def test_tools_of_a_server_that_did_not_answer(make_request):
    """spec platform B: a failed server drops its tools, silently."""
    names = ["Bash", "mcp__right__send", "mcp__right__list", "mcp__other__x"]
    found = first_divergence(
        make_request("p", tools=names), make_request("p", tools=["Bash", "mcp__other__x"])
    )
    assert found.cause == "tools of MCP server right removed (2)"
    back = first_divergence(
        make_request("p", tools=["Bash", "mcp__other__x"]), make_request("p", tools=names)
    )
    assert back.cause == "tools of MCP server right added (2)"


def test_one_tool_added_at_the_end(make_request):
    found = first_divergence(make_request("p", tools=["Bash"]), make_request("p", tools=["Bash", "Read"]))
    assert (found.cause, found.after, found.before) == ("tool added: Read", "Read", "(end of the list)")


def test_a_tool_whose_description_tells_the_time(make_request):
    def tools(time):
        return [{"name": "Bash", "description": f"Runs it. Updated {time}.", "input_schema": {}}]

    found = first_divergence(make_request("p", tools=tools("10:15")), make_request("p", tools=tools("10:16")))
    assert found.cause == "clock in the description of tool Bash"
    other = first_divergence(make_request("p", tools=tools("10:15")), make_request("p", tools=tools("never")))
    assert other.cause == "definition of tool Bash changed"


# ---- messages


def test_going_on_where_the_other_ended_is_no_divergence(make_request):
    found = first_divergence(make_request("p", ["a"]), make_request("p", ["a", "b", "c"]), price=price)
    assert not found
    assert (found.tokens_rewritten, found.cost_usd) == (0, 0.0)


def test_pain_CC43657_a_block_that_moves(make_request):
    a = make_request("p", ["a list of skills", "hello"])
    b = make_request("p", ["hello", "a list of skills", "more"])
    found = first_divergence(a, b)
    assert found.kind == "message"
    assert found.cause == "a block moved from messages[0].content[0] to messages[1].content[0]"


def test_history_that_was_rewritten_is_unknown(make_request):
    found = first_divergence(make_request("p", ["one", "two"]), make_request("p", ["one", "2", "three"]))
    assert (found.kind, found.cause, found.number) == ("message", UNKNOWN_CAUSE, 2)


def test_another_conversation_is_said_to_be_one(make_request):
    found = first_divergence(make_request("p", ["one"]), make_request("p", ["uno"], session_id="two"))
    assert found.cause == "another conversation"


def test_another_model_has_another_cache(make_request):
    found = first_divergence(make_request("p"), make_request("p", model="claude-opus-5-5"), price=price)
    assert found.kind == "model"
    assert found.tokens_rewritten == found.tokens_behind > 0


# ---- the bill against the bytes


def long(make_request, **facts):
    return make_request("stable " * 3000, ["a", "b"], **facts)


def test_pain_OC144250_a_broken_cache_without_a_difference_is_unknown(make_request):
    a = make_request("stable " * 3000, ["a"])
    b = long(make_request, at="2026-11-30T10:01:00Z", usage={"cache_read_input_tokens": 0})
    found = first_divergence(a, b, price=price)
    assert (found.kind, found.cause) == ("cache", UNKNOWN_CAUSE)
    assert found.tokens_rewritten > 1024
    assert "yet the cache was not read" in found.sentence


def test_an_expired_entry_is_told(make_request):
    a = make_request("stable " * 3000, ["a"])
    b = long(make_request, at="2026-11-30T10:07:00Z", usage={"cache_read_input_tokens": 0})
    assert first_divergence(a, b).cause == "kept for 5 min, asked for again after 7 min"
    hour = make_request("stable " * 3000, ["a"], kept="1h")
    late = long(make_request, kept="1h", at="2026-11-30T10:07:00Z", usage={"cache_read_input_tokens": 0})
    assert first_divergence(hour, late).cause == UNKNOWN_CAUSE


def test_reading_about_what_was_expected_is_no_fault(make_request):
    a = make_request("stable " * 3000, ["a"])
    b = long(make_request, at="2026-11-30T10:01:00Z", usage={"cache_read_input_tokens": 4000})
    assert not first_divergence(a, b)


def test_too_little_to_be_cached_is_no_fault(make_request):
    b = make_request("short", ["a", "b"], at="2026-11-30T10:01:00Z", usage={"cache_read_input_tokens": 0})
    assert not first_divergence(make_request("short", ["a"]), b)


def test_pain_CC47261_both_times_to_live_are_shown(make_request):
    """pains CC#47261: written for 5 minutes, then for 1 hour."""
    found = first_divergence(make_request("p", ["a"]), make_request("p", ["a", "b"], kept="1h"))
    assert "kept for 5m before, 1h now: both writes are paid" in found.page().text()


def test_an_unknown_price_is_unknown(make_request):
    a, b = (make_request(text * 3000, model="somebody-else-1") for text in ("kind ", "mean "))
    found = first_divergence(a, b, price=price)
    assert found.cost_usd is None
    assert "price unknown" in found.sentence


def test_a_calibration_scales_the_tokens(make_request):
    a, b = make_request("be kind " * 2000), make_request("be mean " * 2000)
    one, twice = first_divergence(a, b, price=price), first_divergence(a, b, price=price, factor=2.0)
    assert twice.tokens_rewritten == pytest.approx(2 * one.tokens_rewritten, abs=2)
    assert twice.cost_usd == pytest.approx(2 * one.cost_usd, rel=0.01)
