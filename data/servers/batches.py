"""An HTTP server that computes requests together: POST /, GET /health and GET /metrics."""

import queue
import threading
import time
from concurrent.futures import Future
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WAIT_S = 0.01
"""Time that an open batch waits for more parts."""


def serve(port, batch, read, answer, join, kind):
    """Compute at most ``batch`` parts of requests at a time.

    ``read`` divides the body of a request into parts, ``answer`` turns a list of parts into as many
    results, and ``join`` makes the reply, of media type ``kind``, of the results of one request.
    """
    waiting = queue.Queue()
    running = []

    def work():
        while True:
            running[:] = [waiting.get()]
            closes = time.monotonic() + WAIT_S
            while len(running) < batch:
                try:
                    running.append(waiting.get(timeout=max(0.0, closes - time.monotonic())))
                except queue.Empty:
                    break
            try:
                found = answer([part for part, _ in running])
                for (_, future), result in zip(running, found, strict=True):
                    future.set_result(result)
            except Exception as error:
                for _, future in running:
                    if not future.done():
                        future.set_exception(error)
            running.clear()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            gauges = f"requests_waiting {waiting.qsize()}\nrequests_running {len(running)}\n"
            page = {"/health": "ready\n", "/metrics": gauges}.get(self.path)
            self.reply(404 if page is None else 200, page or "", "text/plain")

        def do_POST(self):
            try:
                parts = read(self.rfile.read(int(self.headers["Content-Length"])))
            except Exception as error:
                self.reply(400, f"{error}\n", "text/plain")
                return
            futures = [Future() for _ in parts]
            for pair in zip(parts, futures, strict=True):
                waiting.put(pair)
            try:
                self.reply(200, join([future.result() for future in futures]), kind)
            except Exception as error:
                self.reply(500, f"{error}\n", "text/plain")

        def reply(self, status, content, media):
            content = content.encode() if isinstance(content, str) else content
            self.send_response(status)
            self.send_header("Content-Type", media)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    threading.Thread(target=work, daemon=True).start()
    print(f"ready on port {port}", flush=True)
    ThreadingHTTPServer(("0.0.0.0", port), Handler).serve_forever()
