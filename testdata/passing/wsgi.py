"""The program around the Python of docs/passing.md, for WSGI."""
import contextvars
import os
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import onward

pool = ThreadPoolExecutor(1)
direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def call(headers):
    with direct.open(urllib.request.Request(os.environ["NEXT"], headers=headers)) as answer:
        return answer.read()


def app(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/now":
        body = call(onward.headers())
    elif path == "/later":
        body = pool.submit(contextvars.copy_context().run, lambda: call(onward.headers())).result()
    else:
        body = call({})
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]


class Server(WSGIServer):
    """Serves on two threads, again and again."""

    workers = ThreadPoolExecutor(2)

    def process_request(self, request, client_address):
        self.workers.submit(self.serve, request, client_address)

    def serve(self, request, client_address):
        self.finish_request(request, client_address)
        self.shutdown_request(request)


class Quiet(WSGIRequestHandler):
    def log_message(self, *args):
        pass


server = make_server("127.0.0.1", 0, onward.WSGI(app), Server, Quiet)
print(server.server_port, flush=True)
server.serve_forever()
