//! Traces of runs, for the web UI.
//!
//! ```text
//! run → spans of `tracing` → layer.rs → Traces (the newest, bounded) → adk/dev/trace.rs
//! ```
//!
//! Traces are kept in the memory of this process. The oldest runs are evicted first; deleting a
//! session or erasing a user deletes their traces. They contain message content, which runners send
//! to layers of their own process and not to exporters.

mod layer;

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use retain_core::{Clock, Json, JsonMap, SessionKey, SystemClock};

/// Maximum number of runs.
const RUNS_MAX: usize = 1_000;

/// Maximum size of all attributes in bytes.
const BYTES_MAX: usize = 32 << 20;

/// Maximum size of one run's attributes in bytes. Beyond it, only the sizes of attributes are
/// recorded.
const RUN_BYTES_MAX: usize = 8 << 20;

/// Maximum size of one attribute in bytes.
const ATTRIBUTE_MAX: usize = 1 << 20;

/// Maximum length of a span's name in characters. Names contain the name of a called tool, which a
/// model may invent.
const NAME_MAX: usize = 256;

/// Maximum number of spans of one run.
const SPANS_MAX: usize = 2_000;

/// The spans of the newest runs. Clones share them.
#[derive(Debug, Clone)]
pub struct Traces {
    clock: Arc<dyn Clock>,
    queue: Arc<Mutex<TraceQueue>>,
}

#[derive(Debug, Default)]
struct TraceQueue {
    /// Oldest first.
    runs: VecDeque<RunTrace>,
    bytes: usize,
    /// Number of spans so far; the source of their ids.
    spans: u64,
}

/// The identity of a run. An invocation id alone is not unique, because clients choose it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RunId {
    session: SessionKey,
    invocation: String,
}

/// The trace of one run.
#[derive(Debug)]
struct RunTrace {
    /// The id of its root span.
    root: u64,
    id: RunId,
    spans: Vec<Span>,
    bytes: usize,
}

/// A span.
#[derive(Debug)]
struct Span {
    id: u64,
    parent: Option<u64>,
    name: String,
    start_us: i64,
    end_us: Option<i64>,
    attributes: JsonMap,
}

impl Default for Traces {
    fn default() -> Traces {
        Traces::new(Arc::new(SystemClock))
    }
}

impl Traces {
    /// Creates an empty set of traces on this clock.
    pub fn new(clock: Arc<dyn Clock>) -> Traces {
        Traces {
            clock,
            queue: Arc::default(),
        }
    }

    /// Returns the session with this id, in one app or in all apps. If several users have a session
    /// with this id, returns the one that ran last.
    pub(crate) fn latest_session(&self, app: Option<&str>, id: &str) -> Option<SessionKey> {
        let queue = self.lock();
        let mut runs = queue.runs.iter().rev();
        let found = runs.find(|run| run.id.session.id == id && run.belongs_to(app));
        found.map(|run| run.id.session.clone())
    }

    /// Returns the finished spans of a session in ADK's format.
    pub(crate) fn session_spans(&self, session: &SessionKey) -> Vec<Json> {
        let queue = self.lock();
        let runs = queue.runs.iter().filter(|run| run.id.session == *session);
        let mut spans = Vec::new();
        for run in runs {
            spans.extend(run.spans.iter().filter_map(|span| run.span_json(span)));
        }
        spans
    }

    /// Returns the attributes of the last span that produced an event, and its session.
    pub(crate) fn event_attributes(
        &self,
        app: Option<&str>,
        event: &str,
    ) -> Option<(SessionKey, Json)> {
        let queue = self.lock();
        let mut runs = queue.runs.iter().rev().filter(|run| run.belongs_to(app));
        runs.find_map(|run| {
            let spans = run.spans.iter().rev();
            let mut spans = spans.filter(|span| span.event_id() == Some(event));
            // Prefer the `call_llm` span, which has more attributes than its `generate_content`
            // span.
            let span = spans.clone().find(|span| !span.is_generating());
            let span = span.or_else(|| spans.next())?;
            let mut attributes = span.attributes.clone();
            attributes.insert("trace_id", run.trace_id());
            attributes.insert("span_id", span_id(span.id));
            Some((run.id.session.clone(), attributes.into()))
        })
    }

    /// Deletes the traces of a session.
    pub(crate) fn delete_session(&self, session: &SessionKey) {
        self.delete_sessions(|known| known == session);
    }

    /// Deletes the traces of all sessions of a user.
    pub(crate) fn delete_user(&self, app: &str, user: &str) {
        self.delete_sessions(|known| known.app == app && known.user == user);
    }

    fn delete_sessions(&self, is_deleted: impl Fn(&SessionKey) -> bool) {
        let mut queue = self.lock();
        queue.runs.retain(|run| !is_deleted(&run.id.session));
        queue.bytes = queue.runs.iter().map(|run| run.bytes).sum();
    }

    fn lock(&self) -> MutexGuard<'_, TraceQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the trace of a run, unless it was evicted.
    fn with_run<T>(&self, root: u64, change: impl FnOnce(&mut RunTrace) -> T) -> Option<T> {
        let mut queue = self.lock();
        let mut runs = queue.runs.iter_mut().rev();
        let run = runs.find(|run| run.root == root)?;
        let before = run.bytes;
        let changed = change(run);
        let after = run.bytes;
        queue.bytes = queue.bytes - before + after;
        queue.evict_oldest();
        Some(changed)
    }

    /// Creates a span id.
    fn new_id(&self) -> u64 {
        let mut queue = self.lock();
        queue.spans += 1;
        queue.spans
    }

    /// Starts a run with its root span, which started at `start_us`.
    fn begin_run(&self, root: u64, id: RunId, start_us: i64, attributes: JsonMap) {
        let run = RunTrace {
            root,
            id,
            spans: Vec::new(),
            bytes: 0,
        };
        self.lock().runs.push_back(run);
        let span = Span::new(root, None, "invocation".to_owned(), start_us);
        self.begin_span(root, span, attributes);
    }

    /// Starts a span of a run.
    fn begin_span(&self, root: u64, span: Span, attributes: JsonMap) {
        self.with_run(root, |run| {
            if run.spans.len() < SPANS_MAX {
                let id = span.id;
                run.bytes += span.name.len();
                run.spans.push(span);
                run.add_attributes(id, attributes);
            }
        });
    }

    /// Adds attributes to a span.
    fn add_attributes(&self, root: u64, span: u64, attributes: JsonMap) {
        self.with_run(root, |run| run.add_attributes(span, attributes));
    }

    /// Ends a span.
    fn end_span(&self, root: u64, span: u64) {
        let now = self.clock.now_us();
        self.with_run(root, |run| {
            if let Some(span) = run.spans.iter_mut().rev().find(|it| it.id == span) {
                span.end_us = Some(now);
            }
        });
    }
}

impl TraceQueue {
    fn evict_oldest(&mut self) {
        while self.runs.len() > RUNS_MAX || self.bytes > BYTES_MAX {
            let Some(oldest) = self.runs.pop_front() else {
                return;
            };
            self.bytes -= oldest.bytes;
        }
    }
}

impl RunTrace {
    fn belongs_to(&self, app: Option<&str>) -> bool {
        app.is_none_or(|app| self.id.session.app == app)
    }

    /// Derives 128 bits in hexadecimal from the invocation id.
    fn trace_id(&self) -> String {
        let id = self.id.invocation.trim_start_matches("e-");
        id.chars().filter(char::is_ascii_hexdigit).collect()
    }

    /// Adds attributes to a span within the limits.
    fn add_attributes(&mut self, span: u64, attributes: JsonMap) {
        let Some(at) = self.spans.iter().rposition(|it| it.id == span) else {
            return;
        };
        for (key, value) in attributes.iter() {
            let size = key.len() + value.as_str().map_or(16, str::len);
            let has_room = size <= ATTRIBUTE_MAX && self.bytes + size <= RUN_BYTES_MAX;
            let (value, size) = match has_room {
                true => (value.clone(), size),
                // Write JSON, because the web UI parses long attributes.
                false => (format!("{{\"left_out\":\"{size} bytes\"}}").into(), 64),
            };
            self.bytes += size;
            self.spans[at].attributes.insert(key, value);
        }
    }

    fn span_json(&self, span: &Span) -> Option<Json> {
        let end_us = span.end_us?;
        let mut json = JsonMap::from([("name", span.name.as_str())]);
        json.insert("start_time", span.start_us.saturating_mul(1_000));
        json.insert("end_time", end_us.saturating_mul(1_000));
        json.insert("trace_id", self.trace_id());
        json.insert("span_id", span_id(span.id));
        json.insert(
            "parent_span_id",
            span.parent.map_or(Json::Null, |id| span_id(id).into()),
        );
        json.insert("attributes", span.attributes.clone());
        json.insert("logs", Vec::<Json>::new());
        Some(json.into())
    }
}

impl Span {
    fn new(id: u64, parent: Option<u64>, mut name: String, start_us: i64) -> Span {
        if let Some((end, _)) = name.char_indices().nth(NAME_MAX) {
            name.truncate(end);
            name.shrink_to_fit();
        }
        Span {
            id,
            parent,
            name,
            start_us,
            end_us: None,
            attributes: JsonMap::new(),
        }
    }

    fn event_id(&self) -> Option<&str> {
        self.attributes.get("gcp.vertex.agent.event_id")?.as_str()
    }

    fn is_generating(&self) -> bool {
        self.name.starts_with("generate_content")
    }
}

/// Formats 64 bits in hexadecimal: JavaScript numbers represent only 53 bits exactly.
fn span_id(id: u64) -> String {
    format!("{id:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_of(user: &str, invocation: &str) -> RunId {
        RunId {
            session: SessionKey::new("app", user, "s"),
            invocation: invocation.to_owned(),
        }
    }

    fn begin_run(traces: &Traces, id: RunId, attribute: usize) -> u64 {
        let text = JsonMap::from([("text", "x".repeat(attribute))]);
        let root = traces.new_id();
        traces.begin_run(root, id, 1, text);
        root
    }

    fn trace_run(traces: &Traces, run: usize, attribute: usize) {
        let root = begin_run(traces, run_of("ada", &format!("e-{run}")), attribute);
        traces.end_span(root, root);
    }

    #[test]
    fn oldest_traced_runs_are_evicted_by_count() {
        let traces = Traces::default();
        for run in 0..RUNS_MAX + 5 {
            trace_run(&traces, run, 10);
        }
        let spans = traces.session_spans(&SessionKey::new("app", "ada", "s"));
        assert_eq!(spans.len(), RUNS_MAX);
        let oldest = traces.lock().runs[0].id.invocation.clone();
        assert_eq!(oldest, "e-5");
    }

    #[test]
    fn oldest_traced_runs_are_evicted_by_bytes() {
        let traces = Traces::default();
        let each = 1 << 19;
        for run in 0..2 * BYTES_MAX / each {
            trace_run(&traces, run, each);
        }
        let queue = traces.lock();
        assert!(queue.bytes <= BYTES_MAX, "{}", queue.bytes);
        assert!(queue.bytes > BYTES_MAX - 2 * each, "{}", queue.bytes);
        assert_eq!(
            queue.bytes,
            queue.runs.iter().map(|run| run.bytes).sum::<usize>()
        );
    }

    #[test]
    fn spans_and_bytes_of_a_traced_run_are_limited() {
        let traces = Traces::default();
        let root = begin_run(&traces, run_of("ada", "e-1"), 1);
        let huge = || JsonMap::from([("text", "x".repeat(ATTRIBUTE_MAX - 10))]);
        for _ in 0..SPANS_MAX + 5 {
            let id = traces.new_id();
            traces.begin_span(root, Span::new(id, Some(root), "s".to_owned(), 1), huge());
        }
        let queue = traces.lock();
        assert_eq!(queue.runs[0].spans.len(), SPANS_MAX);
        assert!(
            queue.bytes <= RUN_BYTES_MAX + (64 + "s".len()) * SPANS_MAX,
            "{}",
            queue.bytes
        );
    }

    #[test]
    fn span_names_are_truncated_and_counted() {
        let traces = Traces::default();
        let root = begin_run(&traces, run_of("ada", "e-1"), 1);
        let before = traces.lock().bytes;
        let id = traces.new_id();
        let span = Span::new(id, Some(root), "ü".repeat(1 << 20), 1);
        traces.begin_span(root, span, JsonMap::new());
        let queue = traces.lock();
        assert_eq!(queue.runs[0].spans[1].name, "ü".repeat(NAME_MAX));
        assert_eq!(queue.bytes - before, 2 * NAME_MAX);
    }

    #[test]
    fn traced_runs_with_the_same_id_of_two_users_are_separate() {
        let traces = Traces::default();
        for user in ["ada", "bob"] {
            let root = begin_run(&traces, run_of(user, "e-1"), 1);
            traces.end_span(root, root);
        }
        for user in ["ada", "bob"] {
            let session = run_of(user, "e-1").session;
            assert_eq!(traces.session_spans(&session).len(), 1);
        }
    }

    #[test]
    fn delete_and_erase_remove_traces() {
        let traces = Traces::default();
        trace_run(&traces, 1, 10);
        let root = begin_run(&traces, run_of("bob", "e-2"), 1);
        traces.delete_session(&SessionKey::new("app", "ada", "s"));
        assert_eq!(traces.lock().runs.len(), 1);
        traces.delete_user("other", "bob");
        assert_eq!(traces.lock().runs.len(), 1);
        traces.delete_user("app", "bob");
        // A span that ends after the erase does not restore the deleted run.
        let id = traces.new_id();
        let span = Span::new(id, Some(root), "s".to_owned(), 1);
        traces.begin_span(root, span, JsonMap::from([("text", "x")]));
        traces.end_span(root, id);
        let queue = traces.lock();
        assert_eq!((queue.runs.len(), queue.bytes), (0, 0));
    }
}
