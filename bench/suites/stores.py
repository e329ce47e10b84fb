"""Stores: appends, reads, lists and concurrent writers on one PostgreSQL server. The suite starts
the server for the run and deletes it afterwards.

Windows of the peers alternate. The suite computes ratios per round, between windows that
ran next to each other, and reports the median of the rounds.
"""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import harness
from harness import (
    Peer,
    PeerError,
    Results,
    Unsupported,
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
    start_peers,
    table,
)

RAW, RETAIN, GOOGLE = "raw", "retain", "google-adk"
SESSIONS, EVENTS = 1000, 1000


def columns():
    return [
        Peer(RAW, "stores", "raw", note="the floor: one transaction, sent at once; 20 connections"),
        Peer(RETAIN, "stores", "retain", note="pool of 20"),
        Peer("adk-rs", "stores", "adk-rs", note="append_event on a live session; pool of 8"),
        Peer("adk-rust", "stores", "adk-rust", note="append_event_for_identity; pool of 10"),
        Peer(GOOGLE, "google_adk", "postgres", note="DatabaseSessionService, asyncpg; pool of 5 + 10"),
    ]


ROWS = [
    ("append", "append, 1 writer"),
    ("lazy", "the same, without fsync"),
    ("tail", "newest 10 of 1,000"),
    ("read", "read a session of 1,000"),
    ("list", "list 1,000 sessions"),
    ("own 8", "append, 8 writers"),
    ("own 64", "append, 64 writers"),
]


class Services:
    """The PostgreSQL of this run."""

    def __init__(self):
        self.dir = harness.DATA / "services"
        self.program = harness.HERE.parent / "scripts" / "services"
        harness.DATA.mkdir(parents=True, exist_ok=True)
        # The data is on the disk of the repository, as in the other suites, if the user that runs
        # the server has access to it.
        self.place = filesystem()
        started = self.call("--data", str(harness.DATA), "start")
        # The message of scripts/services if the server's user has no access to the folder.
        if started.returncode and "cannot access" in started.stderr:
            self.place = "the system's folder for temporary files"
            started = self.call("start")
        if started.returncode:
            sys.exit((started.stdout + started.stderr).strip())
        for line in (self.dir / "env").read_text().splitlines():
            self.url = line.partition("TEST_POSTGRES_URL=")[2]
        self.version = self.sql("SHOW server_version")

    def call(self, *arguments, database="postgres"):
        command = [str(self.program), "--dir", str(self.dir), "--owner", str(os.getpid())]
        env = dict(os.environ, PGDATABASE=database)
        return subprocess.run([*command, *arguments], capture_output=True, text=True, env=env)

    def sql(self, statement, database="postgres"):
        done = self.call("sql", "postgres", statement, database=database)
        if done.returncode:
            raise PeerError(done.stderr.strip())
        return done.stdout.strip()

    def database(self, name):
        """Create a database with byte order for text, which is the cheapest for all."""
        self.sql(
            f'CREATE DATABASE "{name}" TEMPLATE template0 ENCODING UTF8'
            " LOCALE_PROVIDER libc LC_COLLATE 'C' LC_CTYPE 'C'"
        )
        return self.url.rsplit("/", 1)[0] + f"/{name}"

    def set_durable(self, is_durable):
        """Turn durable commits on, or off for loading and for the row without fsync."""
        for name in ("synchronous_commit", "fsync"):
            self.sql(f"ALTER SYSTEM SET {name} = {'on' if is_durable else 'off'}")
        self.sql("SELECT pg_reload_conf()")

    def settle(self):
        """Finish the background work of loading before the first window."""
        for name in self.sql("SELECT datname FROM pg_database WHERE datallowconn").split():
            self.sql("VACUUM ANALYZE", name)
        self.sql("CHECKPOINT")

    def stop(self):
        self.call("stop")


class Sizes:
    """The work per window."""

    def __init__(self, quick):
        self.quick = quick
        self.rounds = 9 if quick else 15
        self.close_ms, self.other_ms = (200, 150) if quick else (1000, 600)

    def takes_part(self, row, peer, round_no):
        """Whether the peer runs the row in this round. With --quick, fewer rounds of the rows that no
        ratio needs."""
        if not self.quick:
            return True
        if row in ("append", "lazy") and peer.name in (RAW, RETAIN):
            return True
        if row == "own 64" and peer.name in (RETAIN, GOOGLE):
            return round_no < 5
        return round_no < (3 if peer.name in (RAW, RETAIN) else 1)

    def max_ms(self, peer, row):
        if row == "own 64":
            # Long enough that each of the 64 writers appends several times, even with a small pool:
            # google-adk appends a few hundred events per second.
            if self.quick:
                return 1500 if peer.name == GOOGLE else 400
            return 2000
        return self.close_ms if peer.name in (RAW, RETAIN) else self.other_ms


class Suite:
    def __init__(self, quick, wanted):
        self.sizes, self.results = Sizes(quick), Results()
        self.peers = start_peers(columns(), wanted)
        self.failed, self.notes, self.disk = {}, {}, []
        self.services = None

    def attempt(self, row, peer, work):
        """Run work(); an error marks the cell and is reported, never raised."""
        if (row, peer.name) in self.failed:
            return None
        try:
            return work()
        except Unsupported as e:
            self.failed[row, peer.name] = ("-", str(e))
        except PeerError as e:
            self.failed[row, peer.name] = ("error", str(e))
        return None

    def prepare(self):
        """Create two databases per peer, one for the list and one for everything else, and fill
        them."""
        progress("loading")
        self.services.set_durable(False)
        urls = {
            (peer.name, store): self.services.database(f"{peer.name}-{store}")
            for peer in self.peers for store in ("list", "main")
        }

        def load(peer):
            for store in ("list", "main"):
                url = urls[peer.name, store]
                answer = peer.ask(cmd="open", store=store, dir=url, variant=peer.variant)
                peer.version = answer["version"]
            ids = [f"s{n}" for n in range(SESSIONS)]
            peer.ask(cmd="load", store="list", sessions=ids, events=0)
            peer.ask(cmd="load", store="main", sessions=["long"], events=EVENTS)
            peer.ask(cmd="load", store="main", sessions=["grows"], events=0)
            # Open the connections and prepare the statements.
            self.writers("own 64", peer, "warm", 300)
            progress(f"loaded {peer.name}")
            return True

        def attempt(peer):
            if not self.attempt(ROWS[0][0], peer, lambda: load(peer)):
                for row, _ in ROWS[1:]:
                    self.failed[row, peer.name] = self.failed[ROWS[0][0], peer.name]

        with ThreadPoolExecutor() as threads:
            list(threads.map(attempt, self.peers))
        progress("settling")
        self.services.settle()
        self.services.set_durable(True)
        names = ("fsync", "synchronous_commit", "full_page_writes")
        self.settings = ", ".join(f"{n} {self.services.sql(f'SHOW {n}')}" for n in names)

    def writers(self, row, peer, round_no, max_ms):
        count = int(row.split()[1])
        return peer.ask(
            cmd="writers", store="main", prefix=f"w{count}-{round_no}", writers=count,
            each=1_000_000, own=True, max_ms=max_ms,
        )

    def window(self, row, peer, round_no):
        max_ms = self.sizes.max_ms(peer, row)
        if row in ("append", "lazy"):
            return peer.ask(
                cmd="append", store="main", sessions=["grows"], count=1_000_000, max_ms=max_ms)
        if row == "list":
            answer = peer.ask(cmd="list", store="list", repeat=1_000, max_ms=max_ms)
            return self.expect(answer, SESSIONS, "sessions")
        if row in ("tail", "read"):
            newest = 10 if row == "tail" else None
            answer = peer.ask(
                cmd="read", store="main", session="long", newest=newest, repeat=100_000,
                max_ms=max_ms)
            return self.expect(answer, newest or EVENTS, "events")
        answer = self.writers(row, peer, round_no, max_ms)
        note = self.notes.setdefault((row, peer.name), {"errors": 0, "tried": 0, "kept": 0})
        note["errors"] += answer.get("errors", 0)
        note["tried"] += answer["attempted"]
        note["kept"] += answer["kept"]
        if "first_error" in answer:
            note.setdefault("why", answer["first_error"])
        return answer

    def expect(self, answer, wanted, what):
        if answer["events"] != wanted:
            raise PeerError(f"returned {answer['events']} {what}, not {wanted}")
        return answer

    def measure(self):
        for row, title in ROWS:
            progress(title)
            self.disk.append((row, fsync_us()))
            if row == "lazy":
                self.services.set_durable(False)
            for round_no in range(self.sizes.rounds):
                for peer in self.peers if round_no % 2 == 0 else self.peers[::-1]:
                    if not self.sizes.takes_part(row, peer, round_no):
                        continue
                    answer = self.attempt(row, peer, lambda: self.window(row, peer, round_no))
                    if answer:
                        self.results.add(row, peer, round_no, answer)
            if row == "lazy":
                self.services.set_durable(True)

    # ---- report

    def cell(self, row, peer):
        if (row, peer.name) in self.failed:
            return self.failed[row, peer.name][0]
        wall = self.results.median(row, peer.name, "wall_us")
        return number(wall)

    def report(self):
        say("Microseconds of wall time per operation, medians of the rounds. With several writers:")
        say("the time of the window divided by the appends of all writers.")
        say()
        table(["", *(p.name for p in self.peers)],
              [[title, *(self.cell(row, p) for p in self.peers)] for row, title in ROWS])
        say()
        say("Appends per second:")
        body = []
        for row, title in ROWS:
            if row not in ("append", "lazy") and not row.startswith("own"):
                continue
            walls = [self.results.median(row, p.name, "wall_us") for p in self.peers]
            body.append([title, *(number(1e6 / wall if wall else None) for wall in walls)])
        table(["", *(p.name for p in self.peers)], body)
        say()
        say("CPU of the peer's process per operation, microseconds (without the database server):")
        table(["", *(p.name for p in self.peers)],
              [[title, *(number(self.results.median(row, p.name, "cpu_us")) for p in self.peers)]
               for row, title in ROWS])
        say()
        for p in self.peers:
            say(f"  {p.name:<12} {p.version:<16} {p.note}".rstrip())
        self.reasons()

    def reasons(self):
        reasons = {}
        for (row, name), (_, why) in self.failed.items():
            reasons.setdefault((name, why), []).append(dict(ROWS)[row])
        lines = [f"  {name}, {', '.join(rows)}: {why}" for (name, why), rows in reasons.items()]
        for (row, name), note in self.notes.items():
            if note["errors"] or note["kept"] != note["tried"]:
                lines.append(
                    f"  {name}, {dict(ROWS)[row]}: {note['tried']} attempted, {note['kept']} stored,"
                    f" {note['errors']} failed, first: {note.get('why')}")
        if lines:
            say()
            say("Errors and unsupported operations:")
            for line in lines:
                say(line)

    def keys(self):
        def wall(row, name):
            note = self.notes.get((row, name))
            if note and note["kept"] != note["tried"]:
                # Lost events do not count as throughput.
                return {}
            return self.results.per_op(row, name, "wall_us")

        lists = {
            "pg_append_vs_raw": (
                "append, 1 writer: latency / the floor's",
                ratios(wall("append", RETAIN), wall("append", RAW))),
            "pg_append_lazy_vs_raw": (
                "the same without fsync",
                ratios(wall("lazy", RETAIN), wall("lazy", RAW))),
            "pg_writers64_vs_google_adk": (
                "64 writers: throughput / google-adk's",
                ratios(wall("own 64", GOOGLE), wall("own 64", RETAIN))),
        }
        words = [f"  {key:<28} {spread(v):<38} {text}" for key, (text, v) in lists.items()]
        return {key: middle(values) for key, (_, values) in lists.items()}, words


def main(quick, wanted):
    begun, load_before = time.monotonic(), load_average()
    suite = Suite(quick, wanted)
    built = time.monotonic()
    try:
        suite.services = Services()
        suite.prepare()
        suite.measure()
    finally:
        for peer in suite.peers:
            peer.stop()
        if suite.services:
            suite.services.stop()
    say()
    suite.report()
    result, words = suite.keys()
    say()
    say("Retain, median of the rounds:")
    for line in words:
        say(line)
    say()
    disk = ", ".join(f"{number(us)} at {row}" for row, us in suite.disk)
    say(f"PostgreSQL {suite.services.version} on {suite.services.place}: {suite.settings}")
    say(f"Disk ({filesystem()}): write + fdatasync of 4 KiB, median us: {disk}")
    say(f"Machine: {machine()}; load {load_before} before, {load_average()} after")
    say(f"Time: {built - begun:.0f} s to build and start,"
        f" {time.monotonic() - built:.0f} s to load and measure ({suite.sizes.rounds} rounds)")
    return result
