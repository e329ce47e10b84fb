"""Tenants: one client works while another one attacks the same server.

The server runs with `--memory-limit 512MB`, pinned to one core; the clients share another. A window
is either polite or hostile: the measured client sends the same requests at the same pace, and the
other one sends as many requests per second, either the same ones or large bodies, lists that nobody
reads, tails and wrong input. Windows of both kinds alternate. The suite compares the 99th
percentile of the measured client, and reads the peak memory of the server at the end.
"""

import http.client
import json
import os
import pathlib
import socket
import subprocess
import threading
import time

from harness import DATA, PeerError, middle, progress, ratios, say, spread, table
from suites.server import binary, free_port, wait_ready

LIMIT = "512MB"
KEYS = {"measured": "ada", "other": "mallory"}
# Requests per second of each client.
PACE = 40
MESSAGE = "Do you have two quiet rooms on a high floor?"


def p99(times):
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]


def polite_requests(user, prefix):
    """Yield requests of an ordinary client: it creates, runs, reads and lists."""
    number = 0
    while True:
        number += 1
        name = f"{prefix}-{number // 8}"
        path = f"/apps/assistant/users/{user}/sessions/{name}"
        owner = {"appName": "assistant", "userId": user, "sessionId": name}
        message = {"role": "user", "parts": [{"text": MESSAGE}]}
        if number % 8 == 0:
            yield "POST", path, json.dumps({"n": number})
        elif number % 4 == 1:
            yield "POST", "/run", json.dumps({**owner, "newMessage": message})
        else:
            yield "GET", f"/api/v1/apps/assistant/users/{user}/sessions?limit=10", ""


def hostile_requests():
    """Yield requests that try to use much memory."""
    sessions = "/apps/assistant/users/mallory/sessions"
    api = "/api/v1/apps/assistant/users/mallory"
    owner = '{"appName":"assistant","userId":"mallory","sessionId":"large-0"'
    wrong = owner + ',"newMessage":{"parts":[' + "1," * 250_000 + "1]}}"
    lists = owner + ',"stateDelta":{"k":[' + "[]," * 300_000 + "1]}}"
    deep = '{"k":' * 200_000
    large = json.dumps({"k": "x" * 4_000_000})
    run = owner + ',"newMessage":{"role":"user","parts":[{"text":"hello"}]}}'
    number = 0
    while True:
        number += 1
        yield "POST", f"{sessions}/new-{number}", large
        yield "POST", "/run", wrong
        yield "GET", f"{api}/sessions/large-0/tail", ""
        yield "GET", sessions, ""
        yield "POST", "/run", lists
        yield "GET", f"{sessions}/large-0", ""
        yield "POST", f"{sessions}/x", deep
        yield "GET", f"{api}/export", ""
        yield "POST", "/run", run


class Server:
    """The server of one suite, with an API key for each client."""

    def __init__(self, program, cores):
        self.directory = DATA / "tenants"
        self.directory.mkdir(parents=True)
        self.port = free_port()
        create = [str(program), "keys", "create", "--store", "sqlite:///retain.db"]
        self.keys = {
            name: self.output([*create, "--app", "assistant", "--user", user])
            for name, user in KEYS.items()
        }
        serve = [str(program), "serve", "--port", str(self.port), "--memory-limit", LIMIT]
        serve += ["--session-service-uri", "sqlite:///retain.db", "--requests-per-key", "1000"]
        self.log = open(self.directory / "log", "wb")
        self.process = subprocess.Popen(
            serve, cwd=self.directory, stdout=self.log, stderr=self.log
        )
        os.sched_setaffinity(self.process.pid, cores)
        wait_ready(self.port, self.process)

    def output(self, command):
        done = subprocess.run(command, cwd=self.directory, capture_output=True, text=True)
        if done.returncode:
            raise PeerError(f"cannot create a key: {done.stderr.strip()}")
        return done.stdout.strip()

    def ask(self, client, method, path, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            headers = {"content-type": "application/json", "x-api-key": self.keys[client]}
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            answer.read()
            return answer.status
        finally:
            connection.close()

    def send_only(self, client, method, path, body):
        """Send a request and return its connection, of which nothing is read."""
        one = socket.create_connection(("127.0.0.1", self.port), timeout=10)
        head = f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{self.port}\r\n"
        head += f"content-type: application/json\r\nx-api-key: {self.keys[client]}\r\n"
        try:
            one.sendall(f"{head}content-length: {len(body)}\r\n\r\n{body}".encode())
        except OSError:
            # The server has answered before it read the body.
            pass
        return one

    def peak_mb(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        return round(int(line.split()[1]) * 1024 / 1e6)

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.log.close()


def paced(seconds, requests, send):
    """Call `send` for one request after another, at the pace of the suite."""
    begin = time.perf_counter()
    for number, request in enumerate(requests):
        due = begin + number / PACE
        # A server that is slow to read delays the client, which then sends fewer requests.
        if max(due, time.perf_counter()) > begin + seconds:
            return
        time.sleep(max(0, due - time.perf_counter()))
        send(request)


class Suite:
    def __init__(self, quick):
        self.rounds, self.seconds = (3, 4) if quick else (9, 15)
        self.p99 = {"polite": {}, "hostile": {}}
        self.failed = 0

    def measure(self, server):
        for name in range(2):
            body = json.dumps({"k": "x" * 16_000_000})
            path = f"/apps/assistant/users/mallory/sessions/large-{name}"
            if server.ask("other", "POST", path, body) != 200:
                raise PeerError("cannot create a session with a large state")
        for round_no in range(self.rounds):
            kinds = ["polite", "hostile"]
            for kind in kinds if round_no % 2 == 0 else kinds[::-1]:
                progress(f"round {round_no + 1}: {kind}")
                self.p99[kind][round_no] = self.window(server, kind, f"{kind}-{round_no}")

    def window(self, server, kind, prefix):
        times = []

        def measured(request):
            begin = time.perf_counter()
            status = server.ask("measured", *request)
            times.append(time.perf_counter() - begin)
            self.failed += status != 200

        is_polite = kind == "polite"
        requests = polite_requests("mallory", prefix) if is_polite else hostile_requests()
        open_connections = []

        def other(request):
            if is_polite:
                server.ask("other", *request)
            else:
                open_connections.append(server.send_only("other", *request))

        thread = threading.Thread(target=paced, args=(self.seconds, requests, other))
        thread.start()
        paced(self.seconds, polite_requests("ada", prefix), measured)
        thread.join()
        for one in open_connections:
            one.close()
        # The next window must not start while the server works on this one.
        while server.ask("measured", "GET", "/health", "") != 200:
            pass
        time.sleep(0.5)
        return p99(times)


def main(quick, _peers):
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise PeerError("needs two cores: one for the server, one for the clients")
    program = os.environ.get("RETAIN_BIN") or binary()
    suite, server = Suite(quick), Server(pathlib.Path(program).resolve(), {cores[0]})
    os.sched_setaffinity(0, set(cores[1:2]))
    try:
        suite.measure(server)
        peak = server.peak_mb()
    finally:
        server.stop()
        os.sched_setaffinity(0, set(cores))
    versus = ratios(suite.p99["hostile"], suite.p99["polite"])
    rows = [
        [kind, *(f"{one * 1000:.1f}" for one in suite.p99[kind].values())]
        for kind in ("polite", "hostile")
    ]
    table(["p99 in ms, by round", *(str(n + 1) for n in range(suite.rounds))], rows)
    say()
    say(f"hostile / polite: {spread(versus)}; peak memory {peak} MB; failed {suite.failed}")
    return {"p99_vs_polite": middle(versus), "peak_rss_mb": peak, "failed": suite.failed}
