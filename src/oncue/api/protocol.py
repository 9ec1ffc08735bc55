"""HTTP/1.1 on the wire, for what never becomes a request."""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from oncue.api.problem import MEDIA_TYPE, Problem


class Protocol(HttpToolsProtocol):
    """What is not HTTP gets a problem as its answer, like everything else that goes wrong."""

    def send_400_response(self, msg: str) -> None:
        body = Problem(400, "malformed", "This is not a request that HTTP/1.1 knows.").body()
        head = [
            "HTTP/1.1 400 Bad Request",
            f"content-type: {MEDIA_TYPE}",
            f"content-length: {len(body)}",
            "connection: close",
        ]
        self.transport.write("\r\n".join([*head, "", ""]).encode() + body)
        self.transport.close()
