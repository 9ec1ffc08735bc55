"""The SQS sink: how jobs become calls and messages, and what becomes of what SQS does not take."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ClientError, NoCredentialsError

from oncue.clock import FakeClock
from oncue.core.errors import InvalidInput, SinkDown
from oncue.core.job import Delivery
from oncue.ports.sink import Refusal, SinkTraits
from oncue.sinks import open_sink
from oncue.sinks.sqs import SqsSink
from oncue.sinks.sqs_address import CALLS_AT_ONCE, SqsAddress

Answer = Callable[[Sequence[Any]], Any]
NOW = 1_800_000_000_000


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oncue.sinks.sqs.PAUSE_SECONDS", 0)


class Sqs:
    """In place of a client. `answer` is called with the entries of each call."""

    def __init__(self, answer: Answer = lambda entries: took(entries)) -> None:
        self.calls: list[list[Any]] = []
        self._answer = answer

    def send_message_batch(self, *, QueueUrl: str, Entries: Sequence[Any]) -> Any:
        self.calls.append(list(Entries))
        return self._answer(Entries)

    @property
    def sent(self) -> list[list[str]]:
        """The ids of the jobs of each call."""
        return [[job_id(entry) for entry in call] for call in self.calls]


def job_id(entry: Any) -> str:
    return str(entry["MessageAttributes"]["oncue-job-id"]["StringValue"])


def sink(sqs: Sqs, name: str = "jobs") -> SqsSink:
    return SqsSink(SqsAddress(name, url=f"https://sqs/1/{name}"), FakeClock(NOW), sqs)


def jobs(number: int, **fields: Any) -> list[Delivery]:
    return [Delivery(f"job-{n}", NOW, b"{}", 1)._replace(**fields) for n in range(number)]


def error(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code}}, "SendMessageBatch")


def took(entries: Sequence[Any], failed: Sequence[Any] = ()) -> dict[str, Any]:
    """The answer of SQS, which took all messages but those that failed."""
    others = {one["Id"] for one in entries} - {one["Id"] for one in failed}
    return {"Successful": [{"Id": one} for one in others], "Failed": list(failed)}


def fail(entry: Any, code: str, *, sender: bool) -> dict[str, Any]:
    return {"Id": entry["Id"], "Code": code, "SenderFault": sender}


def test_ten_messages_make_a_call() -> None:
    sqs = Sqs()
    assert sink(sqs).deliver("mail", jobs(25)) == {}
    assert sorted(map(len, sqs.calls)) == [5, 10, 10]
    assert {one for call in sqs.sent for one in call} == {f"job-{n}" for n in range(25)}


def test_a_call_holds_no_more_than_a_mebibyte() -> None:
    sqs = Sqs()
    sink(sqs).deliver("mail", jobs(9, payload=b'"' + b"x" * 256 * 1024 + b'"'))
    assert sorted(map(len, sqs.calls)) == [3, 3, 3]


def test_a_message_tells_which_job_it_is() -> None:
    sqs = Sqs()
    one = Delivery("a", NOW - 5, '{"n":"ü"}'.encode(), 3, "1.2.3", "mail", "ada")
    sink(sqs).deliver("mail", [one])
    assert sqs.calls == [
        [
            {
                "Id": "0",
                "MessageBody": '{"n":"ü"}',
                "MessageAttributes": {
                    "oncue-job-id": {"DataType": "String", "StringValue": "a"},
                    "oncue-attempt": {"DataType": "Number", "StringValue": "3"},
                    "oncue-due-at": {
                        "DataType": "String",
                        "StringValue": "2027-01-15T07:59:59.995Z",
                    },
                    "oncue-token": {"DataType": "String", "StringValue": "1.2.3"},
                },
            }
        ]
    ]


@pytest.mark.parametrize(
    ("ahead_ms", "delay"), [(0, None), (-1, None), (1, 1), (1000, 1), (89_001, 90), (10**7, 900)]
)
def test_what_is_left_until_due_is_the_delay_and_never_less(
    ahead_ms: int, delay: int | None
) -> None:
    sqs = Sqs()
    sink(sqs).deliver("mail", jobs(1, due_at=NOW + ahead_ms))
    assert sqs.calls[0][0].get("DelaySeconds") == delay


def test_a_message_of_a_fifo_queue_has_a_group_and_is_recognised_if_it_is_sent_again() -> None:
    sqs = Sqs()
    fifo = sink(sqs, "jobs.fifo")
    assert fifo.traits == SinkTraits(ahead_seconds=0.0, in_order=True)
    ours = [
        Delivery("a", NOW, b"1", 1, owner="ada"),
        Delivery("b", NOW + 9000, b"1", 3),
        Delivery("c", NOW, b"1", 1, owner="Ä da"),
    ]
    fifo.deliver("mail", ours)
    entries = {job_id(entry): entry for call in sqs.calls for entry in call}
    ids = {
        one: (entry["MessageGroupId"], entry["MessageDeduplicationId"])
        for one, entry in entries.items()
    }
    assert (ids["a"], ids["b"]) == (("ada", "a:0"), ("b", "b:2"))
    assert len(ids["c"][0]) == 64
    assert "DelaySeconds" not in entries["b"]


def test_a_group_of_a_fifo_queue_is_sent_in_order() -> None:
    sqs = Sqs()
    ours = [one._replace(owner=f"owner {at % 3}") for at, one in enumerate(jobs(100))]
    sink(sqs, "jobs.fifo").deliver("mail", ours)
    sent = [one for call in sqs.sent for one in call]
    for owner in range(3):
        expected = [one.id for at, one in enumerate(ours) if at % 3 == owner]
        assert [one for one in sent if one in expected] == expected


def test_as_many_calls_are_under_way_as_there_are_connections() -> None:
    meeting = threading.Barrier(CALLS_AT_ONCE, timeout=60)

    def meet(entries: Sequence[Any]) -> Any:
        meeting.wait()
        return took(entries)

    sqs = Sqs(meet)
    assert sink(sqs).deliver("mail", jobs(10 * CALLS_AT_ONCE)) == {}


@pytest.mark.parametrize("threads", [0, 2])
def test_each_call_is_made_once_when_no_more_threads_are_to_be_had(
    monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    """As when the program ends, in the middle of a batch."""
    submit = ThreadPoolExecutor.submit
    begun: list[Any] = []

    def end(*arguments: Any) -> Any:
        if len(begun) == threads:
            raise RuntimeError("cannot schedule new futures after interpreter shutdown")
        begun.append(arguments)
        return submit(*arguments)

    monkeypatch.setattr(ThreadPoolExecutor, "submit", end)
    sqs = Sqs()
    assert sink(sqs).deliver("mail", jobs(45)) == {}
    assert sorted(name for call in sqs.sent for name in call) == sorted(job.id for job in jobs(45))


def test_single_messages_that_were_not_taken_are_sent_again() -> None:
    failing = {"job-1": 2, "job-2": 1}

    def answer(entries: Sequence[Any]) -> Any:
        failed = [one for one in entries if failing.get(job_id(one), 0) > 0]
        for one in failed:
            failing[job_id(one)] -= 1
        return took(entries, [fail(one, "InternalError", sender=False) for one in failed])

    sqs = Sqs(answer)
    assert sink(sqs).deliver("mail", jobs(4)) == {}
    assert sqs.sent == [["job-0", "job-1", "job-2", "job-3"], ["job-1", "job-2"], ["job-1"]]


@pytest.mark.parametrize(
    ("code", "sender", "permanent"),
    [
        ("InvalidMessageContents", True, True),
        ("InternalError", False, False),
        ("KmsThrottled", True, False),
        ("AccessDenied", True, False),
        ("OverLimit", True, False),
        ("ExpiredToken", True, False),
    ],
)
def test_a_message_that_is_never_taken_is_refused(code: str, sender: bool, permanent: bool) -> None:
    def answer(entries: Sequence[Any]) -> Any:
        bad = [one for one in entries if job_id(one) == "job-1"]
        return took(entries, [fail(one, code, sender=sender) for one in bad])

    refused = sink(Sqs(answer)).deliver("mail", jobs(3))
    assert refused == {1: Refusal(f"SQS: {code}", permanent)}


@pytest.mark.parametrize("code", ["InvalidMessageContents", "BatchRequestTooLong"])
def test_a_call_that_is_refused_for_one_message_is_made_for_each(code: str) -> None:
    def answer(entries: Sequence[Any]) -> Any:
        if any(job_id(one) == "job-1" for one in entries):
            raise error(f"AWS.SimpleQueueService.{code}")
        return took(entries)

    sqs = Sqs(answer)
    refused = sink(sqs).deliver("mail", jobs(3))
    assert refused == {1: Refusal(f"SQS: AWS.SimpleQueueService.{code}", permanent=True)}
    assert sqs.sent == [["job-0", "job-1", "job-2"], ["job-0"], ["job-1"], ["job-2"]]


def test_trouble_before_anything_was_taken_says_nothing_of_single_jobs() -> None:
    def answer(entries: Sequence[Any]) -> Any:
        raise error("RequestThrottled")

    with pytest.raises(SinkDown, match="SQS queue jobs: RequestThrottled") as raised:
        sink(Sqs(answer)).deliver("mail", jobs(30))
    assert raised.value.untaken is None


def test_trouble_in_the_middle_tells_what_was_not_taken_and_ends_the_batch() -> None:
    def answer(entries: Sequence[Any]) -> Any:
        if "job-0" in map(job_id, entries):
            bad = [one for one in entries if job_id(one) == "job-3"]
            return took(entries, [fail(one, "InvalidMessageContents", sender=True) for one in bad])
        raise error("RequestThrottled")

    sqs = Sqs(answer)
    ours = [one._replace(owner="ada") for one in jobs(50)]  # one after the other
    with pytest.raises(SinkDown) as raised:
        sink(sqs, "jobs.fifo").deliver("mail", ours)
    assert len(sqs.calls) == 2
    untried = dict.fromkeys(range(10, 50))
    assert raised.value.untaken == {3: Refusal("SQS: InvalidMessageContents", True), **untried}


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (error("AWS.SimpleQueueService.NonExistentQueue"), "does not exist"),
        (error("AccessDenied"), "needs? sqs:SendMessage"),
        (error("KMS.AccessDeniedException"), "need kms:GenerateDataKey"),
        (error("ExpiredToken"), "were not accepted"),
        (NoCredentialsError(), "no usable credentials"),
    ],
)
def test_trouble_is_told_with_what_to_do(problem: Exception, text: str) -> None:
    def answer(entries: Sequence[Any]) -> Any:
        raise problem

    with pytest.raises(SinkDown, match=text):
        sink(Sqs(answer)).deliver("mail", jobs(1))


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("sqs://jobs", SqsAddress("jobs")),
        ("sqs://jobs.fifo?region=eu-west-1", SqsAddress("jobs.fifo", "eu-west-1")),
        (
            "sqs://jobs?region=x&endpoint=http://localhost:4566",
            SqsAddress("jobs", "x", "http://localhost:4566"),
        ),
        (
            "https://sqs.eu-west-1.amazonaws.com/123456789012/jobs",
            SqsAddress(
                "jobs", "eu-west-1", None, "https://sqs.eu-west-1.amazonaws.com/123456789012/jobs"
            ),
        ),
        (
            "http://localhost:4566/000000000000/jobs",
            SqsAddress(
                "jobs", None, "http://localhost:4566", "http://localhost:4566/000000000000/jobs"
            ),
        ),
    ],
)
def test_a_url_names_the_queue(url: str, address: SqsAddress) -> None:
    assert SqsAddress.read(url) == address


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("sqs:", "names no SQS queue; write it as sqs://QUEUE"),
        ("sqs://jobs/x", "names no SQS queue"),
        ("sqs://jo bs", "cannot be the name of an SQS queue"),
        ("sqs://jobs?delay=1", "'delay' is not an option of an SQS sink"),
        ("sqs://key:secret@jobs", "credentials do not belong into the URL of a sink"),
        ("https://example.com/hook", "there is no sink for"),
    ],
)
def test_a_url_of_another_form_is_refused(url: str, text: str) -> None:
    with pytest.raises(InvalidInput, match=text) as raised:
        open_sink(url)
    assert "secret" not in str(raised.value)
    assert raised.value.pointer == "/sink"


@pytest.mark.parametrize("answer", [{"Failed": [{"Id": "99"}]}, {"Failed": [{"Id": "x"}]}, None])
def test_an_answer_that_is_none_is_trouble_of_the_sink(answer: Any) -> None:
    both = threading.Barrier(2)

    def reply(entries: Sequence[Any]) -> Any:
        both.wait(5)
        return answer if job_id(entries[0]) == "job-0" else took(entries)

    with pytest.raises(SinkDown) as met:
        sink(Sqs(reply)).deliver("mail", jobs(15))
    assert met.value.untaken == dict.fromkeys(range(10))


class Looked(Sqs):
    """A queue that is asked whether it is there; `problem`: what it answers."""

    def __init__(self, problem: Exception | None) -> None:
        super().__init__()
        self.problem = problem

    def get_queue_url(self, *, QueueName: str) -> Any:
        return self.get_queue_attributes(QueueUrl=QueueName, AttributeNames=[])

    def get_queue_attributes(self, *, QueueUrl: str, AttributeNames: Sequence[str]) -> Any:
        if self.problem is not None:
            raise self.problem
        return {}


def test_a_region_that_is_not_known_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    url = "http://localhost:4566/000000000000/jobs"
    unplaced = SqsSink(SqsAddress("jobs", url=url), FakeClock(NOW))
    with pytest.raises(SinkDown, match="no region is known for SQS queue jobs"):
        unplaced.deliver("mail", jobs(1))
    with pytest.raises(SinkDown, match="set AWS_DEFAULT_REGION"):
        unplaced.check()


@pytest.mark.parametrize("url", [None, "https://sqs/1/jobs"])
def test_a_queue_can_be_asked_whether_it_is_there(url: str | None) -> None:
    def asked(problem: Exception | None) -> SqsSink:
        return SqsSink(SqsAddress("jobs", url=url), FakeClock(NOW), Looked(problem))

    asked(None).check()
    asked(error("AccessDenied")).check()  # who may send need not have the right to look
    with pytest.raises(SinkDown, match="SQS queue jobs does not exist"):
        asked(error("AWS.SimpleQueueService.NonExistentQueue")).check()


@pytest.mark.parametrize("named", [0, 1, 9])
def test_what_the_answer_does_not_name_was_not_taken(named: int) -> None:
    """A server that is not SQS may answer with anything, and status 200."""

    def reply(entries: Sequence[Any]) -> Any:
        return {"Successful": took(entries[:named])["Successful"]} if named else {}

    with pytest.raises(SinkDown, match="does not say what became of the messages") as met:
        sink(Sqs(reply)).deliver("mail", jobs(10))
    assert met.value.untaken == (dict.fromkeys(range(named, 10)) if named else None)


def test_a_failure_of_a_message_of_another_call_is_not_counted() -> None:
    def reply(entries: Sequence[Any]) -> Any:
        return took(entries, [{"Id": "0", "Code": "InvalidMessageContents", "SenderFault": True}])

    refused = sink(Sqs(reply)).deliver("mail", jobs(15))
    assert refused == {0: Refusal("SQS: InvalidMessageContents", permanent=True)}
