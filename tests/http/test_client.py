"""`oncue.Client` against a real server: it does what a `Scheduler` does, and raises the same."""

from __future__ import annotations

import inspect
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from oncue import (
    Client,
    Conflict,
    Fenced,
    IdTaken,
    IllegalState,
    InvalidInput,
    KeyTaken,
    NotFound,
    Queue,
    RetryPolicy,
    Scheduler,
    State,
    TooLarge,
)
from oncue.core.job import JobFilter
from oncue.usecases.claims import Completion
from tests.http.server import Server

FAR = datetime(2050, 2, 28, 8, 30, tzinfo=UTC)


# -- the same as a scheduler -------------------------------------------------------------------


def public(kind: type) -> dict[str, Any]:
    return {name: one for name, one in inspect.getmembers(kind, callable) if name[0] != "_"}


# A server runs its own loops, decides on back-off by itself, and reads its own clock.
NOT_FROM_AFAR = {"run_loops", "spread"}


def test_a_client_has_every_method_of_a_scheduler_that_makes_sense_from_afar() -> None:
    assert public(Scheduler).keys() - public(Client).keys() == NOT_FROM_AFAR


@pytest.mark.parametrize("name", sorted(public(Scheduler).keys() - NOT_FROM_AFAR))
def test_its_methods_take_the_same_arguments_with_the_same_defaults(name: str) -> None:
    here = inspect.signature(getattr(Scheduler, name)).parameters
    there = inspect.signature(getattr(Client, name)).parameters
    extra = {"wait_seconds"} if name == "claim" else set()
    assert there.keys() - here.keys() == extra
    for argument, known in here.items():
        assert (there[argument].kind, there[argument].default) == (known.kind, known.default)


def test_every_method_of_a_client_is_documented() -> None:
    for name, method in public(Client).items():
        assert inspect.getdoc(method), name


# -- creating ----------------------------------------------------------------------------------


def test_a_job_is_stored_with_all_its_fields(client: Client, cue: Scheduler) -> None:
    job = client.schedule(
        {"to": "ada", "ü": [1, 2.5, None]},
        queue="c-all",
        at=FAR,
        owner="shop",
        key="k",
        priority=7,
        expires_at=FAR + timedelta(hours=1),
        max_attempts=5,
        timeout_seconds=90,
    )
    assert job == cue.job(job.id)._replace(epoch=job.epoch)  # which is told to nobody
    assert (job.payload, job.due_at, job.priority) == ({"to": "ada", "ü": [1, 2.5, None]}, FAR, 7)
    assert (job.owner, job.key, job.max_attempts, job.timeout_seconds) == ("shop", "k", 5, 90)
    assert job.state is State.SCHEDULED


def test_without_members_a_job_is_due_now_in_the_default_queue(client: Client) -> None:
    job = client.schedule()
    assert (job.queue, job.payload, job.due_at) == ("default", None, job.created_at)
    client.cancel(job.id)


@pytest.mark.parametrize("delay", [90, 90.0, timedelta(seconds=90), "PT1M30S"])
def test_a_delay_is_a_number_a_timedelta_or_iso_8601(client: Client, delay: Any) -> None:
    job = client.schedule(queue="c-delay", delay=delay)
    assert job.due_at - job.created_at == timedelta(seconds=90)


def test_an_id_makes_the_call_repeatable(client: Client) -> None:
    first = client.schedule({"n": 1}, id="c-order-7", queue="c-ids", delay=60)
    assert client.schedule({"n": 1}, id="c-order-7", queue="c-ids", delay=60) == first
    with pytest.raises(IdTaken, match="was created with other fields"):
        client.schedule({"n": 2}, id="c-order-7", queue="c-ids", delay=60)


def test_a_key_is_held_by_one_unfinished_job(client: Client) -> None:
    first = client.schedule({"n": 1}, queue="c-keys", key="ada")
    assert client.schedule({"n": 2}, queue="c-keys", key="ada") == first
    moved = client.schedule({"n": 3}, queue="c-keys", key="ada", if_exists="replace")
    assert (moved.id, moved.payload) == (first.id, {"n": 3})
    assert len(client.claim("c-keys", "w")) == 1
    with pytest.raises(KeyTaken, match="can no longer be replaced"):
        client.schedule({"n": 4}, queue="c-keys", key="ada", if_exists="replace")


@pytest.mark.parametrize(
    ("wrong", "pointer"),
    [
        ({"at": datetime(2030, 1, 1)}, "/at"),
        ({"at": "tomorrow"}, "/at"),
        ({"due_at": "tomorrow"}, "/due_at"),
        ({"delay": -1}, "/delay"),
        ({"priority": 10}, "/priority"),
        ({"queue": "no such name!"}, "/queue"),
        ({"owner": ""}, "/owner"),
        ({"if_exists": "perhaps"}, "/if_exists"),
        ({"max_attempts": 0}, "/max_attempts"),
        ({"id": "batch"}, "/id"),
        ({"payload": float("nan")}, "/payload"),
        ({"delay": float("nan")}, "/delay"),
        ({"delay": float("inf")}, "/delay"),
        ({"delay": timedelta(days=-1)}, "/delay"),
        ({"timeout_seconds": float("inf")}, "/timeout_seconds"),
    ],
)
def test_bad_input_is_refused_and_the_place_named(
    client: Client, wrong: dict[str, Any], pointer: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        client.schedule(**wrong)
    assert caught.value.pointer == pointer


@pytest.mark.parametrize("name", ["at", "due_at"])
def test_a_wrong_time_is_refused_by_the_name_it_was_given(client: Client, name: str) -> None:
    job, wrong = client.schedule(delay=60), {name: "tomorrow"}
    with pytest.raises(InvalidInput) as caught:
        client.reschedule(job.id, **wrong)  # type: ignore[arg-type]
    assert caught.value.pointer == f"/{name}"
    with pytest.raises(InvalidInput) as caught:
        client.schedule_many([{"delay": 60}, wrong])
    assert caught.value.pointer == f"item 2/{name}"


def test_what_is_too_large_is_refused(client: Client) -> None:
    with pytest.raises(TooLarge) as caught:
        client.schedule("x" * 300_000)
    assert caught.value.pointer == "/payload"


def test_many_jobs_are_stored_in_order(client: Client, cue: Scheduler) -> None:
    tally = client.schedule_many(
        ({"payload": n, "delay": timedelta(hours=1)} for n in range(6000)),
        queue="c-many",
        priority=3,
    )
    assert (tally.accepted, tally.existing, len(tally.ids)) == (6000, 0, 6000)
    some = [cue.job(tally.ids[n]) for n in (0, 4999, 5000, 5999)]
    assert [job.payload for job in some] == [0, 4999, 5000, 5999]
    assert {job.priority for job in some} == {3}
    assert cue.stats("c-many").counts[State.SCHEDULED] == 6000


def test_beyond_ten_thousand_the_ids_are_not_kept(client: Client) -> None:
    tally = client.schedule_many(({} for _ in range(10_001)), queue="c-10001", delay=3600)
    assert (tally.accepted, tally.ids) == (10_001, [])


def test_jobs_that_are_there_already_are_counted_apart(client: Client) -> None:
    items = [{"id": "c-again-1"}, {"key": "k"}, {"key": "k"}, {}]
    first = client.schedule_many(items, queue="c-again", delay=60)
    second = client.schedule_many(items, queue="c-again", delay=60)
    assert (first.accepted, first.existing) == (4, 1)
    assert (second.accepted, second.existing) == (4, 3)
    assert second.ids[:3] == first.ids[:3]


def test_no_jobs_at_all_are_no_trouble(client: Client) -> None:
    assert client.schedule_many([]).accepted == 0


@pytest.mark.parametrize(
    ("bad", "place", "text"),
    [
        ({"priority": 99}, "item 3/priority", "The others among the first 4 are stored."),
        ({"at": "never", "delay": None}, "item 3/at", "The others among the first 4 are stored."),
        ({"payload": float("inf")}, "item 3/payload", "Nothing was stored."),
        ({"colour": 1}, "item 3/colour", "there is no such field"),
        (7, "item 3", "must be a mapping"),
    ],
)
def test_a_bad_item_is_named_by_its_position(
    client: Client, bad: Any, place: str, text: str
) -> None:
    with pytest.raises(InvalidInput, match=text) as caught:
        client.schedule_many([{}, {}, bad, {}], queue="c-bad", delay=3600)
    assert caught.value.pointer == place


def test_an_id_that_is_taken_stops_many_jobs(client: Client) -> None:
    client.schedule(1, id="c-taken", queue="c-taken", delay=60)
    with pytest.raises(Conflict, match="^item 2: "):
        client.schedule_many([{}, {"id": "c-taken", "payload": 2}], queue="c-taken", delay=60)


# -- looking -----------------------------------------------------------------------------------


def test_listing_goes_through_all_pages_in_the_order_of_due_time(client: Client) -> None:
    client.schedule_many(({"payload": n, "delay": 3600 + n} for n in range(1100)), queue="c-list")
    assert [job.payload for job in client.jobs(queue="c-list")] == list(range(1100))
    assert list(client.jobs(queue="c-list", state=State.FAILED)) == []


def test_a_listing_is_narrowed_by_every_filter(client: Client) -> None:
    jobs = [
        client.schedule(n, queue="c-filter", owner=f"o{n}", key=f"k{n}", at=FAR + timedelta(days=n))
        for n in range(3)
    ]
    assert list(client.jobs(queue="c-filter", owner="o1")) == [jobs[1]]
    assert list(client.jobs(queue="c-filter", key="k2")) == [jobs[2]]
    start, end = FAR + timedelta(days=1), FAR + timedelta(days=2)
    found = client.jobs(queue="c-filter", state="scheduled", due_after=start, due_before=end)
    assert list(found) == [jobs[1]]


def test_a_page_tells_where_the_next_begins(client: Client) -> None:
    ids = client.schedule_many(({"delay": 60 + n} for n in range(3)), queue="c-page").ids
    first = client.page(JobFilter(queue="c-page"), limit=2)
    rest = client.page(JobFilter(queue="c-page"), first.next, limit=2)
    assert [job.id for job in [*first.items, *rest.items]] == ids
    assert rest.next is None


@pytest.mark.parametrize(("name", "value"), [("state", "sleeping"), ("queue", "?"), ("owner", "")])
def test_a_filter_that_makes_no_sense_is_refused(client: Client, name: str, value: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        list(client.jobs(**{name: value}))  # type: ignore[arg-type]
    assert caught.value.pointer == f"/{name}"


def test_why_a_job_is_where_it_is_can_be_asked(client: Client) -> None:
    job = client.schedule(queue="c-why", delay=3600)
    told = client.explain(job.id)
    assert (told.reason, told.facts["paused"]) == ("not_due", False)
    assert told.sentence.startswith("It is not due before")


@pytest.mark.parametrize(
    "call", ["job", "history", "explain", "reschedule", "cancel", "run", "retry"]
)
@pytest.mark.parametrize("job_id", ["no-such-job", "a/b?c=%20"])
def test_what_does_not_exist_is_not_found(client: Client, call: str, job_id: str) -> None:
    more = {"delay": 5} if call == "reschedule" else {}
    with pytest.raises(NotFound, match="no"):
        getattr(client, call)(job_id, **more)


# -- changing ----------------------------------------------------------------------------------


def test_a_scheduled_job_can_be_changed(client: Client) -> None:
    job = client.schedule({"n": 1}, queue="c-change", delay=60)
    changed = client.reschedule(job.id, at=FAR, priority=9, payload=None)
    assert (changed.due_at, changed.priority, changed.payload) == (FAR, 9, None)
    assert client.reschedule(job.id, delay=timedelta(days=1)).payload is None
    assert client.run(job.id).due_at < FAR
    assert client.cancel(job.id).state is State.CANCELLED
    assert client.retry(job.id).state is State.SCHEDULED


def test_the_state_may_forbid_it_and_is_told(client: Client) -> None:
    job = client.schedule(queue="c-illegal", delay=60)
    client.cancel(job.id)
    for change in (client.cancel, client.run, lambda one: client.reschedule(one, priority=1)):
        with pytest.raises(IllegalState) as caught:
            change(job.id)
        assert caught.value.state is State.CANCELLED


def test_a_taken_job_is_asked_to_stop(client: Client) -> None:
    job = client.schedule(queue="c-stop")
    [claimed] = client.claim("c-stop", "w")
    assert client.cancel(job.id, running=True).cancel_requested
    assert client.heartbeat(job.id, claimed.token).cancel_requested
    client.fail(job.id, claimed.token, "stopped")
    assert client.job(job.id).state is State.CANCELLED


# -- queues ------------------------------------------------------------------------------------


def test_the_settings_of_a_queue_are_replaced(client: Client, cue: Scheduler) -> None:
    retry = {"initial_seconds": 0.5, "factor": 3, "max_seconds": 9}
    queue = client.set_queue("c-set", max_attempts=9, retry=retry, lease_seconds=5)
    assert queue == client.queue("c-set")
    assert (queue.max_attempts, queue.retry) == (9, RetryPolicy(0.5, 3, 9))
    assert cue.queue("c-set").lease_seconds == 5
    assert client.set_queue("c-set").max_attempts == Queue("c-set").max_attempts


def test_wrong_settings_are_refused_and_the_place_named(client: Client) -> None:
    for settings, pointer in (
        ({"max_attempts": 99}, "/max_attempts"),
        ({"retry": {"factor": 0}}, "/retry/factor"),
        ({"colour": 1}, "/colour"),
    ):
        with pytest.raises(InvalidInput) as caught:
            client.set_queue("c-wrong", **settings)
        assert caught.value.pointer == pointer
    with pytest.raises(InvalidInput):
        client.set_queue("c-wrong", sink="carrier-pigeon:")


def test_a_paused_queue_hands_out_nothing(client: Client) -> None:
    client.schedule(queue="c-pause")
    client.pause("c-pause")
    assert client.queue("c-pause").paused
    assert client.claim("c-pause", "w") == []
    client.resume("c-pause")
    assert len(client.claim("c-pause", "w")) == 1


def test_queues_are_listed_and_counted(client: Client, cue: Scheduler) -> None:
    client.schedule(queue="c-count")
    client.schedule(queue="c-count", delay=60)
    client.claim("c-count", "w")
    assert "c-count" in [queue.name for queue in client.queues()]
    # How many are put off is not part of the HTTP interface, and lateness is that of the server.
    here = cue.stats("c-count")._replace(put_off=None)
    assert client.stats("c-count")._replace(lateness=None) == here


# -- working by hand ---------------------------------------------------------------------------


def test_a_claim_is_reported_on_until_it_is_settled(client: Client, cue: Scheduler) -> None:
    job = client.schedule({"to": "ada"}, queue="c-work", owner="o")
    [claimed] = client.claim("c-work", worker="by hand", limit=5, lease_seconds=30)
    assert (claimed.id, claimed.attempt, claimed.owner) == (job.id, 1, "o")
    assert (claimed.payload, claimed.lease_until - claimed.claimed_at) == (b'{"to":"ada"}', 30_000)
    token = client.token(claimed)
    assert token == claimed.token
    client.start(job.id, token)
    touched = client.heartbeat(job.id, token, message="half-way", percent=50, lease_seconds=90)
    assert touched.lease_until is not None
    assert touched.lease_until > claimed.lease_until
    step = client.operation(job.id, token, "draft", "succeeded", result={"dear": "Ada"})
    assert (step.name, step.state, step.result) == ("draft", "succeeded", b'{"dear":"Ada"}')
    shown = client.job(job.id)
    assert (shown.state, shown.message, shown.percent) == (State.EXECUTING, "half-way", 50)
    client.complete(job.id, token, result=["sent"])
    client.complete(job.id, token, result=["sent"])  # the very same again is fine
    assert client.job(job.id).result == ["sent"]
    assert client.history(job.id).operations == cue.history(job.id).operations
    [attempt] = client.history(job.id).attempts
    assert (attempt.worker, attempt.outcome) == ("by hand", "succeeded")


def test_many_successes_are_reported_at_once_and_refusals_told_one_by_one(client: Client) -> None:
    client.schedule_many(({"payload": n} for n in range(3)), queue="c-all-at-once")
    claims = client.claim("c-all-at-once", "w", limit=3)
    client.release(claims[1].id, claims[1].token)
    results = ("ok", "ok", float("nan"))
    reports = [Completion(c.id, c.token, result) for c, result in zip(claims, results, strict=True)]
    answers = client.complete_all(reports)
    assert [type(answer) for answer in answers] == [type(None), Fenced, InvalidInput]
    states = [client.job(one.id).state for one in claims]
    assert states == [State.SUCCEEDED, State.SCHEDULED, State.DISPATCHED]


def test_a_step_may_succeed_with_nothing(client: Client) -> None:
    client.schedule(queue="c-null")
    [claimed] = client.claim("c-null", "w")
    done = client.operation(claimed.id, claimed.token, "quiet", "succeeded")
    assert done.result == b"null"
    assert client.operation(claimed.id, claimed.token, "other", "executing").result is None


@pytest.mark.parametrize("state", ["executing", "failed"])
def test_the_result_of_an_unfinished_step_is_given_to_the_next_attempt(
    client: Client, state: str
) -> None:
    queue = f"c-unfinished-{state}"
    client.schedule(queue=queue)
    [claimed] = client.claim(queue, "w")
    told = client.operation(claimed.id, claimed.token, "s", state, result={"external_id": 7})
    assert told.result == b'{"external_id":7}'
    assert client.operation(claimed.id, claimed.token, "s", state).result == told.result
    client.release(claimed.id, claimed.token)
    [again] = client.claim(queue, "w")
    assert [one.result for one in again.operations] == [told.result]


def test_the_result_of_a_step_is_written_once(client: Client) -> None:
    client.schedule(queue="c-once")
    [claimed] = client.claim("c-once", "w")
    client.operation(claimed.id, claimed.token, "s", "succeeded", result=1)
    client.operation(claimed.id, claimed.token, "s", "succeeded", result=1)
    with pytest.raises(Conflict, match="another result"):
        client.operation(claimed.id, claimed.token, "s", "succeeded", result=2)


def test_several_queues_are_claimed_from_at_once(client: Client) -> None:
    client.schedule(queue="c-two-a")
    client.schedule(queue="c-two-b")
    claimed = client.claim(["c-two-a", "c-two-b"], "w", limit=2)
    assert {one.queue for one in claimed} == {"c-two-a", "c-two-b"}


def test_a_claim_waits_for_a_job_to_fall_due(client: Client) -> None:
    job = client.schedule(queue="c-wait", delay=0.2)
    [claimed] = client.claim("c-wait", "w", wait_seconds=30)
    assert claimed.id == job.id
    assert claimed.claimed_at >= claimed.due_at


def test_a_failure_is_retried_or_not(client: Client) -> None:
    first = client.schedule(queue="c-fail", max_attempts=2)
    [claimed] = client.claim("c-fail", "w")
    client.fail(first.id, claimed.token, "not now", retry_after=timedelta(hours=1))
    job = client.job(first.id)
    assert (job.state, job.error, job.attempt) == (State.SCHEDULED, "not now", 1)
    assert job.due_at - job.created_at >= timedelta(hours=1)
    second = client.schedule(queue="c-fail")
    [claimed] = client.claim("c-fail", "w")
    client.fail(second.id, claimed.token, "never", retryable=False)
    assert client.job(second.id).state is State.FAILED
    [why] = client.history(second.id).diagnostics
    assert (why.code, why.attempt) == ("failure", 1)


def test_what_is_released_has_lost_no_attempt(client: Client) -> None:
    job = client.schedule(queue="c-release")
    [claimed] = client.claim("c-release", "w")
    client.release(job.id, claimed.token)
    assert (client.job(job.id).state, client.job(job.id).attempt) == (State.SCHEDULED, 0)


def test_a_claim_that_is_over_is_fenced_with_reason_state_and_diagnostic(client: Client) -> None:
    job = client.schedule(queue="c-fence")
    [claimed] = client.claim("c-fence", "w")
    client.release(job.id, claimed.token)
    for report in (
        lambda: client.complete(job.id, claimed.token),
        lambda: client.heartbeat(job.id, claimed.token),
        lambda: client.operation(job.id, claimed.token, "s", "executing"),
    ):
        with pytest.raises(Fenced) as caught:
            report()
        fenced = caught.value
        assert (fenced.job_id, fenced.reason, fenced.state) == (
            job.id,
            "released",
            State.SCHEDULED,
        )
        assert fenced.diagnostic is not None
        assert fenced.diagnostic.code == "fenced"


def test_a_forged_token_is_refused(client: Client) -> None:
    job = client.schedule(queue="c-forged")
    with pytest.raises(InvalidInput) as caught:
        client.complete(job.id, "1.1.00000000000000000000000000000000")
    assert caught.value.pointer == "/token"


# -- access ------------------------------------------------------------------------------------


def test_a_claim_or_a_client_does_not_show_its_token(
    server: Server, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONCUE_TOKEN", "oncue_canary")
    with Client(server.url) as careful:
        assert "canary" not in f"{careful!r} {careful.connection!r}"
    client.schedule(queue="c-repr")
    [claimed] = client.claim("c-repr", "w")
    assert claimed.token not in repr(claimed)


@pytest.mark.parametrize("token", ["", "two words", "line\nbreak", "ümlaut", 7])
def test_what_cannot_be_a_token_is_refused_without_quoting_it(server: Server, token: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        Client(server.url, token)
    assert caught.value.pointer == "/token"
    assert str(token) not in str(caught.value) or not str(token)


@pytest.mark.parametrize(
    "url",
    [
        *("localhost:8420", "ftp://host", "http://", "http://host:port", "", 8420),
        *("http://ada:secret@host", "http://host?x=1", "http://host/#top"),
        *("http://a b", "http://..", "http://host:0", f"http://{'a' * 70}.example"),
    ],
)
def test_a_url_that_names_no_server_is_refused(url: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        Client(url)
    assert caught.value.pointer == "/url"
    assert "secret" not in str(caught.value)


def test_a_url_is_written_as_it_is_asked_for() -> None:
    with Client("http://bücher.example/grüße und mehr%2F/") as client:
        address = client.connection.address
    assert address.url == "http://xn--bcher-kva.example:80/gr%C3%BC%C3%9Fe%20und%20mehr%2F"


@pytest.mark.parametrize("wait", [-1, float("nan"), float("inf"), "soon", None])
def test_a_wait_that_makes_no_sense_is_refused(client: Client, wait: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        client.claim("q", "w", wait_seconds=wait)
    assert caught.value.pointer == "/wait_seconds"


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), "soon"])
def test_a_timeout_is_a_positive_number(seconds: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        Client(timeout_seconds=seconds)
    assert caught.value.pointer == "/timeout_seconds"


def test_a_queue_is_deleted_as_a_scheduler_would(client: Client, cue: Scheduler) -> None:
    for name, user in (("c-gone", client), ("s-gone", cue)):
        user.set_queue(name, max_attempts=9)
        job = user.schedule(queue=name, delay=60)
        with pytest.raises(Conflict, match="unfinished jobs"):
            user.delete_queue(name)
        user.cancel(job.id)
        user.delete_queue(name)
        assert user.queue(name).max_attempts == Queue(name).max_attempts
        with pytest.raises(NotFound, match=name):
            user.delete_queue(name)
        with pytest.raises(InvalidInput):
            user.delete_queue("a b")
