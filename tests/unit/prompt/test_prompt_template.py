"""The scanner: the shared case file, and properties over any text (spec prompt-registry 1.7)."""

import json
import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightlab.errors import PromptError, TemplateError
from rightlab.prompt import join_sections, render_template

CASES = json.loads(Path(__file__).with_name("interpolation-cases.json").read_text("utf-8"))
BRACY = st.lists(
    st.sampled_from(["{", "}", "{{", "}}", "a", "b_1", "A", " ", "\n", "{{a}}", "{{b_1}}", "é"])
).map("".join)


@pytest.mark.parametrize("case", CASES["interpolation"], ids=lambda case: case["case"])
def test_interpolation_case(case):
    expected = case["expect"]
    if "ok" in expected:
        assert render_template(case["text"], case["variables"]) == expected["ok"]
        return
    with pytest.raises(TemplateError) as caught:
        render_template(case["text"], case["variables"])
    assert caught.value.code == expected["error"]
    assert case["text"][caught.value.offset :].startswith("{{")
    assert case["text"][caught.value.offset :].startswith(caught.value.excerpt)


@pytest.mark.parametrize("case", CASES["joins"], ids=lambda case: case["case"])
def test_join_case(case):
    assert join_sections(case["sections"]) == case["ok"]


def slow(text, variables):
    """The rules of the spec, character by character."""
    out, i = "", 0
    while i < len(text):
        if not text.startswith("{{", i):
            out, i = out + text[i], i + 1
            continue
        j = i + 2
        while j < len(text) and text[j] not in "{}":
            j += 1
        if text.startswith("}}", j):
            name = text[i + 2 : j]
            if not re.fullmatch("[a-z][a-z0-9_]*", name, re.ASCII):
                return "bad_name", i
            if name not in variables:
                return "unknown", i
            if variables[name] is None:
                return "no_value", i
            out, i = out + variables[name], j + 2
        elif "}}" in text[i + 2 :]:
            return "broken_open", i
        else:
            out, i = out + "{{", i + 2
    return out, None


@given(BRACY, st.dictionaries(st.sampled_from(["a", "b_1"]), st.none() | BRACY))
def test_the_scanner_equals_the_slow_one(text, variables):
    try:
        result = render_template(text, variables), None
    except TemplateError as error:
        result = error.code, error.offset
    assert result == slow(text, variables)


@given(st.text())
def test_text_without_double_braces_is_untouched(text):
    text = text.replace("{{", "{ {")
    assert render_template(text, {}) == text


@pytest.mark.parametrize("text", ["{{" * 200_000, "{{a" * 200_000, "}}" * 200_000, "{" * 400_000])
def test_scanning_is_linear(text):
    started = time.perf_counter()
    assert render_template(text, {}) == text
    assert time.perf_counter() - started < 1


def test_values_must_be_text():
    with pytest.raises(PromptError) as caught:
        render_template("{{n}}", {"n": 5})
    assert caught.value.code == "bad_value"
