from typing import Any


class Temp:
    def schedules(self, after: Any, limit: int) -> Any:
        return []

    def rules(self, after: Any, limit: int) -> Any:
        return []

    def _prune_events(self, now: Any, bounds: Any) -> None: ...
    def nodes(self, now: Any) -> Any:
        return []

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)
