"""A chat endpoint on a free port that answers as a test tells it, and remembers what it was asked."""

import contextlib
import json
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from magjax.evaluation.rag import GeneratorSettings


def completion(answer, **usage):
    """The body of a chat completion; usage as (prompt_tokens=, completion_tokens=)."""
    content = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": answer},
                "finish_reason": "stop",
            }
        ],
    }
    if usage:
        content["usage"] = usage | {"total_tokens": sum(usage.values())}
    return 200, {}, content


def failure(status, message="something broke", **headers):
    """An error as OpenAI words it."""
    return status, headers, {"error": {"message": message, "type": "server_error", "code": None}}


class ChatServer:
    """Serves ``/v1/models`` and ``/v1/chat/completions``.

    ``answer(prompt, time)`` gives (status, headers, content): content is sent as JSON, or as it is
    if it is bytes; ``time`` counts from 1 how often this prompt came.
    """

    def __init__(self, answer, models=None, delay=0.0):
        self.answer = answer
        self.models = models or (200, {}, {"object": "list", "data": [{"id": "tiny"}]})
        self.delay = delay
        self.asked = Counter()
        self.bodies = []
        self.headers = []
        self.paths = []
        self.at_once = 0
        self.most_at_once = 0
        self.lock = threading.Lock()
        self.stopped = threading.Event()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.server.handle_error = lambda *_: None  # clients that were killed or gave up
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.server.server_address[1]}/v1"

    def settings(self, **changes):
        """Settings that lose no time."""
        quick = {"model": "tiny", "backoff": 0.001, "attempts": 3, "timeout": 10.0}
        return GeneratorSettings(endpoint=self.endpoint, **(quick | changes))

    def close(self):
        self.stopped.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def _handler(self):
        chat = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                with chat.lock:
                    chat.paths.append(self.path)
                    chat.headers.append(dict(self.headers))
                self.reply(*chat.models)

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                prompt = body["messages"][-1]["content"]
                with chat.lock:
                    chat.paths.append(self.path)
                    chat.headers.append(dict(self.headers))
                    chat.bodies.append(body)
                    chat.asked[prompt] += 1
                    times = chat.asked[prompt]
                    chat.at_once += 1
                    chat.most_at_once = max(chat.most_at_once, chat.at_once)
                try:
                    chat.stopped.wait(chat.delay)
                    reply = chat.answer(prompt, times)
                finally:
                    with chat.lock:
                        chat.at_once -= 1
                self.reply(*reply)

            def reply(self, status, headers, content):
                raw = content if isinstance(content, bytes) else json.dumps(content).encode()
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name.replace("_", "-"), value)
                if "Content_Length" not in headers:
                    self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

        return Handler


@contextlib.contextmanager
def serving(answer, **how):
    """A running :class:`ChatServer`."""
    server = ChatServer(answer, **how)
    try:
        yield server
    finally:
        server.close()


def wait_until(condition, seconds=60.0):
    """Waits for a condition of another process."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)
