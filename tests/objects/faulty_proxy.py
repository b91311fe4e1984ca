"""A proxy in front of a store of objects, which counts requests and may spoil answers."""

import http.client
import http.server
import threading


class Proxy:
    """Passes requests on to (host, port), as long as `with` lasts.

    spoil(number, handler, status, headers, body) may answer the request of this number, from 0, by
    itself, and then returns True.
    """

    def __init__(self, host, port, spoil=None):
        self.requests = []  # (method, path, headers)
        self.spoil = spoil
        self._lock = threading.Lock()
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):  # pylint: disable=invalid-name
                with proxy._lock:
                    number = len(proxy.requests)
                    proxy.requests.append((self.command, self.path, dict(self.headers)))
                # With the headers as they are: Host is a part of what is signed.
                store = http.client.HTTPConnection(host, port)
                store.putrequest(self.command, self.path, skip_host=True,
                                 skip_accept_encoding=True)
                for name, value in self.headers.items():
                    store.putheader(name, value)
                store.endheaders()
                answer = store.getresponse()
                body = answer.read()
                headers = [(name, value) for name, value in answer.getheaders()
                           if name.lower() not in ("content-length", "connection",
                                                   "transfer-encoding")]
                store.close()
                self.close_connection = True
                if proxy.spoil and proxy.spoil(number, self, answer.status, headers, body):
                    return
                self.send(answer.status, headers, body)

            def send(self, status, headers, body, announced=None):
                """`announced`: the length that the answer claims to have."""
                self.send_response_only(status)
                for name, value in headers:
                    self.send_header(name, value)
                self.send_header("Content-Length", announced or len(body))
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
