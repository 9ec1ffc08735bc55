from typing import Any


class Temp:
    def schedules(self, after: Any, limit: int) -> Any:
        return []

    def nodes(self, now: Any) -> Any:
        return []

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)
