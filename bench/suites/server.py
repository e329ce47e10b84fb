"""Server: Retain's server compared with `adk api_server`, over HTTP on this machine.

One client program sends the same requests to both servers, one server at a time; the agents have
a mock model. The sessions are in memory first, and then in SQLite files on the same disk. The
suite compares throughput: answers per second of request time.

A sleeping core takes tens of microseconds to wake up, most of all in a virtual machine, and with
one client a core would fall asleep in every request. Therefore processes of idle priority keep
the cores awake. The suite also measures a bare socket with a fixed answer with the same client,
because no server can be faster than that.
"""

import http.client
import os
import pathlib
import signal
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

from harness import (
    DATA,
    HERE,
    PeerError,
    TARGET,
    Peer,
    build,
    filesystem,
    fsync_us,
    load_average,
    machine,
    middle,
    number,
    progress,
    ratios,
    say,
    spread,
    table,
)

LISTED = 10_000
ANSWER = "two quiet rooms"
MESSAGE = "Do you have two quiet rooms on a high floor for the nights of the third and the fourth?"
STORES = ("memory", "sqlite")
OURS, THEIRS, SOCKET = "retain", "adk api_server", "a bare socket"
AGENTS = HERE / "peers" / "google_adk" / "server" / "agents"


def run_body(prefix):
    message = '{"role":"user","parts":[{"text":"' + MESSAGE + '"}]}'
    owner = '"appName":"mock","userId":"bench-{i}"'
    return "{" + owner + ',"sessionId":"' + prefix + '-{i}","newMessage":' + message + "}"


def session_path(name=""):
    return "/apps/mock/users/bench/sessions" + (f"/{name}" if name else "")


class Row:
    """A kind of request. `counts` are the numbers per window for Retain and for google-adk."""

    def __init__(self, name, counts, request, **more):
        self.name, self.counts, self.request, self.more = name, counts, request, more
        self.runs = name.startswith("/run")

    def window(self, theirs, prefix, clients):
        method, path, body, expect, times = self.request(prefix)
        count = self.counts[1] if theirs else self.counts[0]
        return {
            "method": method,
            "path": path,
            "body": body,
            "expect": expect,
            "times": times,
            # With one client, fewer requests are enough for a slow server.
            "count": count // 4 if theirs and clients == 1 else count,
            **self.more,
        }


def create(prefix):
    """Create sessions of one user each, because Retain limits the concurrent runs of a user."""
    body = '{"sessionId":"' + prefix + '-{i}","state":{"number":1}}'
    return "POST", "/apps/mock/users/bench-{i}/sessions", body, '"lastUpdateTime"', 1


def get(events):
    return lambda _: ("GET", session_path(f"long-{events}"), "", '"invocationId"', events)


ROWS = [
    Row("create a session", (4000, 400), create),
    Row("/run", (2000, 128), lambda p: ("POST", "/run", run_body(p), ANSWER, 1)),
    Row(
        "/run_sse to the first event",
        (2000, 128),
        lambda p: ("POST", "/run_sse", run_body(p), ANSWER, 1),
        first_event=True,
    ),
    Row("get a session of 10 events", (4000, 400), get(10)),
    Row("get a session of 1,000 events", (400, 32), get(1000)),
    Row(
        "list 10,000 sessions",
        (64, 8),
        lambda _: ("GET", "/apps/mock/users/many/sessions", "", '"lastUpdateTime"', LISTED),
    ),
]
CLIENTS = (1, 32)
WARM_MS = 100
LIMIT = Row("a bare socket, for comparison", (8000, 0), create)


# ---- the servers ------------------------------------------------------------


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """A server process with its own sessions."""

    def __init__(self, name, store):
        self.name, self.store, self.port = name, store, free_port()
        directory = DATA / f"server-{name.replace(' ', '-')}-{store}"
        directory.mkdir(parents=True)
        self.log = open(directory / "log", "w+b")
        environment = dict(os.environ, BENCH_LISTED_SESSIONS=str(LISTED))
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        self.process = subprocess.Popen(
            self.command(directory), stdout=self.log, stderr=self.log, env=environment
        )
        self.wait()

    def command(self, directory):
        if self.name == SOCKET:
            return [*build("load"), str(self.port)]
        file = directory / "sessions.db"
        if self.name == OURS:
            own = [*build("server"), str(self.port), str(LISTED)]
            return own + ([str(file)] if self.store == "sqlite" else [])
        adk = pathlib.Path(build("google_adk")[0]).parent / "adk"
        uri = f"filled-sqlite://{file}" if self.store == "sqlite" else "filled-memory://"
        options = ["--port", str(self.port), "--session_service_uri", uri]
        options += ["--artifact_service_uri", "memory://", "--log_level", "warning"]
        return [str(adk), "api_server", *options, str(AGENTS)]

    def wait(self, seconds=90):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise PeerError(f"{self.name} exited: {self.last_line()}")
            try:
                if self.ask("GET", "/health")[0] == 200:
                    return
            except OSError:
                time.sleep(0.05)
        raise PeerError(f"{self.name} did not listen within {seconds} s: {self.last_line()}")

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            headers = {"content-type": "application/json"}
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def fill(self, events):
        """Create a session with `events` events through the server's own import."""
        one = '{"author":"%s","invocationId":"e-%d","id":"%d","timestamp":%d.5,'
        one += '"content":{"role":"%s","parts":[{"text":"%s"}]}}'
        who = (("user", "user"), ("assistant", "model"))
        text = (MESSAGE * 3)[:200]
        items = [
            one % (who[n % 2][0], n // 2, n, 1_700_000_000 + n, who[n % 2][1], text)
            for n in range(events)
        ]
        body = '{"sessionId":"long-%d","events":[%s]}' % (events, ",".join(items))
        status, answer = self.ask("POST", session_path(), body)
        if status != 200:
            raise PeerError(f"{self.name}: import answered {status}: {answer[:200]!r}")

    def last_line(self):
        self.log.flush()
        self.log.seek(0)
        lines = self.log.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it printed nothing"

    def stop(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.log.close()


def keep_awake():
    """Start one process of idle priority per core, which keeps the core awake."""

    def set_idle_priority():
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))

    command = [*build("load"), "awake"]
    cores = range(os.cpu_count() or 1)
    return [subprocess.Popen(command, preexec_fn=set_idle_priority) for _ in cores]


# ---- the suite --------------------------------------------------------------


class Suite:
    def __init__(self, quick):
        self.quick = quick
        self.rounds = 1 if quick else 3
        self.max_ms = 700 if quick else 5000
        self.samples = {}  # (store, clients, row, server): {round: answers per second}
        self.medians = {}  # same key: median request time of the last round, in microseconds
        self.failed = {}
        self.number = 0
        self.load = Peer("load", "load")
        if not self.load.start():
            raise PeerError("the package bench/peers/load does not exist")

    def measure(self):
        wanted = [(name, store) for store in STORES for name in (THEIRS, OURS)]
        wanted.append((SOCKET, "none"))
        progress("starting the servers")
        with ThreadPoolExecutor() as pool:
            futures = [pool.submit(Server, *one) for one in wanted]
        servers = {one: at.result() for one, at in zip(wanted, futures) if not at.exception()}
        awake = keep_awake()
        try:
            for at in futures:
                at.result()
            for (name, _), server in servers.items():
                for events in (10, 1000) if name != SOCKET else ():
                    server.fill(events)
            for store in STORES:
                pair = [servers[name, store] for name in (THEIRS, OURS)]
                for round_no in range(self.rounds):
                    self.round(store, pair if round_no % 2 == 0 else pair[::-1], round_no)
                    for clients in CLIENTS if store == "memory" else ():
                        self.attempt(store, clients, LIMIT, servers[SOCKET, "none"], round_no)
        finally:
            for server in servers.values():
                server.stop()
            for process in awake:
                process.kill()
                process.wait()

    def round(self, store, servers, round_no):
        for clients in CLIENTS:
            for row in ROWS:
                progress(f"{store}, {clients} clients, round {round_no + 1}: {row.name}")
                for server in servers:
                    self.attempt(store, clients, row, server, round_no)

    def attempt(self, store, clients, row, server, round_no):
        key = store, clients, row.name, server.name
        try:
            answer = self.window(clients, row, server)
        except PeerError as e:
            self.failed[key] = str(e)
            return
        # Exclude the client's time between requests and after a first event.
        at_a_time = min(clients, answer["ops"])
        self.samples.setdefault(key, {})[round_no] = answer["ops"] / answer["busy_us"] * at_a_time * 1e6
        self.medians[key] = answer["p50_us"]

    def window(self, clients, row, server):
        # Warm up, because this server was idle while the other one was measured.
        self.play(1, row, server, WARM_MS)
        return self.play(clients, row, server, self.max_ms)

    def play(self, clients, row, server, max_ms):
        self.number += 1
        prefix = f"w{self.number}"
        window = row.window(server.name == THEIRS, prefix, clients)
        if row.runs:
            # Each run is the first of its session, so that the sessions of a fast server do not grow.
            create_window = ROWS[0].window(server.name == THEIRS, prefix, clients)
            create_window["count"] = window["count"]
            self.load.ask(cmd="create", port=server.port, clients=8, max_ms=60_000, **create_window)
        return self.load.ask(
            cmd=row.name, port=server.port, clients=clients, max_ms=max_ms, **window
        )

    # ---- report

    def times(self, store, clients, row):
        ours = self.samples.get((store, clients, row.name, OURS), {})
        return ratios(ours, self.samples.get((store, clients, row.name, THEIRS), {}))

    def report(self):
        for store in STORES:
            for clients in CLIENTS:
                say(f"Sessions in {store}, {clients} client{'s' if clients > 1 else ''}")
                body = [self.line(store, clients, row) for row in ROWS]
                if store == "memory":
                    body.append(self.limit_line(clients))
                head = ["", "adk per second", "Retain per second", "adk p50 ms", "p50 ms", "times"]
                table(head, body)
                say()
        for (store, clients, row, name), why in self.failed.items():
            say(f"error: {store}, {clients} clients, {row}, {name}: {why}")

    def line(self, store, clients, row):
        cells = []
        for name in (THEIRS, OURS):
            rates = self.samples.get((store, clients, row.name, name), {}).values()
            cells.append(number(sum(rates) / len(rates)) if rates else "error")
        for name in (THEIRS, OURS):
            median = self.medians.get((store, clients, row.name, name))
            cells.append("-" if median is None else f"{median / 1000:.2f}")
        return [row.name, *cells, spread(self.times(store, clients, row))]

    def limit(self, clients):
        """Return the throughput of a bare socket divided by that of google-adk's cheapest answer."""
        ours = self.samples.get(("memory", clients, LIMIT.name, SOCKET), {})
        theirs = self.samples.get(("memory", clients, ROWS[0].name, THEIRS), {})
        return ratios(ours, theirs)

    def limit_line(self, clients):
        key = "memory", clients, LIMIT.name, SOCKET
        rates = self.samples.get(key, {}).values()
        rate = number(sum(rates) / len(rates)) if rates else "error"
        median = f"{self.medians.get(key, 0) / 1000:.2f}"
        return [LIMIT.name, "", rate, "", median, spread(self.limit(clients)) + " of create"]

    def worst(self, store, clients):
        """Return the worst row's median, or None if a row is missing, which might be the worst."""
        found = [middle(self.times(store, c, row)) for c in clients for row in ROWS]
        return None if None in found else min(found)

    def keys(self, ready_ms, rss_mb):
        lists = [middle(self.times(store, 1, ROWS[-1])) for store in STORES]
        return {
            "memory_worst_row_vs_adk": self.worst("memory", CLIENTS),
            "sqlite32_worst_row_vs_adk": self.worst("sqlite", (32,)),
            "list10k_vs_adk": None if None in lists else min(lists),
            "bare_socket_vs_adk_create_1_client": middle(self.limit(1)),
            "ready_ms": ready_ms,
            "rss_mb_1000_sse": rss_mb,
        }


# ---- the binary itself ------------------------------------------------------


def binary():
    """Build `retain` with the profile of the packages."""
    root = HERE.parent
    target = TARGET / "root"
    command = ["cargo", "build", "--profile", "dist", "--quiet", "--bin", "retain"]
    environment = dict(os.environ, CARGO_TARGET_DIR=str(target))
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise PeerError("the build of `retain` failed")
    return target / "dist" / "retain"


def alone(program, streams):
    """Measure the startup time on a new database, and the memory while `streams` clients
    follow an idle session."""
    directory = DATA / "server-alone"
    directory.mkdir(parents=True)
    port = free_port()
    log = open(directory / "log", "wb")
    begin = time.perf_counter()
    process = subprocess.Popen(
        [str(program), "serve", "--port", str(port)], cwd=directory, stdout=log, stderr=log
    )
    try:
        ready = wait_ready(port, process)
        ready_ms = round((ready - begin) * 1000)
        before = rss_mb(process.pid)
        sockets = follow(port, streams)
        after = rss_mb(process.pid)
        for one in sockets:
            one.close()
        return ready_ms, before, after
    finally:
        process.kill()
        process.wait()
        log.close()


def wait_ready(port, process):
    while process.poll() is None:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", "/ready")
            status = connection.getresponse().status
            connection.close()
            if status == 200:
                return time.perf_counter()
        except OSError:
            pass
        time.sleep(0.002)
    raise PeerError("`retain serve` exited before it was ready")


def follow(port, count):
    base = "/api/v1/apps/assistant/users/bench/sessions"
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    headers = {"content-type": "application/json"}
    connection.request("POST", base, '{"sessionId":"followed"}', headers)
    if connection.getresponse().status != 201:
        raise PeerError("cannot create the session to follow")
    connection.close()
    ask = f"GET {base}/followed/tail HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\r\n".encode()
    sockets = []
    for _ in range(count):
        one = socket.create_connection(("127.0.0.1", port), timeout=30)
        one.sendall(ask)
        sockets.append(one)
    for one in sockets:
        if b" 200 " not in one.recv(64):
            raise PeerError("a client cannot follow the session")
    return sockets


def rss_mb(pid):
    for line in open(f"/proc/{pid}/status"):
        if line.startswith("VmRSS"):
            return round(int(line.split()[1]) / 1024, 1)
    return None


def main(quick, peers):
    if peers:
        raise SystemExit("this suite always compares both servers; omit --peers")
    DATA.mkdir(parents=True, exist_ok=True)
    progress("building")
    program = binary()
    for package in ("server", "google_adk"):
        build(package)
    suite = Suite(quick)
    say(f"{machine()}; load {load_average()}; {filesystem()}, sync {fsync_us():.0f} us")
    say()
    suite.measure()
    suite.load.stop()
    suite.report()
    ready_ms, before, after = alone(program, 1000)
    say(f"`retain serve` on a new database is ready after {ready_ms} ms.")
    say(f"It uses {before} MB, and {after} MB with 1,000 clients that follow an idle session.")
    return suite.keys(ready_ms, after)
