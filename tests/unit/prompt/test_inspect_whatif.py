"""The cache reckoning, what-if, stability and calibration over recorded traffic."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightlab.claude.scripted_usage import CacheSimulator
from rightlab.errors import UsageError
from rightlab.prompt.inspect import (
    UNCALIBRATED,
    Cache,
    Stability,
    WhatIf,
    calibrate,
    section_stability,
    stability_of,
    suggest_order,
    trace,
)
from rightlab.testing import FrozenClock
from rightlab.usage import price

START = datetime(2026, 11, 30, 10, tzinfo=UTC)
BASE = "You are an agent. " * 400
RULES = "## Rules\n" + "Never do that. " * 300


def at(minutes):
    return (START + timedelta(minutes=minutes)).isoformat()


@pytest.fixture
def traffic(make_request, outline):
    """Turns of one conversation from texts of the section ``soul``, in the middle of two stable ones."""

    def make(souls, every=1.0, **facts):
        said, traces = [], []
        for number, soul in enumerate(souls):
            said.append(f"message {number} " * 20)
            sections = {"base": BASE, "soul": f"## Soul\n{soul}", "rules": RULES}
            request = make_request(list(sections.values()), list(said), at=at(number * every), **facts)
            listed = outline({"soul": "SOUL.md"}, **sections)
            traces.append(trace(request, listed, scope="chat 1", label=f"turn {number + 1}"))
        return traces

    return make


# ---- the reckoning


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["kind " * 1500, "mean " * 1500, "short"]),
            st.integers(1, 3),
            st.sampled_from(["5m", "1h"]),
            st.sampled_from([0.5, 4.0, 20.0, 70.0]),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_the_reckoning_agrees_with_the_scripted_model_s_cache(steps):
    """Two programs for one set of rules: what one reads, writes or pays in full, the other does too."""
    from rightlab.claude.request_blocks import iter_blocks

    class Request:
        def __init__(self, body, moment):
            self.json, self.at = body, moment.isoformat()
            self.blocks = tuple(iter_blocks(body))
            self.model, self.usage, self.scripted, self.session_id = "m", None, True, None

    clock = FrozenClock(START)
    simulator, cache = CacheSimulator(clock), Cache()
    for text, lines, kept, minutes in steps:
        control = {"type": "ephemeral", "ttl": kept}
        said = [{"type": "text", "text": f"line {n}"} for n in range(lines)]
        said[-1]["cache_control"] = control
        body = {
            "model": "m",
            "tools": [{"name": "Bash", "description": "runs " * 400}],
            "system": [{"type": "text", "text": text, "cache_control": control}],
            "messages": [{"role": "user", "content": said}],
        }
        theirs = simulator.charge(body, 1)
        laid_out = trace(Request(body, clock.now()))
        # Same counts for both: theirs come from the canonical JSON.
        same = [
            type(block)(
                block.kind, block.path, block.role, block.name, block.data, other.tokens, block.breakpoint
            )
            for block, other in zip(laid_out.blocks, iter_blocks(body), strict=True)
        ]
        from dataclasses import replace

        ours = cache.charge(replace(laid_out, blocks=tuple(same)))
        assert (ours.read, ours.write_5m, ours.write_1h) == (
            theirs.cache_read,
            theirs.cache_write_5m,
            theirs.cache_write_1h,
        )
        assert ours.tokens == simulator.count(body)
        clock.advance(minutes * 60)


def test_an_entry_lives_from_its_last_use(traffic):
    cache = Cache()
    reads = [cache.charge(one).read for one in traffic(["kind"] * 4, every=4)]
    assert reads[0] == 0
    assert all(read > 1024 for read in reads[1:])
    late = Cache()
    assert [late.charge(one).read for one in traffic(["kind"] * 3, every=6)] == [0, 0, 0]


def test_a_prefix_of_less_than_1024_tokens_is_not_cached(make_request):
    cache = Cache()
    readings = [cache.charge(trace(make_request("short", ["a"] * n, at=at(n)))) for n in (1, 2)]
    assert [(one.read, one.write_5m) for one in readings] == [(0, 0), (0, 0)]
    assert readings[1].full == readings[1].tokens


def test_equal_prompts_are_the_same_however_they_were_cut(make_request, outline):
    """A request that lost its list of sections still continues the prefix of one that has it."""
    sections = {"base": BASE, "soul": "## Soul\nkind"}
    cache = Cache()
    cache.charge(trace(make_request(list(sections.values())), outline(**sections)))
    bare = trace(make_request(list(sections.values()), at=at(1)))
    assert cache.charge(bare).same == bare.tokens


# ---- stability


def test_pain_HPR2530_an_ephemeral_section_has_no_stability(traffic):
    """pains H PR#2530, H#27339: one text that is new in every turn, and nothing is read again."""
    found = section_stability(traffic([f"now it is {n}" for n in range(10)]))
    assert found["soul"] == Stability(10, 1)
    assert found["base"].share == found["rules"].share == 1.0


def test_conversations_are_compared_with_themselves():
    turns = [(chat, {"conversation": chat, "soul": soul}) for chat, soul in zip("abab", "1122", strict=True)]
    assert stability_of(turns) == {"conversation": Stability(4, 4), "soul": Stability(4, 2)}


def test_a_section_that_came_changed_once():
    assert stability_of([("a", {}), ("a", {}), ("a", {"soul": 1}), ("a", {"soul": 1})])["soul"] == Stability(
        4, 3
    )


# ---- what if


def test_moving_the_volatile_behind_the_stable_lengthens_the_prefix(traffic):
    what_if = WhatIf.over(traffic([f"turn {n}" for n in range(6)]), price=price)
    assert what_if.order == ("base", "soul", "rules")
    found = what_if.move("soul").forecast()
    assert found.now.same_share == pytest.approx(0.61, abs=0.05)
    assert found.then.same_share > 0.99
    # To the API the prompt is one block: order inside it is not what decides there.
    assert found.then.read == pytest.approx(found.now.read, abs=20)
    tail = what_if.to_tail("soul").forecast()
    assert tail.then.read > 2 * found.now.read + 1024
    assert tail.saved_usd > 0
    assert tail.then.tokens == pytest.approx(tail.now.tokens, abs=20)
    assert "soul moved out of the system prompt" in tail.page().text()


def test_an_edit_keeps_the_prompt_equal(traffic):
    what_if = WhatIf.over(traffic([f"turn {n}" for n in range(4)]), price=price).edit("soul", "## Soul\nkind")
    found = what_if.forecast()
    assert found.then.same_share == 1.0
    assert found.then.read > found.now.read
    once = what_if.next_turn()
    assert once.name == "soul"
    assert once.tokens_rewritten > 1024
    assert once.cost_usd > 0


def test_dropping_a_section_saves_its_tokens(traffic):
    found = WhatIf.over(traffic(["kind"] * 3)).drop("rules").forecast()
    assert found.now.tokens - found.then.tokens == pytest.approx(3 * len(RULES) / 3.8, rel=0.02)


def test_the_order_suggested_has_what_changes_last(traffic):
    what_if = WhatIf.over(traffic([f"turn {n}" for n in range(6)]))
    suggested = suggest_order(what_if)
    assert suggested.order == ("base", "rules", "soul")
    assert suggested.forecast().then.same_share >= suggested.forecast().now.same_share
    assert suggest_order(suggested.__class__.over(traffic(["kind"] * 3))).changes == ()


@given(st.lists(st.lists(st.sampled_from("abcd"), min_size=4, max_size=4), min_size=2, max_size=7))
def test_no_order_has_a_longer_stable_prefix_when_sections_change_alone(turns):
    """Sections that each go their own way: behind the first that changed nothing is the same."""
    from itertools import permutations

    from rightlab.prompt.inspect.trace import Slice, Trace, TracedBlock

    # Section k may only change in turns where all sections before it in "wildness" changed too.
    texts = []
    state = [0, 0, 0, 0]
    for letters in turns:
        wild = 4 - "abcd".index(letters[0])
        state = [value + (index >= wild) for index, value in enumerate(state)]
        texts.append([f"{index}:{value}".ljust(100, "x") for index, value in enumerate(state)])
    traces = []
    for number, parts in enumerate(texts):
        shuffled = [parts[index] for index in (3, 1, 0, 2)]
        data = "\n\n".join(shuffled).encode()
        slices = tuple(
            Slice(part[0], "", index * 102, index * 102 + 100, True) for index, part in enumerate(shuffled)
        )
        block = TracedBlock("system", "system[0]", "system", "system[0]", data, 400, None, slices)
        traces.append(Trace((block,), START + timedelta(minutes=number), "m", scope="x", prompt=0))
    what_if = WhatIf.over(traces)
    best = max(what_if.reorder(order).forecast().then.system_same for order in permutations("0123"))
    found = suggest_order(what_if).forecast().then.system_same
    assert found >= best - 4  # shares of tokens are rounded


def test_what_is_not_recorded_cannot_be_moved(traffic):
    what_if = WhatIf.over(traffic(["kind"]))
    for call in (lambda: what_if.move("sole"), lambda: what_if.move("soul", before="sole")):
        with pytest.raises(UsageError, match="sole"):
            call()
    with pytest.raises(UsageError, match="not both"):
        what_if.move("soul", before="base", after="rules")
    assert what_if.move("soul", before="base").order == ("soul", "base", "rules")
    assert what_if.move("soul", after="rules").order == ("base", "rules", "soul")


def test_nothing_recorded():
    empty = WhatIf.over([])
    assert "Nothing is recorded yet" in empty.forecast().page().text()
    assert not empty.next_turn()
    assert suggest_order(empty).order == ()


def test_requests_without_sections_stay_as_they_were(make_request, traffic):
    bare = [trace(make_request("other " * 3000, at=at(9)))]
    found = WhatIf.over([*traffic(["a", "b"]), *bare]).move("soul").forecast()
    assert found.mapped == 2
    assert "its sections being unknown: 1 request" in found.page().text()


# ---- calibration


def test_estimates_are_held_against_the_bill(make_request):
    requests = [
        make_request("word " * size, usage={"input_tokens": 3, "cache_read_input_tokens": size})
        for size in (2000, 3000, 4000)
    ]
    found = calibrate(requests)
    total = sum(trace(one).tokens for one in requests)
    assert found.factor == pytest.approx((9000 + 9) / total)
    assert found.n == 3
    assert found.off < 0.05
    assert "calibrated to billed usage of 3 requests" in found.method
    assert found(total) == pytest.approx(9009, abs=1)


def test_a_script_bills_nobody(make_request):
    usage = {"input_tokens": 500}
    requests = [make_request("word " * 2000, usage=usage, scripted=True) for _ in range(5)]
    assert calibrate(requests) == UNCALIBRATED
    assert "scripted figures" in calibrate(requests, scripted=True).method
    assert calibrate(requests, scripted=True).scripted


def test_two_answers_are_too_few(make_request):
    assert calibrate([make_request("w", usage={"input_tokens": 9})] * 2) == UNCALIBRATED
    assert "plain estimates" in UNCALIBRATED.page().text()
