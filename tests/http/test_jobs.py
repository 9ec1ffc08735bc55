"""Creating jobs and looking at them."""

from __future__ import annotations

import pytest

from tests.http.errand import created, one_taken, state, taken, told
from tests.http.happenings import pages
from tests.http.patience import until
from tests.http.server import Server

FIELDS = {
    *("id", "queue", "state", "due_at", "expires_at", "payload", "owner", "priority", "key"),
    *("attempt", "max_attempts", "timeout_seconds", "created_at", "updated_at", "finished_at"),
    *("result", "error", "message", "percent", "cancel_requested", "rule", "instant", "schedule"),
}


def test_a_created_job_is_answered_with_its_place(server: Server) -> None:
    reply = server.post("/jobs", {"payload": {"to": "ada"}, "queue": "created", "delay": 60})
    assert reply.status == 201
    assert reply.json["state"] == "scheduled"
    assert reply.headers["location"] == f"/jobs/{reply.json['id']}"
    assert server.get(reply.headers["location"]).json["payload"] == {"to": "ada"}


def test_an_answer_is_json_with_the_members_of_a_job(server: Server) -> None:
    reply = server.post("/jobs", {"queue": "fields"})
    assert reply.headers["content-type"] == "application/json"
    assert reply.json.keys() >= FIELDS
    more = {"operations", "diagnostics", "attempts"}
    assert server.get(f"/jobs/{reply.json['id']}").json.keys() >= FIELDS | more


def test_every_member_is_optional_and_so_is_the_body(server: Server) -> None:
    for reply in (server.post("/jobs", {}), server.post("/jobs")):
        assert reply.status == 201
        job = reply.json
        assert (job["queue"], job["priority"], job["payload"]) == ("default", 0, None)
        server.delete(f"/jobs/{job['id']}")


def test_a_body_that_is_not_there_has_no_wrong_media_type(server: Server) -> None:
    reply = server.post("/jobs", headers={"Content-Type": "text/plain"})
    assert reply.status == 201


def test_null_stands_for_not_given(server: Server) -> None:
    sent = dict.fromkeys(("due_at", "delay", "expires_at", "owner", "key", "max_attempts", "id"))
    reply = server.post("/jobs", {"queue": "nulls", **sent})
    assert reply.status == 201
    assert reply.json["owner"] is None


def test_everything_that_was_sent_is_there_again(server: Server) -> None:
    sent = {
        "id": "all-of-it",
        "queue": "full.of-it_1",
        "payload": {"größe": ["¼", 1.5, -7, True, None, {"": "\U0001f600"}]},
        "due_at": "2030-05-06T07:08:09.012Z",
        "expires_at": "2031-01-01T00:00:00.000Z",
        "owner": "ada lovelace / 7%",
        "key": "a+b&c=d?e#f",
        "priority": 9,
        "max_attempts": 20,
        "timeout_seconds": 1.5,
    }
    created = server.post("/jobs", sent).json
    assert {name: created[name] for name in sent} == sent
    found = server.get("/jobs/all-of-it").json
    assert {name: found[name] for name in FIELDS} == created


def test_an_unknown_job_is_a_404(server: Server) -> None:
    for path in ("/jobs/nobody", "/jobs/nobody/explain", "/jobs/%00", "/jobs/a%2Fb"):
        reply = server.get(path)
        assert reply.status == 404, path
        assert reply.json["type"].endswith("/not-found")
    assert server.patch("/jobs/nobody", {"priority": 1}).status == 404
    assert server.delete("/jobs/nobody").status == 404
    assert server.post("/jobs/nobody/run").status == 404
    assert server.post("/jobs/nobody/retry").status == 404


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"colour": "red"}, "/colour"),
        ({"a/b~c": 1}, "/a~1b~0c"),
        ({"at": "2030-01-01T00:00:00Z"}, "/at"),
        ({"queue": "über"}, "/queue"),
        ({"queue": "a" * 81}, "/queue"),
        ({"queue": 7}, "/queue"),
        ({"owner": ""}, "/owner"),
        ({"owner": "a" * 201}, "/owner"),
        ({"owner": "a\nb"}, "/owner"),
        ({"owner": 12}, "/owner"),
        ({"key": ["k"]}, "/key"),
        ({"priority": 10}, "/priority"),
        ({"priority": -1}, "/priority"),
        ({"priority": 1.5}, "/priority"),
        ({"priority": True}, "/priority"),
        ({"max_attempts": 0}, "/max_attempts"),
        ({"max_attempts": "3"}, "/max_attempts"),
        ({"timeout_seconds": 0}, "/timeout_seconds"),
        ({"if_exists": "perhaps"}, "/if_exists"),
        ({"id": "-a"}, "/id"),
        ({"id": "a" * 81}, "/id"),
        ({"id": "a.b"}, "/id"),
    ],
)
def test_a_member_that_is_wrong_is_named(server: Server, fields: object, pointer: str) -> None:
    reply = server.post("/jobs", fields)
    assert (reply.status, reply.pointer) == (422, pointer)


@pytest.mark.parametrize("word", ["batch", "cancel", "run", "retry", "move", "reprioritise"])
def test_words_that_are_paths_are_not_ids(server: Server, word: str) -> None:
    reply = server.post("/jobs", {"id": word})
    assert (reply.status, reply.pointer) == (422, "/id")


def test_a_payload_of_256_kib_fits_and_one_byte_more_is_413(server: Server) -> None:
    fits = "a" * (256 * 1024 - 2)
    assert server.post("/jobs", {"queue": "large", "payload": fits}).status == 201
    reply = server.post("/jobs", {"queue": "large", "payload": fits + "a"})
    assert (reply.status, reply.pointer) == (413, "/payload")
    job = one_taken(server, "large-result")
    reply = told(server, job, "complete", result=fits + "a")
    assert (reply.status, reply.pointer) == (413, "/result")
    assert told(server, job, "complete", result=fits).status == 200


@pytest.mark.parametrize(
    "text", ["'; DROP TABLE jobs; --", "<script>alert(1)</script>", "${7*7}", "%s%n", "../../x"]
)
def test_text_is_text_and_nothing_else(server: Server, text: str) -> None:
    job_id = created(server, "text", payload=text, owner=text, key=text, delay=60)
    found = server.get(f"/jobs/{job_id}").json
    assert (found["payload"], found["owner"], found["key"]) == (text, text, text)


# -- ids and keys ----------------------------------------------------------------------------------


def test_the_same_id_with_the_same_members_is_the_same_job(server: Server) -> None:
    sent = {"id": "once", "queue": "ids", "payload": {"a": 1, "b": 2}, "delay": 60}
    first = server.post("/jobs", sent)
    again = server.post("/jobs", {**sent, "payload": {"b": 2, "a": 1}})
    assert (first.status, again.status) == (201, 200)
    assert again.json == first.json


def test_the_same_id_with_other_members_is_a_409_and_changes_nothing(server: Server) -> None:
    sent = {"id": "taken-id", "queue": "ids", "payload": 1, "delay": 60}
    first = server.post("/jobs", sent)
    for other in ({"payload": 2}, {"delay": 61}, {"queue": "ids2"}, {"owner": "eve"}):
        reply = server.post("/jobs", {**sent, **other})
        assert reply.status == 409
        assert reply.json["type"].endswith("/id-taken")
    assert server.get("/jobs/taken-id").json["payload"] == first.json["payload"]


def test_a_key_holds_one_unfinished_job_and_keeps_it(server: Server) -> None:
    sent = {"queue": "keep", "key": "invoice 7", "delay": 60}
    first = server.post("/jobs", {**sent, "payload": 1})
    second = server.post("/jobs", {**sent, "payload": 2, "delay": 5})
    assert (first.status, second.status) == (201, 200)
    assert second.json == first.json
    assert second.headers["location"] == f"/jobs/{first.json['id']}"
    assert server.post("/jobs", {**sent, "queue": "keep-other"}).status == 201


def test_a_key_can_replace_time_and_payload(server: Server) -> None:
    sent = {"queue": "replace", "key": "k", "if_exists": "replace"}
    first = server.post("/jobs", {**sent, "payload": 1, "due_at": "2030-01-01T00:00:00Z"})
    second = server.post("/jobs", {**sent, "payload": 2, "due_at": "2031-01-01T00:00:00Z"})
    assert (first.status, second.status) == (201, 200)
    assert second.json["id"] == first.json["id"]
    found = server.get(f"/jobs/{first.json['id']}").json
    assert (found["payload"], found["due_at"]) == (2, "2031-01-01T00:00:00.000Z")


def test_a_taken_job_can_no_longer_be_replaced_but_is_kept(server: Server) -> None:
    sent = {"queue": "replace-taken", "key": "k"}
    first = server.post("/jobs", {**sent, "payload": 1}).json
    [job] = taken(server, "replace-taken")
    reply = server.post("/jobs", {**sent, "payload": 2, "if_exists": "replace"})
    assert reply.status == 409
    assert reply.json["type"].endswith("/key-taken")
    kept = server.post("/jobs", {**sent, "payload": 2})
    assert (kept.status, kept.json["id"], kept.json["payload"]) == (200, first["id"], 1)
    assert told(server, job, "complete").status == 200
    assert server.post("/jobs", {**sent, "payload": 2}).status == 201


# -- idempotency -----------------------------------------------------------------------------------


def test_an_idempotency_key_makes_repeating_harmless(server: Server) -> None:
    sent, header = {"queue": "idem", "delay": 60, "payload": 1}, {"Idempotency-Key": "order 4711"}
    first = server.post("/jobs", sent, headers=header)
    again = server.post("/jobs", sent, headers=header)
    assert (first.status, again.status) == (201, 201)
    assert again.json == first.json
    assert again.headers["location"] == first.headers["location"]
    assert len(pages(server, "/jobs?queue=idem")) == 1


def test_a_repeated_request_gets_the_first_answer_whatever_became_of_the_job(
    server: Server,
) -> None:
    sent = {"queue": "idem-first", "delay": 60, "payload": {"n": 1}, "timeout_seconds": 5}
    header = {"Idempotency-Key": "first answer"}
    first = server.post("/jobs", sent, headers=header)
    path = first.headers["location"]
    assert server.patch(path, {"payload": 2, "priority": 5, "delay": 0}).status == 200
    by_value = {**sent, "delay": 60.0, "payload": {"n": 1.0}, "priority": None}
    again = server.post("/jobs", by_value, headers=header)
    assert (again.status, again.json) == (201, first.json)
    [job] = taken(server, "idem-first")
    assert told(server, job, "complete").status == 200
    assert server.post("/jobs", sent, headers=header).json == first.json
    assert server.get(path).json["state"] == "succeeded"


def test_an_idempotency_key_with_other_members_is_a_422(server: Server) -> None:
    header = {"Idempotency-Key": "reused"}
    assert server.post("/jobs", {"queue": "idem2", "delay": 60}, headers=header).status == 201
    reply = server.post("/jobs", {"queue": "idem2", "delay": 61}, headers=header)
    assert reply.status == 422
    assert reply.json["type"].endswith("/idempotency-key-reused")
    assert len(pages(server, "/jobs?queue=idem2")) == 1


def test_an_idempotency_key_outlives_a_job_that_is_not_kept(server: Server) -> None:
    assert server.put("/queues/idem-gone", {"retention_seconds": 0}).status == 200
    sent, header = {"queue": "idem-gone", "payload": 1}, {"Idempotency-Key": "gone"}
    first = server.post("/jobs", sent, headers=header)
    [job] = taken(server, "idem-gone")
    assert told(server, job, "complete").status == 200
    assert server.get(f"/jobs/{job['id']}").status == 404
    again = server.post("/jobs", sent, headers=header)
    assert (again.status, again.json["id"]) == (201, first.json["id"])
    assert server.post("/jobs", {**sent, "payload": 2}, headers=header).status == 422
    assert taken(server, "idem-gone") == []


@pytest.mark.parametrize("key", ["", "x" * 256, "\xfc"])
def test_an_idempotency_key_that_is_none_is_refused(server: Server, key: str) -> None:
    reply = server.post("/jobs", {"queue": "idem3"}, headers={"Idempotency-Key": key})
    assert reply.status == 400
    assert pages(server, "/jobs?queue=idem3") == []


def test_an_id_and_an_idempotency_key_exclude_each_other(server: Server) -> None:
    reply = server.post("/jobs", {"id": "mine"}, headers={"Idempotency-Key": "k"})
    assert (reply.status, reply.pointer) == (422, "/id")


# -- expiring, HEAD --------------------------------------------------------------------------------


def test_a_job_not_taken_before_it_expires_ends_cancelled_and_says_so(server: Server) -> None:
    job_id = created(server, "expiring", expires_at="2020-01-01T00:00:00Z")
    until(lambda: state(server, job_id) == "cancelled")
    assert taken(server, "expiring") == []
    assert server.get(f"/jobs/{job_id}/explain").json["reason"] == "expired"


def test_head_answers_like_get_without_a_body(server: Server) -> None:
    job_id = created(server, "heads", delay=60)
    for path in ("/jobs", f"/jobs/{job_id}", "/queues", "/livez"):
        got, head = server.get(path), server.ask("HEAD", path)
        assert (head.status, head.body) == (200, b"")
        assert head.headers["content-type"] == got.headers["content-type"]
    assert server.ask("HEAD", "/jobs/nobody").status == 404
