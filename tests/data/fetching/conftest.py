"""A real HTTP server of files, which can be as bad as servers are."""

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


@dataclass
class Server:
    """``files``: path -> content. ``ranges``: whether it knows Range. ``tags``: whether it sends an ETag. ``cuts``: how
    many bytes each next answer sends before it cuts the connection. ``statuses``: what each next answer is instead.
    ``lengths``: whether it says how long a file is. ``extra``: bytes it claims beyond the file's end.
    ``seconds_a_block``: how slowly it sends blocks of 10,000 bytes. ``asked``: (path, Range) of each request."""

    address: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    ranges: bool = True
    tags: bool = True
    lengths: bool = True
    extra: int = 0
    cuts: list[int] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    seconds_a_block: float = 0.0
    asked: list[tuple[str, str | None]] = field(default_factory=list)


class _Handler(BaseHTTPRequestHandler):
    server: "_HTTPServer"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        told = self.server.told
        asked = self.headers.get("Range")
        told.asked.append((self.path, asked))
        content = told.files.get(self.path)
        if told.statuses or content is None:
            self.send_error(told.statuses.pop(0) if told.statuses else 404)
            return
        tag = f'"{hash(content)}"'
        begins = 0
        unchanged = self.headers.get("If-Range") in (None, tag)
        if asked and told.ranges and unchanged:
            begins = int(asked.removeprefix("bytes=").rstrip("-"))
            if begins >= len(content):
                self.send_response(416)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {begins}-{len(content) - 1}/{len(content)}")
        else:
            self.send_response(200)
        if told.tags:
            self.send_header("ETag", tag)
        if told.lengths:
            self.send_header("Content-Length", str(len(content) - begins + told.extra))
        self.end_headers()
        body = content[begins:]
        if told.cuts:
            body = body[: told.cuts.pop(0)]
        for start in range(0, len(body), 10_000):
            self.wfile.write(body[start : start + 10_000])
            self.wfile.flush()
            time.sleep(told.seconds_a_block)
        self.close_connection = True


class _HTTPServer(ThreadingHTTPServer):
    told: Server

    def handle_error(self, *_: object) -> None:
        """A client that goes away is no news."""


@pytest.fixture
def server() -> Iterator[Server]:
    with _HTTPServer(("127.0.0.1", 0), _Handler) as served:
        served.daemon_threads = True
        served.told = Server(f"http://127.0.0.1:{served.server_port}")
        thread = threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield served.told
        served.shutdown()
        thread.join()
