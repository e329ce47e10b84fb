"""Sessions: creates, appends, reads and concurrent writers on durable SQLite stores.

Windows of the peers alternate. The suite computes ratios per round, between windows that
ran next to each other, and reports the median of the rounds.
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

RAW, RETAIN, RUNNER = "raw", "retain", "adk-rs-runner"


def columns():
    return [
        Peer(RAW, "raw", note="the floor: rusqlite, one thread, no service layer"),
        Peer(RETAIN, "retain"),
        Peer("adk-rs", "adk-rs", note="append_event on a live session"),
        Peer(RUNNER, "adk-rs", "runner", note="append_event_locked, what its Runner calls"),
        Peer("adk-rust", "adk-rust", note="append_event_for_identity"),
        Peer("google-sqlite", "google_adk", "sqlite", note="google-adk SqliteSessionService"),
        Peer("google-db", "google_adk", "database", note="google-adk DatabaseSessionService"),
    ]


# Row, title. The part before the space is the group.
ROWS = [
    ("create", "create a session"),
    ("append 100", "append at event 100"),
    ("append 2000", "append at event 2,000"),
    ("append 100000", "append at event 100,000"),
    ("read 10", "read a session of 10"),
    ("read 1000", "read a session of 1,000"),
    ("read 10000", "read a session of 10,000"),
    ("read tail", "newest 10 of 10,000"),
    ("own 8", "8 writers, own sessions"),
    ("own 64", "64 writers, own sessions"),
    ("one 8", "8 writers, one session"),
    ("one 64", "64 writers, one session"),
]


class Sizes:
    """The work per window. The `close` windows are those of the floor and of Retain,
    whose ratios are reported; the other peers need less precision."""

    def __init__(self, quick):
        self.rounds = 5 if quick else 11
        self.close_ms, self.other_ms = (200, 80) if quick else (1500, 600)
        self.append = 400 if quick else 1200
        self.create = 100 if quick else 600
        self.own_each = {8: 80, 64: 40} if quick else {8: 400, 64: 200}
        self.one_each = {8: 20, 64: 5} if quick else {8: 100, 64: 20}
        self.quick = quick

    def takes_part(self, row, peer, round_no):
        """Whether the peer runs the row in this round. With --quick, peers other than raw and Retain
        run once, or twice if a ratio needs them; google-adk skips rows that take many seconds."""
        if peer.name in (RAW, RETAIN) or not self.quick:
            return True
        if peer.package == "google_adk" and row in ("append 100000", "own 64", "one 64"):
            return False
        return round_no == 0 or (round_no == 2 and row == "read tail")

    def max_ms(self, peer):
        return self.close_ms if peer.name in (RAW, RETAIN) else self.other_ms


class Suite:
    def __init__(self, quick, wanted):
        self.sizes = Sizes(quick)
        self.results = Results()
        self.peers = start_peers(columns(), wanted)
        self.disk = []  # (group, fsync time)
        self.failed = {}  # (row, column): reason
        self.notes = {}  # (row, column): errors, retries and the first error

    def begin(self, group):
        progress(group)
        self.disk.append((group, fsync_us()))

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

    def run_rounds(self, rows, window):
        """Alternate the peers: A B C, then C B A, and so on."""
        for round_no in range(self.sizes.rounds):
            order = self.peers if round_no % 2 == 0 else self.peers[::-1]
            for row in rows:
                for peer in order:
                    if peer.name == RUNNER and not row.startswith("append"):
                        continue
                    if not self.sizes.takes_part(row, peer, round_no):
                        continue
                    answer = self.attempt(row, peer, lambda: window(row, peer, round_no))
                    if answer:
                        self.results.add(row, peer, round_no, answer)

    def open(self, store, rows, prepare=None):
        for peer in self.peers:
            if peer.name == RUNNER and store[0] != "a":
                continue
            if not any(self.sizes.takes_part(row, peer, 0) for row in rows):
                continue

            def work():
                peer.open(store)
                if prepare:
                    prepare(peer)
                return True

            for row in rows if not self.attempt(rows[0], peer, work) else []:
                self.failed.setdefault((row, peer.name), self.failed[rows[0], peer.name])

    def close(self, *stores):
        for peer in self.peers:
            for store in stores:
                try:
                    peer.close(store)
                except (PeerError, Unsupported):
                    pass  # never opened, or already reported

    # ---- groups

    def creates(self):
        self.begin("creates")
        self.open("create", ["create"])

        def window(row, peer, round_no):
            return peer.ask(
                cmd="create", store="create", prefix=f"c{round_no}",
                count=self.sizes.create, max_ms=self.sizes.max_ms(peer),
            )

        self.run_rounds(["create"], window)
        self.close("create")

    def appends(self):
        progress("loading 100,000 events")
        at = {"append 100": 100, "append 2000": 2000, "append 100000": 100_000}

        def load(peer):
            peer.ask(cmd="load", store="a100000", sessions=["long"], events=100_000)
            # Load the peer's live session, if it has one, and pay its initial costs (a growing
            # list, cold pages) before the first window.
            peer.ask(cmd="append", store="a100000", sessions=["long"], count=30, max_ms=400)

        for row, events in at.items():
            self.open(f"a{events}", [row], load if events == 100_000 else None)
        self.begin("appends")

        def window(row, peer, round_no):
            store, count = f"a{at[row]}", self.sizes.append
            if at[row] == 100_000:
                sessions, each = ["long"], count
            elif at[row] == 2000:
                # New sessions, so that the window is around event 2,000.
                sessions, each, start = [f"s{round_no}"], count, 2000 - count // 2
            else:
                sessions, each, start = [f"s{round_no}-{i}" for i in range(count // 100)], 100, 50
            if at[row] != 100_000:
                peer.ask(cmd="load", store=store, sessions=sessions, events=start)
            return peer.ask(
                cmd="append", store=store, sessions=sessions, count=each,
                max_ms=self.sizes.max_ms(peer),
            )

        self.run_rounds(list(at), window)
        self.close(*(f"a{n}" for n in at.values()))

    def reads(self):
        self.begin("reads")
        rows = ["read 10", "read 1000", "read 10000", "read tail"]

        def load(peer):
            for events in (10, 1000, 10_000):
                peer.ask(cmd="load", store="reads", sessions=[f"r{events}"], events=events)

        self.open("reads", rows, load)
        quick = self.sizes.quick

        def window(row, peer, round_no):
            tail = row == "read tail"
            events = 10_000 if tail else int(row.split()[1])
            repeat = {10: 300, 1000: 30, 10_000: 3}[10 if tail else events]
            answer = peer.ask(
                cmd="read", store="reads", session=f"r{events}",
                newest=10 if tail else None, repeat=repeat * (1 if quick else 3),
                max_ms=self.sizes.max_ms(peer),
            )
            wanted = 10 if tail else events
            if answer["events"] != wanted:
                raise PeerError(f"returned {answer['events']} events, not {wanted}")
            return answer

        self.run_rounds(rows, window)
        self.close("reads")

    def writers(self):
        self.begin("writers")
        rows = ["own 8", "own 64", "one 8", "one 64"]
        self.open("writers", rows)

        def window(row, peer, round_no):
            kind, count = row.split()
            each = getattr(self.sizes, f"{kind}_each")[int(count)]
            longer = 2 if kind == "one" and peer.name not in (RAW, RETAIN) else 1
            answer = peer.ask(
                cmd="writers", store="writers", prefix=f"{kind}{count}-{round_no}",
                writers=int(count), each=each, own=kind == "own",
                max_ms=self.sizes.max_ms(peer) * longer,
            )
            note = self.notes.setdefault((row, peer.name), {"errors": 0, "retries": 0})
            note["errors"] += answer.get("errors", 0)
            note["retries"] += answer.get("retries", 0)
            if "first_error" in answer:
                note.setdefault("why", answer["first_error"])
            return answer

        self.run_rounds(rows, window)
        self.close("writers")

    # ---- report

    def cell(self, row, peer):
        if (row, peer.name) in self.failed:
            return self.failed[row, peer.name][0]
        cpu = self.results.median(row, peer.name, "cpu_us")
        wall = self.results.median(row, peer.name, "wall_us")
        if wall is None:
            return "none stored" if self.results.rounds(row, peer.name) else "-"
        return f"{number(cpu)} / {number(wall)}"

    def fractions(self, row, peer):
        if (row, peer.name) in self.failed:
            return self.failed[row, peer.name][0]
        kept = self.results.fraction(row, peer.name, "kept")
        counter = self.results.fraction(row, peer.name, "counter")
        return "-" if kept is None else f"{kept:.0%} / {counter:.0%}"

    def report(self):
        shown = [p for p in self.peers if p.name != RUNNER]
        say("Microseconds per operation, CPU / wall (CPU: whole process, user + system).")
        say("Medians of the rounds. One operation is one create, one append or one read.")
        say()
        body = [[title, *(self.cell(row, p) for p in shown)] for row, title in ROWS]
        table(["", *(p.name for p in shown)], body)
        say()
        say("Writers: stored share of the attempted appends, by events / by counter. Each append adds 1")
        say("to the counter that it read from the session, so the counter shows lost updates.")
        say()
        body = [
            [title, *(self.fractions(row, p) for p in shown)]
            for row, title in ROWS if row.startswith("o")
        ]
        table(["", *(p.name for p in shown)], body)
        counted = [
            [title, *(number(self.results.median(row, p.name, "instructions")) for p in shown)]
            for row, title in ROWS
        ]
        say()
        if any(c != "-" for line in counted for c in line[1:]):
            say("Instructions per operation.")
            table(["", *(p.name for p in shown)], counted)
        else:
            say("Instructions per operation: - (this machine does not count them)")
        runner = next((p for p in self.peers if p.name == RUNNER), None)
        if runner:
            cells = [self.cell(f"append {n}", runner) for n in (100, 2000, 100_000)]
            say()
            say("adk-rs through append_event_locked (what its own Runner calls; it copies the")
            say(f"session each time), append at 100, 2,000, 100,000: {', '.join(cells)}")
        say()
        say("Durability as read back from SQLite (synchronous 2 = FULL):")
        for p in shown:
            note = f"  {p.note}" if p.note else ""
            say(f"  {p.name:<14} {p.version:<14} {p.durability:<32}{note}".rstrip())
        self.reasons()

    def reasons(self):
        lines, errors = [], {}
        for (row, name), (kind, why) in self.failed.items():
            if kind == "error":
                errors.setdefault((name, why), []).append(dict(ROWS)[row])
        for (name, why), where in errors.items():
            more = f" and {len(where) - 1} more rows" if len(where) > 1 else ""
            lines.append(f"  {name}, {where[0]}{more}: error: {why}")
        for (row, name), note in self.notes.items():
            parts = []
            if note["errors"]:
                parts.append(f"{note['errors']} appends failed, first: {note.get('why')}")
            if note["retries"]:
                parts.append(f"{note['retries']} retries after a stale-session error")
            if parts:
                lines.append(f"  {name}, {dict(ROWS)[row]}: {'; '.join(parts)}")
        if lines:
            say()
            say("Errors and retries:")
            for line in dict.fromkeys(lines):
                say(line)

    def keys(self):
        """Return the JSON object of the last line, and lines that explain it."""
        r = self.results

        def cpu(row, name):
            return r.per_op(row, name, "cpu_us")

        def wall(row, name):
            return r.per_op(row, name, "wall_us")

        def growth(name):
            early, late = cpu("append 100", name), cpu("append 100000", name)
            return {t: late[t] / early[t] for t in late if early.get(t)}

        best = {}
        for p in self.peers:
            if p.name in (RAW, RETAIN, RUNNER):
                continue
            for round_no, us in wall("read tail", p.name).items():
                best[round_no] = min(us, best.get(round_no, us))
        lists = {
            "append_cpu_vs_raw": (
                "append CPU at event 2,000 / raw",
                ratios(cpu("append 2000", RETAIN), cpu("append 2000", RAW))),
            "append64_cpu_vs_raw": (
                "CPU per append of 64 writers / raw, one thread",
                ratios(cpu("own 64", RETAIN), cpu("own 64", RAW))),
            "append_growth_vs_raw": (
                "append CPU at 100,000 / at 100, against the same of raw",
                ratios(growth(RETAIN), growth(RAW))),
            "tail10_vs_best_peer": (
                "newest 10 of 10,000: times faster than the best peer, wall",
                ratios(best, wall("read tail", RETAIN))),
            "read10k_vs_raw": (
                "CPU of reading 10,000 / raw decoding to Value",
                ratios(cpu("read 10000", RETAIN), cpu("read 10000", RAW))),
            "writers64_vs_one_tx": (
                "throughput of 64 writers / raw, one transaction per event",
                ratios(wall("own 64", RAW), wall("own 64", RETAIN))),
        }
        result = {key: middle(values) for key, (_, values) in lists.items()}
        words = [f"  {key:<22} {spread(v):<38} {text}" for key, (text, v) in lists.items()]
        for key, what, meaning in (
            ("one_session_kept", "kept", "stored share of the events"),
            ("one_session_counter", "counter", "stored share of the counter"),
        ):
            value = r.fraction("one 8", RETAIN, what)
            result[key] = None if value is None else round(value, 4)
            words.append(f"  {key:<22} {'-' if value is None else format(value, '.4f'):<38}"
                         f" 8 writers on one session: {meaning}")
        return result, words


def main(quick, wanted):
    begun, load_before = time.monotonic(), load_average()
    suite = Suite(quick, wanted)
    built = time.monotonic()
    try:
        if suite.peers:
            suite.creates()
            suite.appends()
            suite.reads()
            suite.writers()
    finally:
        for peer in suite.peers:
            peer.stop()
    suite.disk.append(("the end", fsync_us()))
    say()
    suite.report()
    result, words = suite.keys()
    say()
    if any(p.name == RETAIN for p in suite.peers):
        say("Retain, median of the rounds:")
        for line in words:
            say(line)
        say()
    disk = ", ".join(f"{number(us)} at {group}" for group, us in suite.disk)
    say(f"Disk ({filesystem()}): write + fdatasync of 4 KiB, median us: {disk}")
    say(f"Machine: {machine()}; load {load_before} before, {load_average()} after")
    say(f"Time: {built - begun:.0f} s to build and start,"
        f" {time.monotonic() - built:.0f} s to measure ({suite.sizes.rounds} rounds)")
    return result
