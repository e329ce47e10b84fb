//! What happened in runs, as spans: for people who look at a run in the web UI.
//!
//! ```text
//! a run → spans of `tracing` → layer.rs → Traces (the newest, bounded) → adk/dev/trace.rs
//! ```
//!
//! They are in memory only, and of this process. The oldest runs are forgotten first; those of a
//! session that is deleted and of a user that is erased go with them. What was said is in them, as the
//! web UI shows it: a runner tells it to layers of its own process, and not to exporters.

mod layer;

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use retain_core::{Clock, Json, JsonMap, SessionKey, SystemClock};

/// How many runs are remembered.
const RUNS_MAX: usize = 1_000;

/// How many bytes of attributes are remembered in all.
const BYTES_MAX: usize = 32 << 20;

/// How many bytes of attributes one run may have before requests are left out.
const RUN_BYTES_MAX: usize = 8 << 20;

/// How long one attribute may be.
const ATTRIBUTE_MAX: usize = 1 << 20;

/// How many characters of a span's name are kept. A tool that there is not has the name that a model
/// gave it, and that may be of any length.
const NAME_MAX: usize = 256;

/// How many spans one run may have.
const SPANS_MAX: usize = 2_000;

/// The spans of the newest runs. Cloning shares it.
#[derive(Debug, Clone)]
pub struct Traces {
    clock: Arc<dyn Clock>,
    kept: Arc<Mutex<Kept>>,
}

#[derive(Debug, Default)]
struct Kept {
    /// Oldest first.
    runs: VecDeque<RunTrace>,
    bytes: usize,
    /// How many spans were ever begun; their ids.
    spans: u64,
}

/// Which run it is. The name of a run alone would not do: clients choose it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RunId {
    session: SessionKey,
    invocation: String,
}

/// One run.
#[derive(Debug)]
struct RunTrace {
    /// The id of its outermost span.
    root: u64,
    of: RunId,
    spans: Vec<Span>,
    bytes: usize,
}

/// Something that took time.
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
    /// None yet. Times are those of `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> Traces {
        Traces {
            clock,
            kept: Arc::default(),
        }
    }

    /// The session that is meant by its id alone, in one app or in all: the one that ran last, as
    /// several users may have one of that id.
    pub(crate) fn session_named(&self, app: Option<&str>, id: &str) -> Option<SessionKey> {
        let kept = self.kept();
        let mut runs = kept.runs.iter().rev();
        let found = runs.find(|run| run.of.session.id == id && run.is_of(app));
        found.map(|run| run.of.session.clone())
    }

    /// The finished spans of a session, as ADK gives them.
    pub(crate) fn of_session(&self, session: &SessionKey) -> Vec<Json> {
        let kept = self.kept();
        let runs = kept.runs.iter().filter(|run| run.of.session == *session);
        let mut spans = Vec::new();
        for run in runs {
            spans.extend(run.spans.iter().filter_map(|span| run.span_json(span)));
        }
        spans
    }

    /// The attributes of the span that an event came from, and whose they are; the last one, if
    /// there are several.
    pub(crate) fn of_event(&self, app: Option<&str>, event: &str) -> Option<(SessionKey, Json)> {
        let kept = self.kept();
        let mut runs = kept.runs.iter().rev().filter(|run| run.is_of(app));
        runs.find_map(|run| {
            let spans = run.spans.iter().rev();
            let mut spans = spans.filter(|span| span.event_id() == Some(event));
            // A call tells more than the model's part of it.
            let span = spans.clone().find(|span| !span.is_generating());
            let span = span.or_else(|| spans.next())?;
            let mut attributes = span.attributes.clone();
            attributes.insert("trace_id", run.trace_id());
            attributes.insert("span_id", span_id(span.id));
            Some((run.of.session.clone(), attributes.into()))
        })
    }

    /// Forgets what happened in a session.
    pub(crate) fn forget_session(&self, session: &SessionKey) {
        self.forget(|known| known == session);
    }

    /// Forgets what happened in all sessions of a user.
    pub(crate) fn forget_user(&self, app: &str, user: &str) {
        self.forget(|known| known.app == app && known.user == user);
    }

    fn forget(&self, is_gone: impl Fn(&SessionKey) -> bool) {
        let mut kept = self.kept();
        kept.runs.retain(|run| !is_gone(&run.of.session));
        kept.bytes = kept.runs.iter().map(|run| run.bytes).sum();
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the trace of a run, unless it was forgotten meanwhile.
    fn with_run<T>(&self, root: u64, change: impl FnOnce(&mut RunTrace) -> T) -> Option<T> {
        let mut kept = self.kept();
        let mut runs = kept.runs.iter_mut().rev();
        let run = runs.find(|run| run.root == root)?;
        let before = run.bytes;
        let changed = change(run);
        let after = run.bytes;
        kept.bytes = kept.bytes - before + after;
        kept.forget_oldest();
        Some(changed)
    }

    /// An id for a span.
    fn new_id(&self) -> u64 {
        let mut kept = self.kept();
        kept.spans += 1;
        kept.spans
    }

    /// Begins a run with its outermost span, which began at `start_us`.
    fn begin_run(&self, root: u64, of: RunId, start_us: i64, attributes: JsonMap) {
        let run = RunTrace {
            root,
            of,
            spans: Vec::new(),
            bytes: 0,
        };
        self.kept().runs.push_back(run);
        let span = Span::new(root, None, "invocation".to_owned(), start_us);
        self.begin(root, span, attributes);
    }

    /// Begins a span of a run.
    fn begin(&self, root: u64, span: Span, attributes: JsonMap) {
        self.with_run(root, |run| {
            if run.spans.len() < SPANS_MAX {
                let id = span.id;
                run.bytes += span.name.len();
                run.spans.push(span);
                run.add(id, attributes);
            }
        });
    }

    /// Adds what is known of a span now.
    fn add(&self, root: u64, span: u64, attributes: JsonMap) {
        self.with_run(root, |run| run.add(span, attributes));
    }

    /// Ends a span.
    fn end(&self, root: u64, span: u64) {
        let now = self.clock.now_us();
        self.with_run(root, |run| {
            if let Some(span) = run.spans.iter_mut().rev().find(|it| it.id == span) {
                span.end_us = Some(now);
            }
        });
    }
}

impl Kept {
    fn forget_oldest(&mut self) {
        while self.runs.len() > RUNS_MAX || self.bytes > BYTES_MAX {
            let Some(oldest) = self.runs.pop_front() else {
                return;
            };
            self.bytes -= oldest.bytes;
        }
    }
}

impl RunTrace {
    fn is_of(&self, app: Option<&str>) -> bool {
        app.is_none_or(|app| self.of.session.app == app)
    }

    /// 128 bits in hexadecimal, made of the run's id.
    fn trace_id(&self) -> String {
        let id = self.of.invocation.trim_start_matches("e-");
        id.chars().filter(char::is_ascii_hexdigit).collect()
    }

    /// Adds attributes to a span, as far as there is room.
    fn add(&mut self, span: u64, attributes: JsonMap) {
        let Some(at) = self.spans.iter().rposition(|it| it.id == span) else {
            return;
        };
        for (key, value) in attributes.iter() {
            let size = key.len() + value.as_str().map_or(16, str::len);
            let has_room = size <= ATTRIBUTE_MAX && self.bytes + size <= RUN_BYTES_MAX;
            let (value, size) = match has_room {
                true => (value.clone(), size),
                // JSON, as the web UI reads the long ones.
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

/// 64 bits in hexadecimal: a text, as JavaScript's numbers are too small for it.
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

    fn begun(traces: &Traces, of: RunId, attribute: usize) -> u64 {
        let text = JsonMap::from([("text", "x".repeat(attribute))]);
        let root = traces.new_id();
        traces.begin_run(root, of, 1, text);
        root
    }

    fn traced(traces: &Traces, run: usize, attribute: usize) {
        let root = begun(traces, run_of("ada", &format!("e-{run}")), attribute);
        traces.end(root, root);
    }

    #[test]
    fn the_oldest_runs_are_forgotten_by_count() {
        let traces = Traces::default();
        for run in 0..RUNS_MAX + 5 {
            traced(&traces, run, 10);
        }
        let spans = traces.of_session(&SessionKey::new("app", "ada", "s"));
        assert_eq!(spans.len(), RUNS_MAX);
        let oldest = traces.kept().runs[0].of.invocation.clone();
        assert_eq!(oldest, "e-5");
    }

    #[test]
    fn the_oldest_runs_are_forgotten_by_bytes() {
        let traces = Traces::default();
        let each = 1 << 19;
        for run in 0..2 * BYTES_MAX / each {
            traced(&traces, run, each);
        }
        let kept = traces.kept();
        assert!(kept.bytes <= BYTES_MAX, "{}", kept.bytes);
        assert!(kept.bytes > BYTES_MAX - 2 * each, "{}", kept.bytes);
        assert_eq!(
            kept.bytes,
            kept.runs.iter().map(|run| run.bytes).sum::<usize>()
        );
    }

    #[test]
    fn one_run_cannot_have_more_than_its_share() {
        let traces = Traces::default();
        let root = begun(&traces, run_of("ada", "e-1"), 1);
        let huge = || JsonMap::from([("text", "x".repeat(ATTRIBUTE_MAX - 10))]);
        for _ in 0..SPANS_MAX + 5 {
            let id = traces.new_id();
            traces.begin(root, Span::new(id, Some(root), "s".to_owned(), 1), huge());
        }
        let kept = traces.kept();
        assert_eq!(kept.runs[0].spans.len(), SPANS_MAX);
        assert!(
            kept.bytes <= RUN_BYTES_MAX + (64 + "s".len()) * SPANS_MAX,
            "{}",
            kept.bytes
        );
    }

    #[test]
    fn names_count_and_are_cut() {
        let traces = Traces::default();
        let root = begun(&traces, run_of("ada", "e-1"), 1);
        let before = traces.kept().bytes;
        let id = traces.new_id();
        let span = Span::new(id, Some(root), "ü".repeat(1 << 20), 1);
        traces.begin(root, span, JsonMap::new());
        let kept = traces.kept();
        assert_eq!(kept.runs[0].spans[1].name, "ü".repeat(NAME_MAX));
        assert_eq!(kept.bytes - before, 2 * NAME_MAX);
    }

    #[test]
    fn a_run_of_the_same_name_is_another_run_if_it_is_somebody_elses() {
        let traces = Traces::default();
        for user in ["ada", "bob"] {
            let root = begun(&traces, run_of(user, "e-1"), 1);
            traces.end(root, root);
        }
        for user in ["ada", "bob"] {
            let session = run_of(user, "e-1").session;
            assert_eq!(traces.of_session(&session).len(), 1);
        }
    }

    #[test]
    fn what_is_deleted_and_who_is_erased_leaves_no_trace() {
        let traces = Traces::default();
        traced(&traces, 1, 10);
        let root = begun(&traces, run_of("bob", "e-2"), 1);
        traces.forget_session(&SessionKey::new("app", "ada", "s"));
        assert_eq!(traces.kept().runs.len(), 1);
        traces.forget_user("other", "bob");
        assert_eq!(traces.kept().runs.len(), 1);
        traces.forget_user("app", "bob");
        // A run that goes on does not come back.
        let id = traces.new_id();
        let span = Span::new(id, Some(root), "s".to_owned(), 1);
        traces.begin(root, span, JsonMap::from([("text", "x")]));
        traces.end(root, id);
        let kept = traces.kept();
        assert_eq!((kept.runs.len(), kept.bytes), (0, 0));
    }
}
