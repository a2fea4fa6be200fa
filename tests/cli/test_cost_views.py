"""What notebook 03 shows of a ledger: trend, plots with their tables, dearest turns (spec views 03)."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import rightlab
from rightlab.errors import UsageError
from rightlab.home import Home
from rightlab.lab import Lab
from rightlab.runtime.setup import make_agent
from rightlab.testing.ledger import fill_ledger, usage_values

NOW = datetime.now(UTC)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    home = Home.resolve(tmp_path / "home")
    agent = make_agent(home, "alice", bootstrap=False, overrides={"gateway.upstream": "scripted:builtin"})
    fill_ledger(
        agent.db_path,
        [
            *(
                usage_values(
                    NOW - timedelta(days=day, seconds=turn), 0.01 * (1 + turn), turn_id=f"{day}-{turn}"
                )
                for day in range(6, 0, -1)
                for turn in range(25, 0, -1)
            ),
            usage_values(NOW - timedelta(days=2, hours=1), 30.0, source="cron", run_id="dear-run"),
            usage_values(NOW, None),
        ],
    )
    return rightlab.open("alice", home=home.path)


def test_the_trend_has_a_row_per_day_and_says_what_stands_out(lab: Lab) -> None:
    trend = lab.trend(days=7, source=None)
    frame = trend.to_frame()
    assert list(frame["n"])[-1] == 1
    assert frame["p50"].notna().sum() == 6
    assert 0.8 < frame["cache_hit_ratio"].iloc[0] < 1
    (spike,) = trend.spikes
    assert spike.cost_usd > 30
    assert "times the median day" in trend.text()
    assert lab.trend(days=7).spikes == ()
    with pytest.raises(UsageError):
        lab.trend(source="everyone")


def test_every_plot_has_its_table_in_html_and_text(lab: Lab) -> None:
    trend = lab.trend(days=7, source=None)
    for plot, caption in ((trend.ribbon(), "By day"), (trend.river(), "Cost by day and source")):
        bundle = plot._repr_mimebundle_()
        assert caption in bundle["text/plain"]
        assert caption in bundle["text/html"]
        assert "<script" not in bundle["text/html"]
        (chart,) = (data for mime, data in bundle.items() if mime.startswith("application/vnd.vegalite.v"))
        assert chart["$schema"].startswith("https://vega.github.io/schema/vega-lite/")


def test_the_dearest_say_why_or_that_nobody_knows(lab: Lab) -> None:
    found = lab.dearest(n=3, days=30)
    assert found.turns[0].row.run_id == "dear-run"
    assert found.turns[0].cause == "no turn of a chat"
    assert found.turns[1].cause == "the first turn of its session"
    assert found.turns[2].cause == "not recorded"
    assert found.n == 152
    assert "Dearest turns and why" in found.text()
    assert len(found.to_frame()) == 3
    with pytest.raises(UsageError):
        lab.dearest(n=0)


def test_the_engine_of_an_agent_caches_in_the_home(lab: Lab) -> None:
    with lab.engine() as engine:
        answer = engine.percentiles("source", min_sample=1)
        assert dict(zip(answer.keys, answer.n.tolist(), strict=True)) == {("cron",): 1, ("interactive",): 151}
        assert engine.sql("SELECT count(*) FROM usage").column(0).to_pylist() == [152]
    assert (lab.home / "cache/usage/alice/segments.json").is_file()


def test_an_empty_ledger_is_no_error(lab: Lab, tmp_path: Path) -> None:
    agent = make_agent(
        Home.resolve(lab.home), "bob", bootstrap=False, overrides={"gateway.upstream": "scripted:builtin"}
    )
    fill_ledger(agent.db_path, [usage_values(NOW - timedelta(days=300))])
    bob = rightlab.open("bob", home=lab.home)
    assert "Nothing ran in it." in bob.trend().text()
    assert bob.trend().ribbon()._repr_mimebundle_()
    assert bob.dearest().turns == ()
    assert bob.baseline().cost_usd is None
