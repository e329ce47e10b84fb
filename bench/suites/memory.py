"""Memory: which share of the relevant turns a search finds, and what a search costs.

Quality needs the LoCoMo data set, which is not part of the repository; LOCOMO_JSON=PATH names
its file. Speed is measured on generated chats and compared with SQLite FTS5 in the same process.
"""

import os
import pathlib
import shutil
import statistics
import sys
import time

import locomo
from harness import (
    DATA,
    Peer,
    PeerError,
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

RETAIN, FTS5, BM25, GOOGLE = "retain", "fts5", "bm25", "google-adk"
SIZES = [1_000, 10_000, 100_000]
TURNS = 20  # per session; must equal TURNS in bench/peers/memory/src/corpus.rs
KINDS = {
    "spoken": "5 to 8 words of a turn, unchanged",
    "content": "the same without stop words",
}


class Store:
    """One of the memories in a peer's process, with its own folder."""

    def __init__(self, peer, name, variant):
        self.peer, self.name = peer, name
        self.dir = DATA / f"memory-{name}"
        shutil.rmtree(self.dir, ignore_errors=True)
        self.dir.mkdir(parents=True)
        answer = self.ask("open", dir=str(self.dir), variant=variant)
        self.version, self.durability = answer["version"], answer["durability"]

    def ask(self, command, **fields):
        return self.peer.ask(cmd=command, store=self.name, **fields)

    def close(self):
        self.ask("close")
        shutil.rmtree(self.dir, ignore_errors=True)


# ---- speed ------------------------------------------------------------------


class Plan:
    """The repetitions at one size: ingest chunks, cold starts, rounds of warm searches, and
    questions per round."""

    def __init__(self, entries, quick):
        self.entries, self.sessions = entries, entries // TURNS
        self.chunks = 5 if entries == 1_000 else 10
        # With --quick, most of the largest corpus is loaded without waiting for the disk.
        self.timed = 10 if quick and entries == 100_000 else 1
        if quick:
            self.cold = 3 if entries < 100_000 else 2
            self.rounds, self.questions = (5, 15) if entries < 100_000 else (4, 12)
        else:
            self.cold = 7 if entries < 100_000 else 5
            self.rounds, self.questions = (11, 50) if entries < 100_000 else (9, 30)


class Speed:
    """The measurements at one size: {what: {store: {round: value}}}."""

    def __init__(self, peer, plan):
        self.plan, self.samples, self.pooled, self.hits = plan, {}, {}, {}
        self.text_bytes = 0
        self.stores = [Store(peer, f"{name}-{plan.entries}", name) for name in (RETAIN, FTS5)]

    def add(self, what, store, round_no, value):
        name = store.name.split("-")[0]
        self.samples.setdefault((what, name), {})[round_no] = value

    def both(self, round_no):
        """Return the stores in alternating order: A B, then B A, and so on."""
        return self.stores if round_no % 2 == 0 else self.stores[::-1]

    def measure(self):
        self.ingest()
        for store in self.stores:
            self.add("bytes", store, 0, store.ask("bytes")["bytes"] / self.plan.entries)
        self.cold()
        for kind in KINDS:
            self.warm(kind)
        for store in self.stores:
            store.close()

    def ingest(self):
        each = self.plan.sessions // self.plan.chunks
        timed = each // self.plan.timed
        for round_no in range(self.plan.chunks):
            for store in self.both(round_no):
                answer = store.ask("ingest", **{"from": round_no * each}, sessions=timed)
                for what in ("wall_us", "cpu_us"):
                    self.add(f"ingest {what}", store, round_no, answer[what] / answer["ops"])
                self.text_bytes = answer["text_bytes"] / answer["ops"]
                if timed < each:
                    store.ask("load", **{"from": round_no * each + timed}, sessions=each - timed)

    def cold(self):
        for round_no in range(self.plan.cold):
            for store in self.both(round_no):
                answer = store.ask("cold", sessions=self.plan.sessions, number=round_no)
                if not answer["found"]:
                    raise PeerError(f"{store.name} found nothing")
                for what in ("wall_us", "cpu_us"):
                    self.add(f"cold {what}", store, round_no, answer[what])

    def warm(self, kind):
        count = self.plan.questions
        for round_no in range(self.plan.rounds):
            for store in self.both(round_no):
                answer = store.ask(
                    "search", kind=kind, sessions=self.plan.sessions, count=count,
                    **{"from": 1000 + round_no * count})
                self.add(f"warm {kind}", store, round_no, statistics.median(answer["us"]))
                name = store.name.split("-")[0]
                self.pooled.setdefault((kind, name), []).extend(answer["us"])
                self.hits[kind, name] = self.hits.get((kind, name), 0) + answer["hits"]

    # ---- results

    def of(self, what, name):
        return self.samples.get((what, name), {})

    def median(self, what, name):
        values = self.of(what, name).values()
        return statistics.median(values) if values else None

    def percentile(self, kind, name, percent):
        times = sorted(self.pooled[kind, name])
        return times[min(len(times) - 1, len(times) * percent // 100)]

    def found(self, kind, name):
        return 100 * self.hits[kind, name] / len(self.pooled[kind, name])

    def times_faster(self, kind):
        return ratios(self.of(f"warm {kind}", FTS5), self.of(f"warm {kind}", RETAIN))

    def ingest_cost(self, what="cpu_us"):
        return ratios(self.of(f"ingest {what}", RETAIN), self.of(f"ingest {what}", FTS5))


def ms(us):
    return "-" if us is None else f"{us / 1000:.2f}" if us < 100_000 else f"{us / 1000:,.0f}"


def report_speed(measured):
    rows = []
    for speed in measured:
        for name in (RETAIN, FTS5):
            wall, cpu = (speed.median(f"ingest {w}", name) for w in ("wall_us", "cpu_us"))
            rows.append([
                f"{speed.plan.entries:,} {name}", number(1e6 / wall), f"{cpu:.1f}",
                ms(speed.median("cold wall_us", name)),
                *(ms(speed.percentile(kind, name, p)) for kind in KINDS for p in (50, 99)),
                number(speed.median("bytes", name)),
            ])
    table(["entries", "ingest/s", "CPU us each", "cold ms", "p50 ms", "p99 ms", "content p50",
           "content p99", "bytes each"], rows)
    say()
    say(f"Entries: turns of {measured[-1].text_bytes:.0f} bytes, {TURNS} a session, of one user."
        " Ingest: one durable call a")
    say("session. Cold: open the file, first search. Warm: top 20 for 5 to 8 words of a turn;")
    say("content: without stop words. FTS5: porter, OR of all words, bm25; same process.")
    for store in measured[-1].stores:
        say(f"  {store.name.split('-')[0]:<7} {store.version}, {store.durability} (2 = FULL)")
    say("Share of questions whose own turn is among the 20 results, % (without stop words):")
    for speed in measured:
        shares = ", ".join(
            f"{name} {speed.found('spoken', name):.0f} ({speed.found('content', name):.0f})"
            for name in (RETAIN, FTS5))
        say(f"  {speed.plan.entries:>7,}: {shares}")
    say("FTS5's index is ready when the ingest returns; Retain's is built by the first search that")
    say("needs it, which the column cold shows:")
    for speed in measured:
        cold = speed.median("cold cpu_us", RETAIN) / speed.plan.entries
        cost = [r + cold / f for r, f in zip(
            speed.ingest_cost(), speed.of("ingest cpu_us", FTS5).values())]
        say(f"  {speed.plan.entries:>7,}: ingest and index together cost {spread(cost)} x FTS5's")


# ---- quality ----------------------------------------------------------------


def quality(peers, path):
    """Return the rankings of each memory: {name: [(category, evidence, found ids)]}. Each
    conversation is a user of one store, or a file of its own in FTS5, which has no users."""
    conversations, skipped = locomo.read(path)
    rankings = {}
    for peer in peers:
        variants = [RETAIN, BM25, FTS5] if peer.package == "memory" else ["memory"]
        for variant in variants:
            name = GOOGLE if variant == "memory" else variant
            progress(f"quality of {name}")
            rankings[name] = []
            for users in [[c] for c in conversations] if name == FTS5 else [conversations]:
                store = Store(peer, f"{name}-quality", variant)
                rankings[name] += [r for c in users for r in ask_all(store, c)]
                store.close()
    return rankings, skipped, len(conversations)


def ask_all(store, conversation):
    user = conversation["user"]
    store.ask("remember", user=user, sessions=conversation["sessions"])
    questions = conversation["questions"]
    answer = store.ask(
        "ask", user=user, time=conversation["asked"], limit=max(locomo.DEPTHS),
        questions=[q["text"] for q in questions])
    return [(q["category"], q["evidence"], f) for q, f in zip(questions, answer["found"])]


def report_quality(rankings, skipped, conversations):
    questions = len(next(iter(rankings.values())))
    say(f"LoCoMo: {conversations} conversations, {questions} questions"
        f" ({skipped} without usable evidence skipped).")
    say("Share of evidence turns among the first 5, 10, 20 (R), any of them (H), MRR of 20.")
    say()
    header = ["", *(f"R@{k}" for k in locomo.DEPTHS), *(f"H@{k}" for k in locomo.DEPTHS), "MRR"]
    rows = []
    for category, title in [(None, "all"), *locomo.CATEGORIES.items()]:
        for name, ranked in rankings.items():
            taken = [r[1:] for r in ranked if category in (None, r[0])]
            if taken:
                values = [f"{100 * v:.1f}" for v in locomo.scores(taken)]
                rows.append([f"{title} ({len(taken)}), {name}", *values])
    table(header, rows)
    say()
    say("google-adk's InMemoryMemoryService returns at most ten memories.")


def recall10(rankings, name):
    ranked = rankings.get(name)
    at = locomo.DEPTHS.index(10)
    return locomo.scores([r[1:] for r in ranked])[at] if ranked else None


# ---- keys -------------------------------------------------------------------


def keys(measured, rankings):
    """Return the JSON object of the last line, and lines that explain it."""
    by_size = {speed.plan.entries: speed for speed in measured}
    large, middle_size = by_size.get(100_000), by_size.get(10_000)
    own, adk = recall10(rankings, RETAIN), recall10(rankings, GOOGLE)
    kind = "spoken"
    ingest = large.ingest_cost() if large else []
    result = {
        "recall10": own and round(own, 4),
        "recall10_vs_adk": own and adk and round(own / adk, 3),
        "search_100k_vs_fts5": middle(large.times_faster(kind)) if large else None,
        "search_10k_vs_fts5": middle(middle_size.times_faster(kind)) if middle_size else None,
        "ingest_vs_fts5": middle(ingest),
        "bytes_per_entry": round(large.median("bytes", RETAIN), 1) if large else None,
        "search_100k_p50_ms":
            round(large.percentile(kind, RETAIN, 50) / 1000, 3) if large else None,
        "cold_10k_ms":
            round(middle_size.median("cold wall_us", RETAIN) / 1000, 1) if middle_size else None,
    }
    words = []
    for speed in measured:
        size = f"{speed.plan.entries:,}"
        for kind, text in KINDS.items():
            words.append((f"{size}: times faster than FTS5", speed.times_faster(kind), text))
        words.append((f"{size}: ingest, CPU / FTS5's", speed.ingest_cost(), ""))
        words.append((f"{size}: ingest, wall / FTS5's", speed.ingest_cost("wall_us"), ""))
    return result, [f"  {a:<32} {spread(v):<40} {t}".rstrip() for a, v, t in words]


def locomo_file():
    """Return the file that LOCOMO_JSON names, or None."""
    path = os.environ.get("LOCOMO_JSON", "")
    if path and not pathlib.Path(path).is_file():
        sys.exit(f"LOCOMO_JSON names {path!r}, which is not a file")
    return pathlib.Path(path) if path else None


def start(wanted, path):
    """Start the available peers; print why others do not run."""
    peers = [Peer("memory", "memory", note="retain, fts5 and bm25 in one process")]
    if path:
        peers.append(Peer(GOOGLE, "google_adk", "memory"))
    peers = start_peers(peers, wanted)
    for peer in peers:
        if peer.dead:
            say(f"{peer.name}: {peer.dead}")
    return [peer for peer in peers if not peer.dead]


def measure(peers, path, quick):
    """Return the rankings (None without the file) and the speed at each size."""
    measured, ranked = [], None
    try:
        if path:
            ranked = quality(peers, path)
        for peer in (p for p in peers if p.package == "memory"):
            for entries in SIZES:
                progress(f"{entries:,} entries")
                speed = Speed(peer, Plan(entries, quick))
                speed.measure()
                measured.append(speed)
    except PeerError as e:
        say(f"error, so the rest is omitted: {e}")
    finally:
        for peer in peers:
            peer.stop()
    return ranked, measured


def main(quick, wanted):
    begun, load_before = time.monotonic(), load_average()
    path = locomo_file()
    peers = start(wanted, path)
    built = time.monotonic()
    disk = [fsync_us()]
    ranked, measured = measure(peers, path, quick)
    disk.append(fsync_us())
    say()
    if ranked:
        report_quality(*ranked)
    elif not path:
        say("Quality: skipped, LOCOMO_JSON does not name the LoCoMo file (see bench/README.md).")
    say()
    result, words = keys(measured, ranked[0] if ranked else {})
    if measured:
        report_speed(measured)
        say()
        say("Retain compared with FTS5, median of the rounds:")
        for line in words:
            say(line)
        say()
    say(f"Disk ({filesystem()}): write + fdatasync of 4 KiB, median us:"
        f" {number(disk[0])} before, {number(disk[1])} after")
    say(f"Machine: {machine()}; load {load_before} before, {load_average()} after")
    took = time.monotonic() - built
    say(f"Time: {built - begun:.0f} s to build and start, {took:.0f} s to measure")
    return result
