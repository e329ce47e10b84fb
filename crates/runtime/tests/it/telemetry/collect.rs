//! A layer that collects the spans of all runs and draws them as a tree.

use std::{
    collections::BTreeMap,
    fmt::{self, Debug},
    sync::{Arc, Mutex},
};

use retain_core::{Json, JsonMap};
use retain_runtime::telemetry::{CONTENT, SPANS};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
    subscriber::DefaultGuard,
};
use tracing_subscriber::{
    Layer, Registry,
    filter::filter_fn,
    layer::{Context, SubscriberExt as _},
    registry::LookupSpan,
};

/// A recorded span.
#[derive(Debug, Clone, Default)]
pub(crate) struct Span {
    pub(crate) id: u64,
    pub(crate) parent: Option<u64>,
    pub(crate) name: String,
    pub(crate) attributes: BTreeMap<String, Json>,
    /// Values that only layers of this process receive.
    pub(crate) content: BTreeMap<String, Json>,
    pub(crate) is_closed: bool,
}

/// All spans, in the order in which they started. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct SpanRecorder(Arc<Mutex<Vec<Span>>>);

impl SpanRecorder {
    /// Records the spans of this thread until the guard is dropped.
    pub(crate) fn install() -> (SpanRecorder, DefaultGuard) {
        let recorder = SpanRecorder::default();
        let is_ours =
            filter_fn(|metadata| metadata.target() == SPANS || metadata.target() == CONTENT);
        let layer = recorder.clone().with_filter(is_ours);
        retain_testkit::callsites::enable_for_all_threads();
        let guard = tracing::subscriber::set_default(Registry::default().with(layer));
        (recorder, guard)
    }

    pub(crate) fn spans(&self) -> Vec<Span> {
        self.0.lock().expect("no test has panicked").clone()
    }

    fn change(&self, id: u64, change: impl FnOnce(&mut Span)) {
        let mut spans = self.0.lock().expect("no test has panicked");
        let span = spans.iter_mut().rev().find(|span| span.id == id);
        change(span.expect("a recorded span"));
    }
}

/// Collects fields. Fails if a field is recorded twice, because it would be exported twice.
struct Fields<'a>(&'a mut BTreeMap<String, Json>);

impl Fields<'_> {
    fn put(&mut self, field: &Field, value: impl Into<Json>) {
        let before = self.0.insert(field.name().to_owned(), value.into());
        assert_eq!(before, None, "{} is recorded twice", field.name());
    }
}

impl Visit for Fields<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        panic!("exporters write the unsigned number {field} = {value} as text");
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put(field, format!("{value:?}"));
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for SpanRecorder {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, ctx: Context<'_, S>) {
        let span = ctx.span(id).expect("a registered span");
        let mut new = Span {
            id: id.into_u64(),
            parent: span.parent().map(|parent| parent.id().into_u64()),
            ..Span::default()
        };
        attributes.record(&mut Fields(&mut new.attributes));
        let name = new
            .attributes
            .remove("otel.name")
            .expect("a span has `otel.name`");
        new.name = name.as_str().expect("a text").to_owned();
        self.0.lock().expect("no test has panicked").push(new);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _ctx: Context<'_, S>) {
        self.change(id.into_u64(), |span| {
            values.record(&mut Fields(&mut span.attributes));
        });
    }

    fn on_event(&self, event: &Event<'_>, ctx: Context<'_, S>) {
        let Some(span) = ctx.event_span(event) else {
            panic!("content without a span: {event:?}");
        };
        let mut fields = BTreeMap::new();
        event.record(&mut Fields(&mut fields));
        self.change(span.id().into_u64(), |span| {
            match fields.get("attribute").and_then(Json::as_str) {
                Some(name) => drop(
                    span.content
                        .insert(name.to_owned(), fields["value"].clone()),
                ),
                None => span.content.extend(fields),
            }
        });
    }

    fn on_close(&self, id: Id, _ctx: Context<'_, S>) {
        self.change(id.into_u64(), |span| span.is_closed = true);
    }
}

/// Nests the spans as `{name, attributes, children}`. Children are in the order in which they
/// started.
pub(crate) fn tree(spans: &[Span]) -> Json {
    Json::from(children(spans, None))
}

fn children(spans: &[Span], parent: Option<u64>) -> Vec<Json> {
    let mut nodes: Vec<Json> = Vec::new();
    for span in spans.iter().filter(|span| span.parent == parent) {
        assert!(span.is_closed, "{span:?} is still open");
        let mut node = JsonMap::from([("name", span.name.as_str())]);
        let attributes = span.attributes.iter();
        let attributes = attributes.map(|(name, value)| (name.as_str(), value.clone()));
        node.insert("attributes", attributes.collect::<JsonMap>());
        node.insert("children", children(spans, Some(span.id)));
        nodes.push(node.into());
    }
    nodes
}

/// Displays spans as a tree, one span per line.
pub(crate) struct SpanTree<'a>(pub(crate) &'a [Span]);

impl fmt::Display for SpanTree<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_tree(f, self.0, None, 0)
    }
}

fn write_tree(
    f: &mut fmt::Formatter<'_>,
    all: &[Span],
    parent: Option<u64>,
    depth: usize,
) -> fmt::Result {
    for span in all.iter().filter(|span| span.parent == parent) {
        writeln!(f, "{:indent$}{}", "", span.name, indent = 2 * depth)?;
        write_tree(f, all, Some(span.id), depth + 1)?;
    }
    Ok(())
}
