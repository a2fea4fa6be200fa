"""The scheduler with every neighbour under control: slots to runs, policies, deliveries."""

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from rightlab.cron import DeliveryResult, JobStore
from rightlab.errors import FencedOut, RunError
from rightlab.store import Store

HELLO = {"text": "Hello."}


def add(bench: Any, name: str = "j", schedule: str = "0 * * * *", **options: Any) -> Any:
    return bench.jobs.add(
        name, schedule=schedule, prompt="Hi", target_chat_id=7, target_thread_id=3, **options
    )


async def at(bench: Any, time: str) -> None:
    bench.clock.set(f"2026-06-01T{time}Z")
    await bench.tick()


async def test_a_slot_becomes_a_run_and_its_result_is_delivered(bench: Any) -> None:
    add(bench)
    await at(bench, "08:59:59")
    assert bench.launcher.started == []
    await at(bench, "09:00:02")
    await at(bench, "09:00:07")
    [process] = bench.launcher.started
    assert process.spec.run_dir == bench.root / "runs" / "j" / process.spec.run_id
    assert process.spec.env["RIGHTLAB_AGENT"] == "alice"
    [run] = bench.jobs.runs("j")
    assert (run.status, run.pid, run.origin, run.attempt) == ("running", process.pid, "schedule", 1)
    assert run.slot == datetime(2026, 6, 1, 9, tzinfo=UTC)
    process.end(deliver=HELLO, results={"n": 1}, run_note="did it", cost_usd=0.25, num_turns=3)
    await bench.settle()
    run = bench.jobs.run(run.id)
    assert (run.status, run.delivery_status, run.message_ids) == ("success", "delivered", (1,))
    assert (run.cost_usd, run.num_turns, run.run_note, dict(run.results)) == (0.25, 3, "did it", {"n": 1})
    assert bench.chat.sent[0][:2] == ("j", "Hello.")
    assert (bench.chat.sent[0][2].chat_id, bench.chat.sent[0][2].thread_id) == (7, 3)
    assert bench.story() == [("09:00", "done", None)]


async def test_the_run_folder_is_complete_and_its_input_immutable(bench: Any) -> None:
    add(bench, timezone="Europe/Berlin", model="haiku", max_budget_usd=1.5)
    await at(bench, "09:00:00")
    folder = bench.launcher.started[0].spec.run_dir
    assert folder.joinpath("input.ipynb").stat().st_mode & 0o222 == 0
    run = json.loads(folder.joinpath("run.json").read_text())
    assert (run["job"], run["slot"], run["attempt"]) == ("j", "2026-06-01T09:00:00.000000Z", 1)
    params = json.loads(folder.joinpath("params.json").read_text())["parameters"]
    assert params["scheduled_at"] == "2026-06-01T11:00:00+02:00"
    assert (params["prompt"], params["model"], params["budget"]) == ("Hi", "haiku", 1.5)


async def test_c26_overlap_is_skipped_with_a_reason(bench: Any) -> None:
    add(bench)
    await at(bench, "09:00:00")
    await at(bench, "10:00:00")
    [process] = bench.launcher.started
    assert bench.story()[1] == ("10:00", "skipped", f"overlap: run {process.spec.run_id} is still going on")
    process.end()
    await bench.settle()
    await at(bench, "11:00:00")
    assert len(bench.launcher.started) == 2


async def test_overlap_queue_keeps_one_waiting(bench: Any) -> None:
    add(bench, overlap="queue")
    for hour in ("09", "10", "11"):
        await at(bench, f"{hour}:00:00")
    assert [status for _, status, _ in bench.story()] == ["running", "skipped", "due"]
    bench.launcher.started[0].end()
    await bench.settle()
    await bench.tick()
    assert [status for _, status, _ in bench.story()] == ["done", "skipped", "running"]


async def test_overlap_replace_cancels_the_old_run(bench: Any) -> None:
    add(bench, overlap="replace")
    await at(bench, "09:00:00")
    await at(bench, "10:00:00")
    await bench.scheduler.wait(bench.jobs.runs()[0].id)
    await bench.tick()
    first, second = bench.launcher.started
    assert first.signals == ["15"]
    assert bench.jobs.run(first.spec.run_id).status == "cancelled"
    assert "replaced" in (bench.jobs.run(first.spec.run_id).reason or "")
    assert bench.jobs.run(second.spec.run_id).status == "running"


async def test_overlap_allow_runs_side_by_side(bench: Any) -> None:
    add(bench, overlap="allow")
    await at(bench, "09:00:00")
    await at(bench, "10:00:00")
    assert len(bench.scheduler.active) == 2


async def test_a_trigger_is_never_lost_to_a_running_job(bench: Any) -> None:
    """The reference loses it when the lock is fresh (spec agent-runtime 5.2)."""
    add(bench)
    await at(bench, "09:00:00")
    bench.jobs.trigger("j")
    await bench.tick()
    assert [status for _, status, _ in bench.story()] == ["running", "due"]
    bench.launcher.started[0].end()
    await bench.settle()
    await bench.tick()
    assert [(origin, status) for origin, status, _ in bench.story()] == [
        ("09:00", "done"),
        ("manual", "running"),
    ]
    bench.launcher.started[1].end()
    await bench.settle()
    await bench.tick()
    assert len(bench.launcher.started) == 2


async def test_a_trigger_made_while_nobody_runs_is_consumed_at_the_next_start(bench: Any) -> None:
    add(bench)
    bench.jobs.trigger("j", extra_instruction="Only the short form.", parameters={"x": 1})
    await bench.restart().tick()
    params = json.loads(bench.launcher.started[0].spec.run_dir.joinpath("params.json").read_text())[
        "parameters"
    ]
    assert (params["extra_instruction"], params["x"]) == ("Only the short form.", 1)


async def test_c32_a_forced_run_that_stays_silent_is_told(bench: Any) -> None:
    add(bench)
    bench.jobs.trigger("j", notify=True)
    await bench.tick()
    bench.launcher.started[0].end(silent="No new mail.")
    await bench.settle()
    assert bench.chat.sent[0][1] == "Verification run: nothing to report. No new mail."


async def test_pain_NB2369_silence_is_the_runs_own_word_and_failures_are_always_told(bench: Any) -> None:
    add(bench)
    bench.jobs.trigger("j")
    await bench.tick()
    bench.launcher.started[0].end(silent="Nothing new.")
    await bench.settle()
    run = bench.jobs.runs()[0]
    assert (run.delivery_status, run.delivery_required, run.delivery) == (
        "none",
        False,
        {"kind": "silent", "reason": "Nothing new."},
    )
    assert bench.chat.sent == []
    bench.jobs.trigger("j")
    await bench.tick()
    bench.launcher.started[1].end(status="failed", failure="notebook", reason="cell 2: KeyError: 'x'")
    await bench.settle()
    assert bench.chat.sent[0][1] == "✗ j failed: cell 2: KeyError: 'x'"


@pytest.mark.parametrize("failure", ["lost", "timeout", "infrastructure"])
async def test_one_more_attempt_only_for_what_may_pass(bench: Any, failure: str) -> None:
    add(bench)
    await at(bench, "09:00:00")
    bench.launcher.started[0].end(
        status="lost" if failure == "lost" else "failed", failure=failure, reason="x"
    )
    await bench.settle()
    assert bench.chat.sent == []
    await at(bench, "09:00:02")
    assert len(bench.launcher.started) == 1
    await at(bench, "09:00:06")
    assert len(bench.launcher.started) == 2
    assert bench.jobs.runs()[0].attempt == 2
    bench.launcher.started[1].end(status="failed", failure=failure, reason="x again")
    await bench.settle()
    await at(bench, "09:30:00")
    assert len(bench.launcher.started) == 2
    assert len(bench.chat.sent) == 1
    slots = bench.jobs.slots("j")
    assert [(slot.attempt, slot.origin, slot.status) for slot in slots] == [
        (2, "retry", "done"),
        (1, "schedule", "done"),
    ]


async def test_a_notebooks_own_failure_is_not_retried(bench: Any) -> None:
    add(bench)
    await at(bench, "09:00:00")
    bench.launcher.started[0].end(status="failed", failure="notebook", reason="x")
    await bench.settle()
    await at(bench, "09:50:00")
    assert len(bench.launcher.started) == 1


async def test_a_process_that_dies_without_a_word_is_lost(bench: Any) -> None:
    add(bench, retries=0)
    await at(bench, "09:00:00")
    bench.launcher.started[0].die(-9)
    await bench.settle()
    run = bench.jobs.runs()[0]
    assert (run.status, run.failure, run.exit_code) == ("lost", "lost", -9)
    assert "SIGKILL" in (run.reason or "")
    assert bench.chat.sent[0][1].startswith("✗ j was lost")


async def advance(bench: Any, seconds: float) -> None:
    await bench.clock.run_for(seconds, step=1)
    await asyncio.sleep(0.02)


@pytest.mark.parametrize(("stubborn", "signals"), [(0, ["2"]), (1, ["2", "15"]), (2, ["2", "15", "kill"])])
async def test_the_deadline_interrupts_then_terminates_then_kills(
    bench: Any, stubborn: int, signals: list[str]
) -> None:
    add(bench, deadline_seconds=60, retries=0)
    bench.launcher.stubborn = stubborn
    await at(bench, "09:00:00")
    await advance(bench, 59)
    assert bench.launcher.started[0].signals == []
    await advance(bench, 2 + 16 * min(stubborn, 1) + 6 * max(stubborn - 1, 0))
    await bench.settle()
    assert bench.launcher.started[0].signals == signals
    run = bench.jobs.runs()[0]
    assert (run.status, run.failure) == ("failed", "timeout")


async def test_cancel_asks_then_kills(bench: Any) -> None:
    add(bench)
    bench.launcher.stubborn = 9
    await at(bench, "09:00:00")
    run_id = bench.scheduler.active[0]
    assert bench.scheduler.cancel(run_id, "not needed")
    await advance(bench, 16)
    await bench.settle()
    run = bench.jobs.run(run_id)
    assert (run.status, run.reason) == ("cancelled", "not needed")
    assert bench.launcher.started[0].signals == ["15", "kill"]
    assert bench.chat.sent == []
    assert not bench.scheduler.cancel(run_id)


async def test_a_missing_notebook_blocks_its_job_and_says_so(bench: Any) -> None:
    path = bench.root / "n.ipynb"
    path.write_text("{}")
    bench.jobs.add("n", schedule="0 * * * *", notebook=path, target_chat_id=7)
    path.unlink()
    add(bench)
    await at(bench, "09:00:00")
    await bench.scheduler.idle() if not bench.scheduler.active else None
    run = bench.jobs.runs("n")[0]
    assert (run.status, run.failure) == ("failed", "blocked")
    assert "no such file" in (run.reason or "")
    assert len(bench.launcher.started) == 1


async def test_a_launcher_that_fails_is_infrastructure(bench: Any) -> None:
    add(bench, retries=0)
    bench.launcher.error = RunError("the run process does not start: no more processes")
    await at(bench, "09:00:00")
    await bench.settle()
    run = bench.jobs.runs()[0]
    assert (run.status, run.failure) == ("failed", "infrastructure")


async def test_pain_hermes7158_one_broken_job_does_not_hold_the_others(bench: Any) -> None:
    add(bench, "a-broken")
    add(bench, "b-good")
    bench.store.transact(
        lambda tx: tx.run("UPDATE cron_specs SET timezone = 'No/Where' WHERE job_name = 'a-broken'")
    )
    await at(bench, "09:00:00")
    assert [process.spec.job for process in bench.launcher.started] == ["b-good"]


async def test_pain_OC14743_delivered_means_a_message_id(bench: Any) -> None:
    add(bench)
    bench.chat.answers = [DeliveryResult("delivered", ())]
    bench.jobs.trigger("j")
    await bench.tick()
    bench.launcher.started[0].end(deliver=HELLO)
    await bench.settle()
    run = bench.jobs.runs()[0]
    assert (run.status, run.delivery_status, run.delivered_at) == ("success", "failed", None)
    assert "no message" in (run.last_delivery_error or "")


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (DeliveryResult("denied", error="chat not allowed"), "denied"),
        (DeliveryResult("failed", (5,), "part 2 refused"), "failed"),
        (RuntimeError("broke half way"), "failed"),
    ],
)
async def test_what_may_have_arrived_is_not_sent_twice(bench: Any, answer: Any, status: str) -> None:
    add(bench)
    bench.chat.answers = [answer]
    bench.jobs.trigger("j")
    await bench.tick()
    bench.launcher.started[0].end(deliver=HELLO)
    await bench.settle()
    assert bench.jobs.runs()[0].delivery_status == status
    bench.clock.advance(60)
    await bench.tick()
    await bench.settle()
    assert len(bench.chat.sent) == 1


async def test_an_unreached_chat_is_tried_three_times(bench: Any) -> None:
    add(bench)
    bench.chat.answers = [DeliveryResult("retryable", error="offline")] * 5
    bench.jobs.trigger("j")
    await bench.tick()
    bench.launcher.started[0].end(deliver=HELLO)
    await bench.settle()
    for _ in range(5):
        bench.clock.advance(31)
        await bench.tick()
        await bench.settle()
    run = bench.jobs.runs()[0]
    assert (run.delivery_status, run.delivery_attempts, len(bench.chat.sent)) == ("failed", 3, 3)


async def test_no_target_and_invalid_content_are_said(bench: Any) -> None:
    bench.jobs.add("j", schedule="0 * * * *", prompt="Hi")
    bench.jobs.trigger("j")
    await bench.tick()
    bench.launcher.started[0].end(deliver=HELLO)
    await bench.settle()
    assert bench.jobs.runs()[0].delivery_status == "no_target"
    add(bench, "k")
    bench.jobs.trigger("k")
    await bench.tick()
    bench.launcher.started[1].end(deliver={"text": ""})
    await bench.settle()
    run = bench.jobs.runs("k")[0]
    assert (run.status, run.delivery_status) == ("success", "failed")


async def test_pain_OC12018_a_stale_running_mark_does_not_block_the_job(bench: Any) -> None:
    """The owner died and so did the run: the next start says lost and tries again."""
    add(bench)
    await at(bench, "09:00:00")
    await bench.scheduler.close()
    scheduler = bench.restart()
    await scheduler.recover()
    run = bench.jobs.runs()[0]
    assert (run.status, run.failure) == ("lost", "lost")
    await at(bench, "09:00:06")
    assert len(bench.launcher.started) == 2
    assert bench.story() == [("09:00", "done", None), ("09:00", "running", "attempt 1 ended: lost")]


async def test_a_run_that_ended_while_nobody_watched_is_finished_not_repeated(bench: Any) -> None:
    add(bench)
    await at(bench, "09:00:00")
    await bench.scheduler.close()
    bench.launcher.started[0].end(deliver=HELLO)
    await bench.restart().recover()
    await bench.settle()
    await at(bench, "09:00:30")
    assert bench.jobs.runs()[0].delivery_status == "delivered"
    assert len(bench.launcher.started) == 1


async def test_a_result_not_sent_before_a_crash_is_sent_after_it(bench: Any) -> None:
    add(bench)
    await at(bench, "09:00:00")
    begun = asyncio.Event()

    async def never(*_: Any) -> DeliveryResult:
        begun.set()
        return await asyncio.Future()

    bench.scheduler._deliver_port = never
    bench.launcher.started[0].end(deliver=HELLO)
    async with asyncio.timeout(10):
        await begun.wait()
    await bench.scheduler.close()
    assert bench.jobs.runs()[0].delivery_status == "pending"
    await bench.restart().recover()
    await bench.settle()
    assert bench.jobs.runs()[0].delivery_status == "delivered"


async def test_a_clock_set_back_repeats_nothing_and_set_forward_catches_up_once(bench: Any) -> None:
    add(bench)
    await at(bench, "09:00:00")
    bench.launcher.started[0].end()
    await bench.settle()
    for time in ("08:30:00", "09:00:00", "09:59:59"):
        await at(bench, time)
    assert len(bench.launcher.started) == 1
    await at(bench, "13:10:00")
    assert [(slot, status) for slot, status, _ in bench.story()] == [
        ("09:00", "done"), ("10:00", "missed"), ("11:00", "missed"), ("12:00", "missed"), ("13:00", "running"),
    ]  # fmt: skip


async def test_a_full_catch_up_runs_slot_after_slot(bench: Any) -> None:
    add(bench, catchup="all")
    await at(bench, "11:10:00")
    for count in (1, 2, 3):
        assert len(bench.launcher.started) == count
        bench.launcher.started[-1].end()
        await bench.settle()
        await bench.tick()
    assert [(slot, status) for slot, status, _ in bench.story()] == [
        ("09:00", "done"), ("10:00", "done"), ("11:00", "done"),
    ]  # fmt: skip


async def test_a_one_time_job_is_gone_after_its_run(bench: Any) -> None:
    bench.jobs.add("once", run_at=datetime(2026, 6, 1, 9, tzinfo=UTC), prompt="Hi")
    await at(bench, "09:00:00")
    assert [job.name for job in bench.jobs.list()] == ["once"]
    bench.launcher.started[0].end()
    await bench.settle()
    assert bench.jobs.list() == []
    assert len(bench.jobs.runs("once")) == 1


async def test_no_more_runs_at_once_than_allowed(bench: Any) -> None:
    for number in range(6):
        add(bench, f"j{number}")
    bench.scheduler._max = 2
    await at(bench, "09:00:00")
    assert len(bench.launcher.started) == 2
    while len(bench.launcher.started) < 6:
        for process in bench.launcher.started:
            process.end()
        await bench.settle()
        await bench.tick()
    assert {status for _, status, _ in bench.story()} == {"done", "running"}


async def test_the_loop_sleeps_until_the_next_slot_and_stops_when_fenced_out(bench: Any) -> None:
    add(bench)
    owner = Store.open(bench.store.path, role="owner", clock=bench.clock)
    owner.take_fence()
    bench.jobs.store = bench.scheduler._rows._store = owner
    bench.clock.set("2026-06-01T08:59:58Z")
    task = asyncio.create_task(bench.scheduler.run())
    for _ in range(200):
        await asyncio.sleep(0.005)
        if bench.clock.sleepers:
            break
    await bench.clock.run_for(2.1, step=0.1)
    for _ in range(200):
        await asyncio.sleep(0.005)
        if bench.launcher.started:
            break
    assert len(bench.launcher.started) == 1
    other = Store.open(bench.store.path, role="owner", clock=bench.clock)
    other.take_fence()
    JobStore(other, bench.clock).trigger("j")
    bench.launcher.started[0].end()
    for _ in range(1000):
        bench.clock.advance(6)
        await asyncio.sleep(0.01)
        if task.done():
            break
    with pytest.raises(FencedOut):
        await task
    owner.close()
    other.close()
