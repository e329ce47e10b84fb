//! A layer that collects all spans of runs and draws them as a tree.

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

/// One span.
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

/// All spans, in the order of their start. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct SpanRecorder(Arc<Mutex<Vec<Span>>>);

impl SpanRecorder {
    /// Listen on this thread until the guard is dropped.
    pub(crate) fn listening() -> (SpanRecorder, DefaultGuard) {
        let collected = SpanRecorder::default();
        let is_ours = filter_fn(|about| about.target() == SPANS || about.target() == CONTENT);
        let layer = collected.clone().with_filter(is_ours);
        retain_testkit::callsites::enable_for_all_threads();
        let guard = tracing::subscriber::set_default(Registry::default().with(layer));
        (collected, guard)
    }

    pub(crate) fn spans(&self) -> Vec<Span> {
        self.0.lock().expect("no panic").clone()
    }

    fn change(&self, id: u64, change: impl FnOnce(&mut Span)) {
        let mut spans = self.0.lock().expect("no panic");
        let span = spans.iter_mut().rev().find(|span| span.id == id);
        change(span.expect("it began"));
    }
}

/// Reads fields. A field recorded twice would be exported twice.
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
        panic!("exporters make a text of {field} = {value}");
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
        let span = ctx.span(id).expect("it is there");
        let mut new = Span {
            id: id.into_u64(),
            parent: span.parent().map(|parent| parent.id().into_u64()),
            ..Span::default()
        };
        attributes.record(&mut Fields(&mut new.attributes));
        let name = new
            .attributes
            .remove("otel.name")
            .expect("every one has it");
        new.name = name.as_str().expect("a text").to_owned();
        self.0.lock().expect("no panic").push(new);
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
        let mut told = BTreeMap::new();
        event.record(&mut Fields(&mut told));
        self.change(span.id().into_u64(), |span| {
            match told.get("attribute").and_then(Json::as_str) {
                Some(name) => drop(span.content.insert(name.to_owned(), told["value"].clone())),
                None => span.content.extend(told),
            }
        });
    }

    fn on_close(&self, id: Id, _ctx: Context<'_, S>) {
        self.change(id.into_u64(), |span| span.is_closed = true);
    }
}

/// Nest the spans as `{name, attributes, children}`, with children in an order that does not depend
/// on time.
pub(crate) fn tree(spans: &[Span]) -> Json {
    Json::from(below(spans, None))
}

fn below(spans: &[Span], parent: Option<u64>) -> Vec<Json> {
    let mut found: Vec<Json> = Vec::new();
    for span in spans.iter().filter(|span| span.parent == parent) {
        assert!(span.is_closed, "{span:?} is still open");
        let mut node = JsonMap::from([("name", span.name.as_str())]);
        let attributes = span.attributes.iter();
        let attributes = attributes.map(|(name, value)| (name.as_str(), value.clone()));
        node.insert("attributes", attributes.collect::<JsonMap>());
        node.insert("children", below(spans, Some(span.id)));
        found.push(node.into());
    }
    found
}

/// A tree as text, one span per line.
pub(crate) struct Drawn<'a>(pub(crate) &'a [Span]);

impl fmt::Display for Drawn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        draw(f, self.0, None, 0)
    }
}

fn draw(
    f: &mut fmt::Formatter<'_>,
    all: &[Span],
    parent: Option<u64>,
    depth: usize,
) -> fmt::Result {
    for span in all.iter().filter(|span| span.parent == parent) {
        writeln!(f, "{:indent$}{}", "", span.name, indent = 2 * depth)?;
        draw(f, all, Some(span.id), depth + 1)?;
    }
    Ok(())
}
