"""The sink that publishes captured messages of Celery, in a process that has the application."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from amqp.exceptions import ChannelError, MessageNacked
from kombu import Producer
from kombu.exceptions import OperationalError

from oncue.core.errors import InvalidInput, SinkDown
from oncue.core.job import Delivery
from oncue.ports.sink import Refusal, SinkTraits
from oncue.sinks.celery_message import MESSAGES, CeleryMessage

TOLD = (ChannelError, MessageNacked)
CONFIRM_SECONDS = 30.0  # a broker that does not say by then that it has a message is in trouble
SILENCE: dict[str, Sequence[str]] = {
    "amqp": ("read_timeout", "write_timeout"),
    "redis": ("socket_timeout", "socket_connect_timeout"),
}
"""What limits each wait for an answer, by the kind of broker. Else a connection that is dead, and
not closed, would keep what it is to publish from all pollers, for as long as this process runs."""


class CelerySink:
    """Publishes with kombu, on a connection for each batch: an idle one would be closed by brokers
    and firewalls between two polls. RabbitMQ confirms each message."""

    traits = SinkTraits(in_order=True)

    def __init__(self, app: Any) -> None:
        self._app = app

    def deliver(self, queue: str, batch: Sequence[Delivery]) -> Mapping[int, Refusal]:
        refused: dict[int, Refusal] = {}
        place = 0
        quotable: tuple[type[Exception], ...] = (OSError,)
        try:
            with self._connection() as connection:
                quotable += connection.connection_errors
                of_the_broker = _of_the_broker(connection)
                connection.connect()
                producer = self._producer(connection)
                for place, job in enumerate(batch):
                    try:
                        self._publish(producer, MESSAGES.read(job.payload))
                    except InvalidInput as problem:
                        refused[place] = Refusal(problem.detail, permanent=True)
                    except of_the_broker:
                        raise
                    except Exception as error:  # of this message, its exchange or queue alone
                        why = f"it cannot be published: {_told(error, TOLD)}"
                        refused[place] = Refusal(why, permanent=False)
                        producer.channel.close()  # if RabbitMQ has not done so
                        producer = self._producer(connection)
        except Exception as error:
            untaken = {**dict.fromkeys(range(place, len(batch))), **refused}
            why = f"the broker is in trouble: {_told(error, quotable)}"
            raise SinkDown(why, untaken=untaken) from None
        return refused

    def close(self) -> None:
        pass

    def _connection(self) -> Any:
        connection = self._app.connection_for_write()
        driver = connection.transport.driver_type
        options = dict.fromkeys(SILENCE.get(driver, ()), CONFIRM_SECONDS)
        options |= connection.transport_options
        if driver == "amqp":
            options["confirm_publish"] = True
        connection.transport_options = options
        return connection

    def _producer(self, connection: Any) -> Any:
        return Producer(connection.channel(), auto_declare=False)

    def _publish(self, producer: Any, message: CeleryMessage) -> None:
        properties = {
            "exchange": message.exchange,
            "routing_key": message.routing_key,
            "content_type": message.content_type,
            "content_encoding": message.content_encoding,
            "headers": message.headers,
            "declare": self._queues(message.declare),
            "serializer": None,
            "compression": None,
            "retry": False,
            "confirm_timeout": CONFIRM_SECONDS,
        }
        producer.publish(message.body, **{**message.properties, **properties})

    def _queues(self, names: Sequence[str]) -> list[Any]:
        """As the configuration of this process describes them. One that it does not know is taken
        to be there."""
        known = self._app.amqp.queues
        found = []
        for name in names:
            try:
                found.append(known[name])
            except KeyError:
                continue
        return found


def _of_the_broker(connection: Any) -> tuple[type[Exception], ...]:
    """The errors that are about the broker as a whole: Redis answers with some of them when it is
    full, or not the primary. `ChannelError` is about a message; and so is `KeyError` here, which
    kombu counts among those of connections to Redis."""
    every = (*connection.connection_errors, *connection.channel_errors, OSError, OperationalError)
    return tuple(one for one in every if one not in (ChannelError, KeyError))


def _told(error: Exception, quotable: tuple[type[Exception], ...]) -> str:
    """Of connections and channels; the messages of other errors may quote payloads."""
    kind = type(error).__name__
    return f"{kind}: {error}" if isinstance(error, quotable) else kind
