"""The shared parts of all suites: builds, peer processes, windows, tables."""

import json
import os
import pathlib
import select
import shutil
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
PEERS = HERE / "peers"
# One folder per run, so that two runs do not collide.
DATA = HERE / ".data" / str(os.getpid())
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or HERE / "target")


class PeerError(Exception):
    """A peer that does not build, answered with an error, exited, or did not answer in time."""


class Unsupported(Exception):
    """An operation that a peer does not have."""


def say(text=""):
    print(text, flush=True)


def progress(text):
    """Print a line about progress to standard error; it is not part of the report."""
    print(f"  {text}", file=sys.stderr, flush=True)


# ---- building ---------------------------------------------------------------


def build(package):
    """Build one peer. Return the command that starts it, or None if the package does
    not exist; raise PeerError if the build fails."""
    directory = PEERS / package
    if (directory / "Cargo.toml").exists():
        return _build_rust(directory)
    if (directory / "requirements.txt").exists():
        return _build_python(directory)
    return None


def _build_rust(directory):
    manifest = directory / "Cargo.toml"
    env = dict(os.environ, CARGO_TARGET_DIR=str(TARGET))
    command = ["cargo", "build", "--release", "--quiet", "--manifest-path", str(manifest)]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode:
        lines = [l for l in done.stderr.splitlines() if l.startswith("error")]
        raise PeerError("the build failed: " + (lines or ["cargo failed"])[0])
    return [str(TARGET / "release" / f"bench-peer-{directory.name}")]


def _build_python(directory):
    venv = HERE / ".venv" / directory.name
    python = venv / "bin" / "python"
    wanted = (directory / "requirements.txt").read_text()
    stamp = venv / "installed.txt"
    if not (stamp.exists() and stamp.read_text() == wanted):
        progress(f"creating the Python environment of {directory.name} (once)")
        base = shutil.which("python3.11") or sys.executable
        steps = [
            [base, "-m", "venv", str(venv)],
            [str(python), "-m", "pip", "install", "-q", "-r", str(directory / "requirements.txt")],
        ]
        for step in steps:
            done = subprocess.run(step, capture_output=True, text=True)
            if done.returncode:
                last = (done.stderr.strip().splitlines() or ["failed"])[-1]
                raise PeerError(f"cannot create the Python environment: {last}")
        stamp.write_text(wanted)
    return [str(python), str(directory / "peer.py")]


# ---- peers ------------------------------------------------------------------


class Peer:
    """One column of the table: a process that speaks JSON lines."""

    def __init__(self, name, package, variant="", note=""):
        self.name, self.package, self.variant, self.note = name, package, variant, note
        self.process = None
        self.version = self.durability = "?"
        self.dead = None
        self.errors = []

    def start(self):
        command = build(self.package)
        if command is None:
            return False
        self.log = open(DATA / f"{self.package}-{self.variant}.stderr", "w+b")
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log
        )
        self.rest = b""
        return True

    def ask(self, timeout=180, **command):
        """Send one command and return the answer."""
        if self.dead:
            raise PeerError(self.dead)
        try:
            self.process.stdin.write(json.dumps(command).encode() + b"\n")
            self.process.stdin.flush()
            answer = json.loads(self._line(timeout))
        except (BrokenPipeError, EOFError):
            self.dead = f"the process exited during {command['cmd']}: {self._last_line()}"
            raise PeerError(self.dead) from None
        except TimeoutError:
            self.dead = f"no answer to {command['cmd']} in {timeout} s"
            self.process.kill()
            raise PeerError(self.dead) from None
        if "error" in answer:
            raise PeerError(answer["error"])
        if "unsupported" in answer:
            raise Unsupported(answer["unsupported"])
        return answer

    def open(self, store):
        directory = DATA / f"{self.package}-{self.variant or 'main'}-{store}"
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        answer = self.ask(cmd="open", store=store, dir=str(directory), variant=self.variant)
        self.version, self.durability = answer["version"], answer["durability"]

    def close(self, store):
        self.ask(cmd="close", store=store)
        shutil.rmtree(DATA / f"{self.package}-{self.variant or 'main'}-{store}", ignore_errors=True)

    def stop(self):
        if self.process is None:
            return
        try:
            self.process.stdin.write(b'{"cmd":"quit"}\n')
            self.process.stdin.close()
            self.process.wait(10)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        self.log.close()

    def _line(self, timeout):
        end = time.monotonic() + timeout
        while b"\n" not in self.rest:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                raise TimeoutError
            part = os.read(self.process.stdout.fileno(), 65536)
            if not part:
                raise EOFError
            self.rest += part
        line, self.rest = self.rest.split(b"\n", 1)
        return line

    def _last_line(self):
        self.log.flush()
        self.log.seek(0)
        lines = self.log.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it printed no error"


def start_peers(peers, wanted):
    """Build and start the requested peers; print one line about the omitted ones."""
    known = {n for p in peers for n in (p.name, p.package)}
    if wanted - known:
        names = ", ".join(dict.fromkeys(p.name for p in peers))
        sys.exit(f"unknown peer: {', '.join(sorted(wanted - known))}; expected one of: {names}")
    DATA.mkdir(parents=True, exist_ok=True)
    started = []
    for peer in peers:
        if wanted and not {peer.name, peer.package} & wanted:
            continue
        progress(f"building {peer.name}")
        try:
            if peer.start():
                started.append(peer)
            else:
                say(f"{peer.name}: skipped, because the package bench/peers/{peer.package} does not exist")
        except PeerError as e:
            peer.dead = str(e)
            started.append(peer)
    return started


# ---- numbers ----------------------------------------------------------------


class Results:
    """Samples by row, column and round."""

    def __init__(self):
        self.samples = {}

    def add(self, row, peer, round_no, answer):
        self.samples.setdefault((row, peer.name), {})[round_no] = answer

    def rounds(self, row, name):
        return self.samples.get((row, name), {})

    def per_op(self, row, name, what):
        """Return the cost of one operation in microseconds (or instructions), by round."""
        return {
            round_no: a[what] / a["ops"]
            for round_no, a in self.rounds(row, name).items()
            if a.get("ops") and what in a
        }

    def median(self, row, name, what):
        values = self.per_op(row, name, what).values()
        return statistics.median(values) if values else None

    def fraction(self, row, name, what):
        """Return the stored or counted events divided by the attempted appends, over all rounds."""
        answers = self.rounds(row, name).values()
        tried = sum(a.get("attempted", 0) for a in answers)
        return sum(a.get(what, 0) for a in answers) / tried if tried else None


def ratios(above, below):
    """Return the ratios of two {round: value}, round by round."""
    return [above[t] / below[t] for t in sorted(above) if t in below and below[t]]


def spread(values):
    """Format the median with the lowest and the highest round."""
    if not values:
        return "-"
    return f"{statistics.median(values):.2f} (rounds {min(values):.2f} to {max(values):.2f})"


def middle(values, digits=3):
    return round(statistics.median(values), digits) if values else None


def number(value):
    if value is None:
        return "-"
    if value < 10:
        return f"{value:.1f}"
    return f"{value:,.0f}"


def table(header, rows):
    """Print a table: the first column aligned left, the others right."""
    widths = [max(len(r[i]) for r in [header, *rows]) for i in range(len(header))]
    for line, row in enumerate([header, *rows]):
        cells = [c.rjust(w) for c, w in zip(row[1:], widths[1:])]
        say("  ".join([row[0].ljust(widths[0]), *cells]).rstrip())
        if line == 0:
            say("  ".join("-" * w for w in widths))


def remove_data():
    shutil.rmtree(DATA, ignore_errors=True)
    try:
        DATA.parent.rmdir()
    except OSError:
        pass  # another run is using it


# ---- the machine ------------------------------------------------------------


def fsync_us(samples=100, seconds=0.4):
    """Return the median time of one 4 KiB write + fdatasync on the disk that has the data."""
    DATA.mkdir(parents=True, exist_ok=True)
    path, block, times = DATA / "fsync", os.urandom(4096), []
    fd = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
    end = time.monotonic() + seconds
    for _ in range(samples):
        before = time.perf_counter()
        os.write(fd, block)
        os.fdatasync(fd)
        times.append((time.perf_counter() - before) * 1e6)
        if time.monotonic() > end:
            break
    os.close(fd)
    path.unlink()
    return statistics.median(times)


def machine():
    model = ""
    try:
        for line in open("/proc/cpuinfo"):
            if line.startswith("model name"):
                model = ", " + line.split(":", 1)[1].strip()
                break
    except OSError:
        pass
    return f"{os.cpu_count()} cores{model}, {sys.platform}"


def filesystem():
    """Return the type of the file system under the data folder."""
    best, kind = "", "unknown"
    try:
        for line in open("/proc/mounts"):
            _, point, what = line.split()[:3]
            inside = str(DATA) == point or str(DATA).startswith(point.rstrip("/") + "/")
            if inside and len(point) >= len(best):
                best, kind = point, what
    except OSError:
        pass
    return kind


def load_average():
    return f"{os.getloadavg()[0]:.1f}"
