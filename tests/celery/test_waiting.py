"""Which tasks wait in oncue, until when, and how they are revoked or sent again."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from celery import chain, chord, group, signals
from celery.beat import Scheduler as Beat
from celery.exceptions import TaskRevokedError
from celery.schedules import schedule

from oncue.clock import FakeClock
from oncue.core.errors import Conflict, InvalidInput
from oncue.core.lifecycle import State
from oncue.integrations.celery import install
from tests.celery.conftest import OpenShop
from tests.celery.shop import DAY, Shop, ids, pollers
from tests.stores.kinds import KINDS, SHARDS, store_maker


@pytest.mark.parametrize("threshold", [900, 60])
def test_only_what_is_beyond_the_threshold_is_captured(threshold: int, shop: Shop) -> None:
    shop.install(threshold=threshold)
    shop.add.delay(1)
    shop.add.apply_async([2], countdown=threshold)
    shop.add.apply_async([3], eta=shop.in_seconds(threshold))
    shop.add.apply_async([4], eta=shop.in_seconds(threshold).isoformat())
    assert shop.jobs() == []
    assert len(shop.arrived()) == 4
    shop.add.apply_async([5], countdown=threshold + 1)
    shop.add.apply_async([6], eta=shop.in_seconds(threshold + 1))
    shop.add.apply_async([7], eta=shop.in_seconds(threshold + 1).isoformat())
    shop.app.send_task("shop.add", [8], countdown=threshold + 1)
    shop.app.send_task("shop.add", [9], {}, threshold + 1, None, "task-9")
    assert len(shop.jobs()) == 5
    assert shop.arrived() == []


def test_a_task_is_published_when_it_is_due_and_not_before(shop: Shop) -> None:
    shop.install()
    result = shop.add.apply_async([1, 2], countdown=DAY + 0.5)
    shop.pass_seconds(DAY)
    assert shop.arrived() == []
    shop.pass_seconds(0.5)
    assert ids(shop.arrived()) == [result.id]
    shop.pass_seconds(DAY)
    assert shop.arrived() == []


def test_tasks_are_published_in_the_order_of_their_time(shop: Shop) -> None:
    shop.install()
    for name, late in {"third": 3, "second": 2, "first": 1}.items():
        shop.add.apply_async([1], countdown=DAY + late, task_id=name)
    shop.pass_seconds(DAY + 3)
    assert ids(shop.arrived()) == ["first", "second", "third"]


def test_an_eta_that_is_not_a_time_is_left_to_celery(shop: Shop) -> None:
    shop.install()
    shop.add.apply_async([1], eta="tomorrow")
    assert [message["headers"]["eta"] for message in shop.arrived()] == ["tomorrow"]
    with pytest.raises(AttributeError, match="isoformat"):
        shop.add.apply_async([1], eta=17)
    assert shop.jobs() == []


def test_a_naive_eta_means_utc_as_in_a_worker(shop: Shop) -> None:
    shop.install()
    shop.add.apply_async([1], eta=shop.in_seconds(DAY).replace(tzinfo=None))
    [job] = shop.jobs()
    assert job.due_at == shop.in_seconds(DAY)


def test_the_eta_of_a_countdown_has_the_time_zone_of_the_application(open_shop: OpenShop) -> None:
    shop = open_shop(timezone="Europe/Paris")
    shop.install()
    shop.add.apply_async([1], countdown=DAY)
    [job] = shop.jobs()
    assert job.due_at == shop.in_seconds(DAY)
    assert job.payload["headers"]["eta"] == "2027-01-16T09:00:00+01:00"


@pytest.mark.parametrize(
    ("days", "eta"), [(90, "2027-04-15T10:00:00+02:00"), (300, "2027-11-11T09:00:00+01:00")]
)
def test_a_countdown_is_as_long_when_clocks_are_changed(
    days: int, eta: str, open_shop: OpenShop
) -> None:
    shop = open_shop(timezone="Europe/Paris")
    shop.install()
    shop.add.apply_async([1], countdown=days * DAY)
    [job] = shop.jobs()
    assert job.due_at == shop.in_seconds(days * DAY)
    assert job.payload["headers"]["eta"] == eta


def test_signals_tell_of_a_captured_task_and_may_change_it(shop: Shop) -> None:
    shop.install()
    after: list[Any] = []

    def before_publish(headers: dict[str, Any], **_: Any) -> None:
        if headers["task"] == "shop.add":
            assert headers["eta"] == shop.in_seconds(DAY).isoformat()
            headers["seen"] = "yes"
            shop.app.send_task("shop.other", countdown=10)  # sent meanwhile, it goes its own way

    def after_publish(headers: dict[str, Any], **_: Any) -> None:
        after.append(headers["task"])

    signals.before_task_publish.connect(before_publish)
    signals.after_task_publish.connect(after_publish)
    try:
        shop.add.apply_async([1], countdown=DAY)
    finally:
        signals.before_task_publish.disconnect(before_publish)
        signals.after_task_publish.disconnect(after_publish)
    assert after == ["shop.other", "shop.add"]
    assert [job.payload["headers"]["seen"] for job in shop.jobs()] == ["yes"]
    assert [one["headers"]["task"] for one in shop.arrived()] == ["shop.other"]


def test_monitors_are_told_even_if_that_fails(
    shop: Shop, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.app.conf.task_send_sent_event = True
    told: list[Any] = []

    def publish(producer: Any, body: Any, **_: Any) -> None:
        told.append(body)
        raise ConnectionResetError

    shop.install()
    monkeypatch.setattr("kombu.messaging.Producer.publish", publish)
    shop.add.apply_async([1], countdown=DAY)
    assert [event["eta"] for event in told] == [shop.in_seconds(DAY).isoformat()]
    assert "no event tells of a captured task: ConnectionResetError" in caplog.text
    assert len(shop.jobs()) == 1


def test_groups_and_chains_wait_as_a_whole(shop: Shop) -> None:
    shop.install()
    group(shop.add.s(1), shop.add.s(2)).apply_async(countdown=DAY)
    chain(shop.add.s(3), shop.add.s(4)).apply_async(countdown=DAY)
    assert len(shop.jobs()) == 3
    shop.pass_seconds(DAY)
    assert len(shop.arrived()) == 3


def test_beat_sends_tasks_that_wait(shop: Shop) -> None:
    shop.install()
    beat = Beat(app=shop.app, lazy=True)
    every = schedule(timedelta(seconds=1), app=shop.app)
    entry = beat.Entry(
        "nightly", "shop.add", schedule=every, options={"countdown": DAY}, app=shop.app
    )
    beat.apply_async(entry, advance=False)
    assert len(shop.jobs()) == 1


def test_a_task_that_is_sent_again_replaces_the_one_that_waits(shop: Shop) -> None:
    shop.install()
    shop.add.apply_async([1], countdown=DAY, task_id="task-1")
    shop.add.apply_async([2], countdown=2 * DAY, task_id="task-1")
    shop.pass_seconds(DAY)
    assert shop.arrived() == []
    shop.pass_seconds(DAY)
    [message] = shop.arrived()
    assert message["headers"]["argsrepr"] == "[2]"


def test_a_task_may_be_sent_again_while_its_message_is_being_published(shop: Shop) -> None:
    """A worker may be done with it, and retry it, before the poller knows that it is published."""
    patient = shop.install()
    shop.add.apply_async([1], countdown=DAY, task_id="task-1")
    shop.clock.advance(DAY)
    queue = shop.cue.queue("celery")
    now = shop.clock.now()
    claim = shop.cue.store.claim_range(queue, "poller", 10, now, lease_seconds=60.0)
    shop.add.apply_async([1], countdown=DAY, task_id="task-1", retries=1)
    assert patient.cancel("task-1")
    shop.add.apply_async([1], countdown=DAY, task_id="task-1", retries=1)
    shop.cue.store.settle_range(claim, [job.id for job in claim.jobs], {}, now, left=0)
    shop.pass_seconds(DAY)
    assert [message["headers"]["retries"] for message in shop.arrived()] == [1]


@pytest.mark.parametrize("many", [False, True])
def test_a_task_that_is_revoked_is_not_published(many: bool, shop: Shop) -> None:
    shop.install()
    broadcast: list[Any] = []
    shop.app.control.broadcast = lambda name, **options: broadcast.append((name, options))
    first, second = (shop.add.apply_async([1], countdown=DAY) for _ in range(2))
    assert first.state == "PENDING"
    if many:
        shop.app.control.revoke([first.id, "another"])
    else:
        first.revoke()
    assert [name for name, _ in broadcast] == ["revoke"]
    assert (first.state, second.state) == ("REVOKED", "PENDING")
    shop.pass_seconds(DAY)
    assert ids(shop.arrived()) == [second.id]
    second.revoke()
    assert second.state == "PENDING"  # it is with the workers, which were told


@pytest.mark.parametrize("options", [{}, {"serializer": "pickle", "compression": "zlib"}])
def test_the_chord_of_a_revoked_task_is_told(options: dict[str, Any], shop: Shop) -> None:
    patient = shop.install()
    told: list[Any] = []
    parts = [shop.add.s(1).set(**options), shop.add.s(2).set(**options)]
    shop.app.backend.on_chord_part_return = lambda *part, **_: told.append(part)
    chord(parts, shop.app.tasks["shop.total"].s()).apply_async(countdown=DAY)
    first, second = shop.jobs()
    assert patient.cancel(str(first.key))
    [(request, state, _)] = told
    assert (request.id, state) == (first.key, "REVOKED")
    assert request.chord["task"] == "shop.total"
    shop.app.conf.accept_content = ["yaml"]
    assert patient.cancel(str(second.key))  # the chord is not told of what may not be read
    assert len(told) == 1


@pytest.mark.parametrize("odd", [None, [None], "", "x" * 300, "a\nb", uuid4(), {"another"}])
def test_a_task_that_cannot_be_captured_is_revoked_as_without_oncue(odd: Any, shop: Shop) -> None:
    told: list[Any] = []
    patient = shop.install()
    shop.app.control.broadcast = lambda name, arguments, **_: told.append(arguments["task_id"])
    shop.add.apply_async([1], countdown=DAY)
    shop.app.control.revoke(odd)
    assert told == [odd]
    assert not patient.cancel(odd)
    assert [job.state for job in shop.jobs()] == [State.SCHEDULED]


def test_all_are_cancelled_before_a_result_backend_is_told_that_may_be_down(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.install()
    shop.app.control.broadcast = lambda *args, **options: None
    sent = [shop.add.apply_async([n], countdown=DAY).id for n in range(3)]

    def down(*args: Any, **options: Any) -> None:
        raise ConnectionResetError

    monkeypatch.setattr(shop.app.backend, "store_result", down)
    with pytest.raises(ConnectionResetError):
        shop.app.control.revoke(sent)
    assert {job.state for job in shop.jobs()} == {State.CANCELLED}


def test_a_result_that_is_a_message_tells_who_waits_for_it(open_shop: OpenShop) -> None:
    shop = open_shop(backend="rpc://")
    shop.install()
    shop.app.control.broadcast = lambda *args, **options: None
    result = shop.add.apply_async([1], countdown=DAY)
    result.revoke()
    with pytest.raises(TaskRevokedError):
        result.get(timeout=10)


def test_workers_are_told_of_a_revoked_task_even_if_the_store_is_down(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []
    patient = shop.install()
    shop.app.control.broadcast = lambda name, **options: told.append(name)

    def down(task_id: str) -> bool:
        raise Conflict("down")

    monkeypatch.setattr(patient, "cancel", down)
    with pytest.raises(Conflict, match="down"):
        shop.app.control.revoke("task-1")
    assert told == ["revoke"]


def test_a_control_that_is_there_before_revokes_as_well(shop: Shop) -> None:
    control = shop.app.control
    control.broadcast = lambda *args, **options: None
    shop.install()
    result = shop.add.apply_async([1], countdown=DAY)
    control.revoke(result.id)
    assert result.state == "REVOKED"


def test_settings_of_the_queue_that_somebody_made_stay(shop: Shop) -> None:
    shop.cue.set_queue("celery", rate_per_second=5)
    shop.install()
    shop.add.apply_async([1], countdown=DAY)
    shop.cue.set_queue("celery", sink="celery:", rate_per_second=7, lease_seconds=5)
    shop.poll()
    shop.add.apply_async([1], countdown=DAY)
    queue = shop.cue.queue("celery")
    assert (queue.sink, queue.rate_per_second, queue.lease_seconds) == ("celery:", 7, 5)


def test_a_queue_that_has_other_jobs_is_not_taken(shop: Shop) -> None:
    shop.cue.schedule({"mail": 1}, queue="celery", delay=60)
    shop.install()
    with pytest.raises(Conflict, match="has jobs, and no sink.*If not, give install"):
        shop.add.apply_async([1], countdown=DAY)


def test_a_queue_that_lost_its_sink_is_handed_over_when_it_has_it_again(shop: Shop) -> None:
    shop.install()
    shop.add.apply_async([1], countdown=DAY)
    shop.cue.set_queue("celery", rate_per_second=5)
    with pytest.raises(Conflict, match="oncue queues set celery --sink celery:"):
        shop.add.apply_async([1], countdown=DAY)
    shop.cue.set_queue("celery", sink="celery:", rate_per_second=5)
    shop.pass_seconds(DAY)
    assert len(shop.arrived()) == 1


def test_a_payload_that_is_no_message_is_refused(shop: Shop) -> None:
    shop.install()
    shop.poll()
    with pytest.raises(InvalidInput, match="not a captured message of Celery"):
        shop.cue.schedule({"task": "shop.add"}, queue="celery")


def test_installing_reads_no_configuration_and_happens_once(shop: Shop) -> None:
    read: list[bool] = []
    app: Any = type(shop.app)("lazy", set_as_current=False)
    app.config_from_object(lambda: read.append(True))
    patient = install(app, shop.cue)
    assert not app.configured
    with pytest.raises(InvalidInput, match="installed in this application already"):
        install(app, shop.cue)
    patient.stop()


@pytest.mark.parametrize(
    "options", [{"threshold": -1}, {"poll_seconds": -1}, {"queue": "not a name"}]
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], shop: Shop) -> None:
    with pytest.raises(InvalidInput):
        shop.install(**options)


def test_arguments_of_another_kind_are_named(shop: Shop) -> None:
    with pytest.raises(InvalidInput, match="/app: must be an application of Celery"):
        install(shop.cue, shop.app)
    with pytest.raises(InvalidInput, match="/scheduler: must be a Scheduler"):
        install(shop.app, "sqlite:///oncue.db")  # type: ignore[arg-type]


def test_a_worker_that_is_not_to_poll_does_not(shop: Shop) -> None:
    patient = shop.install(poll_seconds=0)
    others = pollers()
    patient.start()
    assert pollers() <= others


def test_other_queues_of_the_store_are_left_alone(shop: Shop) -> None:
    shop.install()
    shop.cue.set_queue("mail", sink="log:")
    job = shop.cue.schedule({"to": "ada"}, queue="mail")
    shop.add.apply_async([1], countdown=DAY)
    shop.pass_seconds(DAY)
    assert len(shop.arrived()) == 1
    assert shop.cue.job(job.id).state is State.SCHEDULED


@pytest.mark.parametrize("kind", KINDS)
def test_a_task_is_found_by_its_id_on_every_store(
    kind: str, open_shop: OpenShop, tmp_path: Path
) -> None:
    clock = FakeClock()
    shop = open_shop(store=store_maker(kind, tmp_path, 0, SHARDS)(clock), clock=clock)
    patient = shop.install()
    for name in ("task-1", "task-2"):
        shop.add.apply_async([1], countdown=DAY, task_id=name)
    assert patient.cancel("task-1")
    assert not patient.cancel("task-1")
    states = {job.key: job.state for job in shop.jobs()}
    assert states == {"task-1": State.CANCELLED, "task-2": State.SCHEDULED}
    shop.pass_seconds(DAY)
    assert ids(shop.arrived()) == ["task-2"]
