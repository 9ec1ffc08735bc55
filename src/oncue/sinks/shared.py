"""A sink that several engines have, one after the other."""

from __future__ import annotations

from oncue.ports.sink import Sink, traits_of


class SharedSink:
    """A sink whose connections and threads outlive an engine, which does not close it."""

    def __init__(self, sink: Sink) -> None:
        self.traits, self.deliver = traits_of(sink), sink.deliver

    def close(self) -> None:
        pass
