//! The `tracing` layer that records the spans of runs, for servers with developer tools.

use std::fmt::Debug;

use retain_core::{Json, JsonMap, SessionKey};
use retain_runtime::telemetry::{CONTENT, SPANS};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};
use tracing_subscriber::{
    Layer,
    filter::filter_fn,
    layer::Context,
    registry::{LookupSpan, SpanRef},
};

use super::{RunId, Span, Traces};

/// Records spans of runs in [`Traces`].
#[derive(Debug)]
struct TraceLayer(Traces);

/// A recorded span, or a root span whose session is not known yet.
#[derive(Debug)]
struct SpanRecord {
    /// The id of the run's root span.
    root: u64,
    id: u64,
    /// The start of a run whose session is not known yet.
    pending: Option<PendingRoot>,
}

/// The start of a run.
#[derive(Debug)]
struct PendingRoot {
    start_us: i64,
    attributes: JsonMap,
}

impl Traces {
    /// Returns the layer that the program's `tracing` subscriber needs to record runs. One layer
    /// serves all servers with these traces.
    ///
    /// ```
    /// use retain_server::Dev;
    /// use tracing_subscriber::{layer::SubscriberExt as _, Registry};
    ///
    /// let dev = Dev::new();
    /// let subscriber = Registry::default().with(dev.traces().layer());
    /// # let _ = subscriber;
    /// ```
    pub fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let is_of_runs = filter_fn(|about| about.target() == SPANS || about.target() == CONTENT);
        TraceLayer(self.clone()).with_filter(is_of_runs)
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for TraceLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, ctx: Context<'_, S>) {
        let Some(span) = ctx.span(id) else {
            return;
        };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let start_us = self.0.clock.now_us();
        let above = span.scope().skip(1).find_map(|above| recorded_ids(&above));
        let record = match above {
            Some((root, parent)) => {
                let id = self.0.new_id();
                let name = fields.name.unwrap_or_else(|| span.name().to_owned());
                let new = Span::new(id, Some(parent), name, start_us);
                self.0.begin_span(root, new, fields.attributes);
                SpanRecord {
                    root,
                    id,
                    pending: None,
                }
            }
            None if span.name() == "invocation" => {
                let id = self.0.new_id();
                let attributes = fields.attributes;
                SpanRecord {
                    root: id,
                    id,
                    pending: Some(PendingRoot {
                        start_us,
                        attributes,
                    }),
                }
            }
            // The span belongs to no recorded run.
            None => return,
        };
        span.extensions_mut().insert(record);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, ctx: Context<'_, S>) {
        let Some(span) = ctx.span(id) else {
            return;
        };
        let mut fields = Fields::default();
        values.record(&mut fields);
        let mut extensions = span.extensions_mut();
        match extensions.get_mut::<SpanRecord>() {
            None => {}
            Some(SpanRecord {
                pending: Some(pending),
                ..
            }) => {
                for (key, value) in fields.attributes.iter() {
                    pending.attributes.insert(key, value.clone());
                }
            }
            Some(SpanRecord { root, id, .. }) => {
                self.0.add_attributes(*root, *id, fields.attributes)
            }
        }
    }

    fn on_event(&self, event: &Event<'_>, ctx: Context<'_, S>) {
        let Some(span) = ctx.event_span(event) else {
            return;
        };
        let mut fields = Fields::default();
        event.record(&mut fields);
        let mut attributes = fields.attributes;
        let mut extensions = span.extensions_mut();
        let Some(record) = extensions.get_mut::<SpanRecord>() else {
            return;
        };
        match (record.pending.take(), run_of(&attributes)) {
            (Some(pending), Some(run)) => {
                self.0
                    .begin_run(record.root, run, pending.start_us, pending.attributes);
            }
            // A nested run is part of the outer one.
            (None, Some(_)) => {}
            (pending, None) => {
                record.pending = pending;
                let name = attributes.remove("attribute");
                let value = attributes.remove("value").unwrap_or_default();
                if let Some(name) = name.as_ref().and_then(Json::as_str) {
                    let attributes = JsonMap::from([(name, value)]);
                    self.0.add_attributes(record.root, record.id, attributes);
                }
            }
        }
    }

    fn on_close(&self, id: Id, ctx: Context<'_, S>) {
        if let Some((root, id)) = ctx.span(&id).and_then(|span| recorded_ids(&span)) {
            self.0.end_span(root, id);
        }
    }
}

/// Returns the ids of a recorded span's root span and of the span itself.
fn recorded_ids<S: for<'a> LookupSpan<'a>>(span: &SpanRef<'_, S>) -> Option<(u64, u64)> {
    let extensions = span.extensions();
    let record = extensions.get::<SpanRecord>()?;
    record.pending.is_none().then_some((record.root, record.id))
}

/// Returns the session and invocation of a run, if the event names them.
fn run_of(attributes: &JsonMap) -> Option<RunId> {
    let text = |key: &str| attributes.get(key).and_then(Json::as_str);
    Some(RunId {
        session: SessionKey::new(text("app")?, text("user")?, text("session")?),
        invocation: text("invocation")?.to_owned(),
    })
}

/// Collects the fields of a span as ADK's attributes.
#[derive(Debug, Default)]
struct Fields {
    name: Option<String>,
    attributes: JsonMap,
}

impl Fields {
    fn put(&mut self, field: &Field, value: Json) {
        match field.name() {
            "otel.name" => self.name = value.as_str().map(str::to_owned),
            // The attribute `error.type` names the error already.
            "otel.status_description" => {}
            // OpenTelemetry defines a list here; a model call has one finish reason.
            name @ "gen_ai.response.finish_reasons" => {
                self.attributes.insert(name, vec![value]);
            }
            name => drop(self.attributes.insert(name, value)),
        }
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put(field, format!("{value:?}").into());
    }
}
