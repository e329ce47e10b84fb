"""Turns: the cost of one turn of an agent as its session grows.

A turn is a complete run of the peer's own runner: a user's message in, the answer of a mock
model out, both stored. The suite measures only CPU time, because with a mock model the wall
time of a durable store is that of the disk.
"""

import time

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

RETAIN = "retain"
RUST_PEERS = ("adk-rs", "adk-rust")
GOOGLE = ("google-sqlite", "google-db")


def rows():
    """Return the rows of the table. A row is a peer on one of its stores, in its own process."""
    sqlite, memory = "turns-sqlite", "turns-memory"
    return [
        Peer(RETAIN, "retain", sqlite),
        Peer("adk-rs", "adk-rs", sqlite),
        Peer("adk-rust", "adk-rust", sqlite, "its agent sends the instruction as a content"),
        Peer("google-sqlite", "google_adk", sqlite, "google-adk SqliteSessionService"),
        Peer("google-db", "google_adk", "turns-database", "google-adk DatabaseSessionService"),
        Peer("retain-memory", "retain", memory),
        Peer("adk-rs-memory", "adk-rs", memory),
        Peer("adk-rust-memory", "adk-rust", memory),
        Peer("google-memory", "google_adk", memory, "google-adk InMemorySessionService"),
    ]


class Point:
    """A column of the table: `count` turns around turn `turn`, in each of `sessions` sessions, in
    `stores` new stores per round. google-adk has its own `count` and `sessions` and one store,
    because its turns are slow."""

    def __init__(self, name, turn, count, google, sessions=1, warm=2, stores=1):
        self.name, self.turn, self.warm, self.stores = name, turn, warm, stores
        self.count, self.sessions, self.google = count, sessions, google

    def plan(self, peer):
        own = self.count, self.sessions
        count, sessions = self.google if peer.package == "google_adk" else own
        history = self.turn - count // 2 - 1 - self.warm
        return {"sessions": sessions, "history": history, "warm": self.warm, "count": count}


# Run as many turns per store as at turn 500, because each window has a fixed cost (a checkpoint).
TEN = Point("10", 10, 5, google=(5, 3), sessions=4, stores=2)
FIVE_HUNDRED = Point("500", 500, 20, google=(6, 1), stores=2)
# The first turn of a session that this process has not seen, so that no cache helps.
COLD = Point("500 cold", 500, 1, google=(1, 1), warm=0, stores=3)
POINTS = [
    Point("1", 1, 1, google=(1, 10), sessions=24, warm=0),
    TEN,
    Point("100", 100, 10, google=(10, 1)),
    FIVE_HUNDRED,
    Point("2,000", 2000, 20, google=(4, 1)),
    COLD,
]


def check(plan, answer):
    """Raise unless each turn sent the whole history to the model and stored two events."""
    before, ops, seen = plan["history"] + plan["warm"], answer["ops"], answer["seen"]
    done = [min(max(ops - s * plan["count"], 0), plan["count"]) for s in range(plan["sessions"])]
    turns = [before + n for in_session in done for n in range(1, in_session + 1)]
    if len(seen) != len(turns):
        raise PeerError(f"{len(turns)} turns called the model {len(seen)} times")
    for turn, contents in zip(turns, seen):
        if contents != 2 * turn - 1:
            raise PeerError(f"turn {turn} sent {contents} contents, not {2 * turn - 1}")
    wanted = [2 * (before + in_session) for in_session in done]
    if answer["stored"] != wanted:
        raise PeerError(f"events stored in the sessions: {answer['stored']}, not {wanted}")


class Suite:
    def __init__(self, quick, wanted):
        self.quick = quick
        # Retain, the Rust peers, google-adk.
        self.rounds = [7, 3, 2] if quick else [9, 9, 4]
        self.max_ms = 3000 if quick else 20_000
        self.points = [TEN, FIVE_HUNDRED, COLD] if quick else POINTS
        taken = [p for p in rows() if not (quick and p.variant == "turns-memory")]
        self.results = Results()
        self.failed = {}  # (point, row): (what the cell shows, reason)
        self.turns = 0
        self.peers = start_peers(taken, wanted)

    def takes_part(self, point, peer, round_no):
        if point is COLD and peer.variant == "turns-memory":
            return False
        retain, rust, google = self.rounds
        return round_no < {"retain": retain, "google_adk": google}.get(peer.package, rust)

    def measure(self):
        """Alternate the peers: A B C, then C B A, and so on."""
        for round_no in range(max(self.rounds)):
            progress(f"round {round_no + 1} of {max(self.rounds)}")
            for point in self.points:
                for peer in self.peers if round_no % 2 == 0 else self.peers[::-1]:
                    if self.takes_part(point, peer, round_no):
                        self.attempt(point, peer, round_no)

    def attempt(self, point, peer, round_no):
        """Run one round's windows; an error marks the cell and is reported, never raised."""
        if (point.name, peer.name) in self.failed:
            return
        try:
            stores = 1 if peer.package == "google_adk" else point.stores
            answers = [self.window(point, peer) for _ in range(stores)]
            total = {what: sum(a[what] for a in answers) for what in ("ops", "cpu_us")}
            self.results.add(point.name, peer, round_no, total)
        except Unsupported as e:
            self.failed[point.name, peer.name] = ("-", str(e))
        except PeerError as e:
            self.failed[point.name, peer.name] = ("error", str(e))

    def window(self, point, peer):
        """Run one window on a new store, so that no peer pays for sessions of other windows."""
        peer.open("turns")
        try:
            plan = point.plan(peer)
            answer = peer.ask(cmd="turns", store="turns", prefix="s", max_ms=self.max_ms, **plan)
            check(plan, answer)
            self.turns += answer["ops"]
            return answer
        finally:
            if not peer.dead:
                peer.close("turns")

    # ---- report

    def cell(self, point, peer):
        if (point.name, peer.name) in self.failed:
            return self.failed[point.name, peer.name][0]
        return number(self.results.median(point.name, peer.name, "cpu_us"))

    def report(self):
        say("CPU microseconds per turn (whole process, user + system), medians of the rounds.")
        say("Columns: the turn of the session; cold: in a session the process has not seen.")
        say()
        body = [[p.name, *(self.cell(point, p) for point in self.points)] for p in self.peers]
        table(["", *(f"turn {point.name}" for point in self.points)], body)
        say()
        say(f"Checked: each of the {self.turns:,} timed turns sent the model its whole history")
        say("(2 x turn - 1 contents) and left two more events in the store.")
        say()
        say("Store as read back from SQLite (synchronous 2 = FULL):")
        for p in self.peers:
            note = f"  {p.note}" if p.note else ""
            say(f"  {p.name:<16} {p.version:<14} {p.durability:<32}{note}".rstrip())
        reasons = {}
        for (point, name), (kind, why) in self.failed.items():
            reasons.setdefault((name, kind, why), []).append(f"turn {point}")
        if reasons:
            say()
            say("Errors and unsupported operations:")
            for (name, kind, why), where in reasons.items():
                say(f"  {name}, {', '.join(where)}: {'error: ' if kind == 'error' else ''}{why}")

    def keys(self):
        """Return the JSON object of the last line, and lines that explain it."""

        def cpu(point, name):
            return self.results.per_op(point, name, "cpu_us")

        def best(point, names):
            """Return the lowest value of each round, or nothing if a peer is missing or failed,
            because it might have been the best."""
            found = [cpu(point, name) for name in names]
            if any((point, name) in self.failed for name in names):
                return {}
            return {t: min(f[t] for f in found) for t in found[0] if all(t in f for f in found)}

        def memory(names):
            return [f"{name}-memory" for name in names]

        lists = {
            "turn500_vs_best_rust_peer": (
                "turn 500, SQLite: CPU of the best Rust peer / Retain's",
                ratios(best("500", RUST_PEERS), cpu("500", RETAIN))),
            "turn500_vs_google_adk": (
                "turn 500, SQLite: CPU of google-adk's better service / Retain's",
                ratios(best("500", GOOGLE), cpu("500", RETAIN))),
            "turn500_vs_turn10": (
                "Retain on SQLite: CPU of turn 500 / of turn 10",
                ratios(cpu("500", RETAIN), cpu("10", RETAIN))),
            "turn500_cold_vs_best_rust_peer": (
                "the same in a session the process has not seen",
                ratios(best(COLD.name, RUST_PEERS), cpu(COLD.name, RETAIN))),
            "turn500_cold_vs_google_adk": (
                "the same in a session the process has not seen",
                ratios(best(COLD.name, GOOGLE), cpu(COLD.name, RETAIN))),
            "turn500_memory_vs_best_rust_peer": (
                "turn 500, in memory (not with --quick)",
                ratios(best("500", memory(RUST_PEERS)), cpu("500", "retain-memory"))),
            "turn500_memory_vs_google_adk": (
                "turn 500, in memory (not with --quick)",
                ratios(best("500", ["google-memory"]), cpu("500", "retain-memory"))),
        }
        result = {key: middle(values) for key, (_, values) in lists.items()}
        words = [f"  {key:<34} {spread(v):<38} {text}" for key, (text, v) in lists.items()]
        return result, words


def main(quick, wanted):
    begun, load_before = time.monotonic(), load_average()
    suite = Suite(quick, wanted)
    built = time.monotonic()
    disk = [fsync_us()]
    try:
        suite.measure()
    finally:
        for peer in suite.peers:
            peer.stop()
    disk.append(fsync_us())
    say()
    suite.report()
    result, words = suite.keys()
    say()
    if any(p.name == RETAIN for p in suite.peers):
        say("Retain, median of the rounds:")
        for line in words:
            say(line)
        say()
    say(f"Disk ({filesystem()}): write + fdatasync of 4 KiB, median us:"
        f" {number(disk[0])} before, {number(disk[1])} after")
    say(f"Machine: {machine()}; load {load_before} before, {load_average()} after")
    say(f"Time: {built - begun:.0f} s to build and start, {time.monotonic() - built:.0f} s to"
        f" measure ({' / '.join(map(str, suite.rounds))} rounds: Retain / Rust / google-adk)")
    return result
