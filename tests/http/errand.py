"""What a worker does all day, in one call each."""

from __future__ import annotations

from typing import Any

from tests.http.server import Reply, Server


def created(server: Server, queue: str, **fields: Any) -> str:
    """The id of a new job."""
    reply = server.post("/jobs", {"queue": queue, **fields})
    assert reply.status == 201, reply.body
    return str(reply.json["id"])


def taken(server: Server, queue: str, **wishes: Any) -> list[Any]:
    """What a claim on a queue is given."""
    reply = server.post(f"/queues/{queue}/claim", wishes)
    assert reply.status == 200, reply.body
    return list(reply.json["items"])


def one_taken(server: Server, queue: str, **wishes: Any) -> Any:
    """A new job of the queue, in the hands of a worker."""
    job_id = created(server, queue)
    [job] = taken(server, queue, **wishes)
    assert job["id"] == job_id
    return job


def told(server: Server, job: Any, verb: str, **fields: Any) -> Reply:
    """A report on a claimed job, with its token."""
    return server.post(f"/jobs/{job['id']}/{verb}", {"token": job["token"], **fields})


def state(server: Server, job_id: str) -> str:
    return str(server.get(f"/jobs/{job_id}").json["state"])


def count(server: Server) -> int:
    """How many jobs there are, whatever their state."""
    queues = server.get("/queues?limit=500").json["items"]
    return sum(sum(queue["counts"].values()) for queue in queues)
