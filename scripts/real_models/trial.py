#!/usr/bin/env python3
"""Run agents of `retain serve` on real model servers; see scripts/try-real-models.

    trial.py RETAIN PYTHON_WITH_LLAMA [LITELLM]

Prints a table of the trials and their results. Fails if a result is unexpected.
"""

import contextlib
import json
import os
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
KEY, GATEWAY_KEY, WRONG_KEY = "key-of-llama", "sk-key-of-the-gateway", "a-wrong-key"
HELLO = "Grüß dich from Zürich."
THOUGHT, AFTER_THOUGHT = "The user greets me", "Good day!"
CHOICES = [{"options": ["tea", "coffee"]}, {"options": ["milk", "sugar"]}]
CHOSEN = "They chose it;"

AGENTS = {
    "plain": "",
    "chooser": "tools:\n  - name: get_user_choice\n",
    # The model prefers another call, so only the forced mode gives this one.
    "forced": "tools:\n  - name: exit_loop\ngenerate_content_config:\n"
              "  tool_config:\n    function_calling_config:\n      mode: ANY\n",
    "place": "output_schema:\n  name: google.genai.types.LatLng\noutput_key: place\n",
    "short": "generate_content_config:\n  max_output_tokens: 3\n",
    "settings": "generate_content_config:\n  temperature: 0.5\n  top_p: 0.9\n  top_k: 40\n"
                "  seed: 7\n  stop_sequences: [' from']\n",
}


class UnexpectedResult(Exception):
    """An unexpected result."""


def require(is_so, what):
    if not is_so:
        raise UnexpectedResult(what)


# --- servers -----------------------------------------------------------------------------------


def environment(more):
    """Return the environment without the user's API keys and URLs, plus these variables."""
    names = ["PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "LD_LIBRARY_PATH"]
    env = {name: os.environ[name] for name in names if name in os.environ}
    return {**env, **more}


@contextlib.contextmanager
def running(command, folder, log, env=None, stdin=None):
    with open(folder / log, "wb") as kept:
        process = subprocess.Popen(["nice", "-n", "10", *command], cwd=folder, stderr=kept,
                                   stdout=subprocess.PIPE, stdin=stdin, env=environment(env or {}))
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


@contextlib.contextmanager
def llama(python, folder, kind, key=()):
    command = [python, str(HERE / "llama_server.py"), str(folder), f"tiny-{kind}", kind, *key]
    # This makes the server report the prompts that it has read.
    env = {"LLAMA_SERVER_SLOTS_DEBUG": "1"}
    with running(command, folder, f"llama-{kind}.log", env, subprocess.PIPE) as process:
        line = process.stdout.readline().decode().split()
        if not line:
            sys.exit((folder / f"llama-{kind}.log").read_text(errors="replace"))
        yield line


@contextlib.contextmanager
def gateway(program, folder, behind):
    """Start LiteLLM's proxy; `wait_until_ready` waits for it."""
    names = ["tiny", "gemini-tiny", "claude-tiny"]
    params = {"model": "openai/tiny-chat", "api_base": f"{behind}/v1", "api_key": KEY}
    config = {"model_list": [{"model_name": name, "litellm_params": params} for name in names],
              "general_settings": {"master_key": GATEWAY_KEY},
              # Otherwise LiteLLM uses OpenAI's Responses API, which llama.cpp supports only in part.
              "litellm_settings": {"telemetry": False, "num_retries": 0,
                                   "use_chat_completions_url_for_anthropic_messages": True}}
    (folder / "gateway.yaml").write_text(json.dumps(config))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [program, "--config", "gateway.yaml", "--host", "127.0.0.1", "--port", str(port)]
    env = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "PYTHONUNBUFFERED": "1"}
    command = ["sh", "-c", 'exec "$@" 1>&2', "sh", *command, "--telemetry", "False"]
    with running(command, folder, "gateway.log", env) as process:
        yield f"http://127.0.0.1:{port}", process


def wait_until_ready(url, process, seconds=240):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(f"{url}/health/liveliness", timeout=5).read()
            return True
        except OSError:
            time.sleep(0.5)
    return False


@contextlib.contextmanager
def retain(program, folder, name, models, env, slots, options=()):
    """Run `retain serve` with the agents on each model: apps named `form_agent`."""
    folder = folder / name
    for form, model in models.items():
        for agent, more in AGENTS.items():
            app = folder / "agents" / f"{form}_{agent}"
            app.mkdir(parents=True)
            text = f"name: {app.name}\nmodel: {model}\ninstruction: Answer.\n{more}"
            (app / "root_agent.yaml").write_text(text)
    command = [program, "serve", "agents", "--port", "0", "--auto-create-session",
               "--log-level", "debug", *options]
    env = {**env, "RETAIN_MODEL": "offline"}
    with running(command, folder, "retain.log", env) as process:
        first = process.stdout.readline().decode().split()
        if not first:
            sys.exit((folder / "retain.log").read_text(errors="replace"))
        yield Retain(first[-1], folder, slots)


class Retain:
    """The client of a running `retain serve`."""

    def __init__(self, url, folder, slots):
        self.url, self.folder, self.slots, self.count = url, folder, slots, 0
        # The prefix of apps whose streams have no token counts.
        self.uncounted = None

    def model_saw(self, text, behind=""):
        """Return whether the newest prompt, as llama.cpp rendered it, has the text after `behind`."""
        newest = max(self.slots(), key=lambda slot: slot.get("id_task", -1))
        return text in newest["prompt"].partition(behind)[2] if behind else text in newest["prompt"]

    def ask(self, path, body=None):
        body = json.dumps(body).encode() if body is not None else None
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(self.url + path, body, headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as error:
            answer = error.read().decode(errors="replace")
            raise UnexpectedResult(f"{path}: {error.code} {answer[:200]}") from error

    def session(self, app):
        self.count += 1
        return {"appName": app, "userId": "ada", "sessionId": f"s{self.count}"}

    def run(self, session, message, streaming):
        """Return the events of a run, including partial ones."""
        parts = [{"text": message}] if isinstance(message, str) else message
        body = {**session, "newMessage": {"role": "user", "parts": parts}}
        if not streaming:
            return json.loads(self.ask("/run", body))
        lines = self.ask("/run_sse", {**body, "streaming": True}).splitlines()
        events = [json.loads(line[5:]) for line in lines if line.startswith("data:")]
        require(all("error" not in event for event in events), f"the stream ends with {events[-1:]}")
        return events

    def stored(self, session):
        app, user, name = session.values()
        return json.loads(self.ask(f"/apps/{app}/users/{user}/sessions/{name}"))


def parts(events):
    return [part for event in events for part in event.get("content", {}).get("parts", [])]


def text_of(events, thought=False):
    return "".join(part.get("text", "") for part in parts(events)
                   if bool(part.get("thought")) == thought)


def calls(events):
    return [part["functionCall"] for part in parts(events) if "functionCall" in part]


def complete_events(events):
    return [event for event in events if not event.get("partial")]


# --- the trials --------------------------------------------------------------------------------


def answers(server, app, streaming, message="Hi"):
    """Run the app; check that the streamed, returned and stored events are equal."""
    session = server.session(app)
    events = server.run(session, message, streaming)
    stored = server.stored(session)["events"]
    final = complete_events(events)
    require(stored[1:] == final, f"stored {stored[1:]}, but answered {final}")
    partial = [event for event in events if event.get("partial")]
    if streaming:
        require(len(partial) > 1 or calls(final), f"{len(partial)} partial events")
        for thought in [False, True]:
            streamed, last = text_of(partial, thought), text_of(final, thought)
            require(streamed == last or calls(final), f"streamed {streamed!r}, complete {last!r}")
    return final


def prompt(event):
    return event.get("usageMetadata", {}).get("promptTokenCount", 0)


def usage(server, app, streaming, event):
    """Check that the token counts exist and add up."""
    counts = event.get("usageMetadata") or {}
    if streaming and server.uncounted and app.startswith(server.uncounted):
        return "the server counts no tokens here"
    prompt, answer = counts.get("promptTokenCount", 0), counts.get("candidatesTokenCount", 0)
    total = counts.get("totalTokenCount", 0)
    require(prompt > 0 and answer > 0 and total >= prompt + answer, f"usage is {counts}")
    return f"{prompt}+{answer} tokens"


def text(server, app, streaming):
    last = answers(server, app, streaming)[-1]
    require(text_of([last]) == HELLO, f"the text is {text_of([last])!r}")
    require(last.get("finishReason") == "STOP", f"finish reason {last.get('finishReason')}")
    return usage(server, app, streaming, last)


def thoughts(server, app, streaming):
    """Run a second turn, with the first one in its history."""
    session = server.session(app)
    final = complete_events(server.run(session, "Please think", streaming))
    require(text_of(final, True) == THOUGHT, f"the thought is {text_of(final, True)!r}")
    require(text_of(final) == AFTER_THOUGHT, f"the text is {text_of(final)!r}")
    again = complete_events(server.run(session, "Hi", streaming))
    require(text_of(again) == HELLO, f"the next turn: {again}")
    require(server.model_saw(AFTER_THOUGHT), "the second prompt lacks the first turn")
    went_back = server.model_saw(f"<think>{THOUGHT}</think>{AFTER_THOUGHT}")
    # Claude accepts only thoughts that it has signed, and this server does not sign them.
    require(went_back == app.startswith("openai"), f"thoughts sent again: {went_back}")
    return "sent again in the next turn" if went_back else "unsigned, so not sent again"


def tool(server, app, streaming, message="One thing", number=1):
    """Send the results of calls in a second run, as for any long-running tool."""
    session = server.session(app)
    first = complete_events(server.run(session, message, streaming))
    made = calls(first)
    require({call["name"] for call in made} == {"get_user_choice"}, f"calls {made}, in {first}")
    require([call["args"] for call in made] == CHOICES[:number], f"calls {made}")
    require(len({call["id"] for call in made}) == number, f"ids of {made}")
    results = [{"functionResponse": {"id": call["id"], "name": call["name"],
                                     "response": {"result": call["args"]["options"][0]}}}
               for call in made]
    final = complete_events(server.run(session, results, streaming))
    require(text_of(final) == CHOSEN, f"after the result: {final}")
    before, after = prompt(first[-1]), prompt(final[-1])
    require(after > before or not before, f"prompts of {before} and {after} tokens")
    for call in made:
        arguments = json.dumps(call["args"])
        require(server.model_saw(f'"arguments": {arguments}'), "a call is missing in the next prompt")
        require(server.model_saw(call["args"]["options"][0], "<|from|>tool"), "a result is missing in the next prompt")
    return "call, result, answer"


def tools(server, app, streaming):
    return tool(server, app, streaming, "Two things", 2)


def forced(server, app, streaming):
    final = answers(server, app, streaming)
    require({call["name"] for call in calls(final)} == {"exit_loop"}, f"calls in {final}")
    return "mode ANY"


def schema(server, app, streaming):
    session = server.session(app)
    final = complete_events(server.run(session, "Where?", streaming))
    place = server.stored(session)["state"].get("place")
    require(place == {"latitude": 4, "longitude": 7}, f"the place is {place}, in {final}")
    return json.dumps(place)


def cut_short(server, app, streaming):
    last = answers(server, app, streaming)[-1]
    # ADK reports the token limit as the error code for some APIs and as the finish reason for
    # others.
    ends = {last.get("errorCode"), last.get("finishReason")}
    require("MAX_TOKENS" in ends, f"the last event is {last}")
    require(HELLO.startswith(text_of([last])) and text_of([last]), f"the text is {text_of([last])!r}")
    return "MAX_TOKENS"


def settings(server, app, streaming):
    last = answers(server, app, streaming)[-1]
    require(text_of([last]) == "Grüß dich", f"the text is {text_of([last])!r}")
    return "stop sequence, temperature, top_p, top_k"


def error(server, app, code, message="Hi", streaming=False):
    """Check that the stored event has the error code of the model server."""
    session = server.session(app)
    try:
        server.run(session, message, streaming)
    except UnexpectedResult:
        pass
    last = server.stored(session)["events"][-1]
    found = f"{last.get('errorCode')}: {str(last.get('errorMessage'))[:60]}"
    require(last.get("errorCode") == code, f"the error is {found}")
    return found


def client_disconnects(server, app):
    """Disconnect the client: the model server must stop, and the session must record the end."""
    session = server.session(app)
    body = {**session, "streaming": True,
            "newMessage": {"role": "user", "parts": [{"text": "a long story"}]}}
    request = urllib.request.Request(f"{server.url}/run_sse", json.dumps(body).encode(),
                                     {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as stream:
        stream.readline()
        require(any(slot["is_processing"] for slot in server.slots()), "the model server is idle")
    # A complete answer would take longer than this.
    deadline = time.monotonic() + 5
    while any(slot["is_processing"] for slot in server.slots()):
        require(time.monotonic() < deadline, "the model server still generates")
        time.sleep(0.05)
    while True:
        last = server.stored(session)["events"][-1]
        if last.get("errorCode"):
            break
        require(time.monotonic() < deadline, f"the session ends with {last}")
        time.sleep(0.05)
    require(last["errorCode"] == "INVOCATION_ABORTED", f"stored {last}")
    final = complete_events(server.run(session, "Hi", False))
    require(text_of(final) == HELLO, f"the next turn: {final}")
    return "the model server stops; INVOCATION_ABORTED; next turn"


def embedding(server, app):
    """Check that memories get vectors from the embedding server and that a search finds them."""
    base = f"/api/v1/apps/{app}/users/ada/memory"
    texts = ["Ada likes tea", "The key is below the mat"]
    entries = [{"content": {"parts": [{"text": text}]}} for text in texts]
    server.ask(f"{base}/entries", {"memories": entries})
    deadline = time.monotonic() + 15
    while (rows := vectors(server.folder / ".retain/retain.db")) < len(texts):
        require(time.monotonic() < deadline, f"{rows} memories have vectors")
        time.sleep(0.1)
    found = server.ask(f"{base}/search", {"query": "tea"})
    require("likes tea" in found, f"found {found[:200]}")
    return f"{rows} memories"


def vectors(path):
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        query = "SELECT count(*) FROM memories WHERE embedding IS NOT NULL"
        return database.execute(query).fetchone()[0]


# --- the trial ---------------------------------------------------------------------------------


class Table:
    def __init__(self):
        self.failed = 0

    def row(self, of, what, trial, *arguments):
        try:
            outcome, note = "ok", trial(*arguments)
        except Exception as problem:
            self.failed += 1
            outcome, note = "FAILED", f"{type(problem).__name__}: {problem}"
        print(f"{outcome:6}  {of:27}  {what:27}  {note}", flush=True)

    def form(self, of, server, form, lacking=()):
        """Run the trials on one API; `lacking` lists what its server does not support."""
        for what, trial, agent in [
            ("text", text, "plain"),
            ("thoughts", thoughts, "plain"),
            ("tool", tool, "chooser"),
            ("two calls at once", tools, "chooser"),
            ("forced tool", forced, "forced"),
            ("schema", schema, "place"),
            ("limit of tokens", cut_short, "short"),
            ("settings", settings, "settings"),
        ]:
            for how, streaming in [("complete", False), ("streamed", True)]:
                name = f"{what}, {how}"
                if what in lacking:
                    print(f"{'none':6}  {of:27}  {name:27}  the server does not support it", flush=True)
                else:
                    self.row(of, name, trial, server, f"{form}_{agent}", streaming)


def slots_of(chat):
    """Return the status of llama.cpp: the prompts that it has read, and whether it is busy."""
    headers = {"authorization": f"Bearer {KEY}"}

    def slots():
        request = urllib.request.Request(f"{chat}/slots", headers=headers)
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)

    return slots


def try_llama(table, program, folder, chat, slots, embed, width):
    models = {"openai": "openai/tiny-chat", "anthropic": "anthropic/tiny-chat",
              "wrong_key": "hosted_vllm/tiny-chat"}
    env = {"OPENAI_BASE_URL": f"{chat}/v1", "OPENAI_API_KEY": KEY,
           "ANTHROPIC_BASE_URL": chat, "ANTHROPIC_API_KEY": KEY,
           "HOSTED_VLLM_API_BASE": f"{chat}/v1", "HOSTED_VLLM_API_KEY": WRONG_KEY,
           "OLLAMA_HOST": embed}
    embedder = ["--embedder", f"ollama/tiny-embed@{width}"]
    with retain(program, folder, "on-llama", models, env, slots, embedder) as server:
        of = "llama.cpp, chat completions"
        table.form(of, server, "openai")
        too_long = "x" * 40000
        for how, streaming in [("complete", False), ("streamed", True)]:
            table.row(of, f"too long a prompt, {how}", error, server, "openai_plain",
                      "exceed_context_size_error", too_long, streaming)
            table.row(of, f"wrong key, {how}", error, server, "wrong_key_plain",
                      "authentication_error", "Hi", streaming)
        table.row(of, "the client disconnects", client_disconnects, server, "openai_plain")
        table.row("llama.cpp, embeddings", "vectors of memories", embedding, server, "openai_plain")
        of = "llama.cpp, Anthropic's form"
        table.form(of, server, "anthropic")
        table.row(of, "too long a prompt", error, server, "anthropic_plain",
                  "exceed_context_size_error", too_long)
        table.row(of, "the client disconnects", client_disconnects, server, "anthropic_plain")


def try_gateway(table, program, folder, slots, url):
    models = {"openai": "openai/tiny", "anthropic": "claude-tiny", "gemini": "gemini-tiny",
              "unknown": "openai/unknown", "wrong_key": "hosted_vllm/tiny"}
    env = {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": GATEWAY_KEY,
           "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": GATEWAY_KEY,
           "GOOGLE_GEMINI_BASE_URL": url, "GOOGLE_API_KEY": GATEWAY_KEY,
           "HOSTED_VLLM_API_BASE": f"{url}/v1", "HOSTED_VLLM_API_KEY": WRONG_KEY}
    with retain(program, folder, "on-gateway", models, env, slots) as server:
        table.form("LiteLLM, chat completions", server, "openai")
        table.form("LiteLLM, Anthropic's form", server, "anthropic")
        # LiteLLM drops thoughts and `topK` here, and counts tokens of complete answers only.
        server.uncounted = "gemini_"
        table.form("LiteLLM, Gemini's form", server, "gemini", ["thoughts"])
        of = "LiteLLM, chat completions"
        table.row(of, "unknown model", error, server, "unknown_plain",
                  "invalid_request_error")
        table.row(of, "wrong key", error, server, "wrong_key_plain", "no_db_connection")


def main():
    program, python, *litellm = sys.argv[1:]
    table = Table()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        folder = Path(folder)
        chat, _ = stack.enter_context(llama(python, folder, "chat", [KEY]))
        embed, width = stack.enter_context(llama(python, folder, "embed"))
        behind = litellm and stack.enter_context(gateway(litellm[0], folder, chat))
        try_llama(table, program, folder, chat, slots_of(chat), embed, width)
        if behind:
            url, process = behind
            if wait_until_ready(url, process):
                try_gateway(table, program, folder, slots_of(chat), url)
            else:
                table.row("LiteLLM", "starts", require, False, "it does not start")
    print(f"\n{table.failed} failed" if table.failed else "\nall as expected")
    return 1 if table.failed else 0


if __name__ == "__main__":
    sys.exit(main())
