//! Migrates sessions with their logs. Each is written as a draft, so that the target has it
//! completely or not at all; its events are copied in small pages.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::{
    StreamExt as _, TryStreamExt as _,
    future::try_join,
    stream::{self, BoxStream},
};

use super::{
    Section, Side,
    compare::{HashPair, RecordField},
    outcome::{MigrationCounts, MigrationError, Result, failed},
    steps::{BatchSize, PAGE, StorePair, pages},
    survey::{SLACK_US, SideSurvey},
};
use crate::{
    error::SessionError,
    event::Event,
    json::JsonMap,
    log::{
        find_invocation_start, read_state_at,
        rewind::{KeyChanges, apply, changes_to},
    },
    ports::{Clock, duration_us},
    session::{SessionKey, Window},
    state::ScopedDelta,
    store::{Changes, Head, NewEvent, ReadDetail, ScopedState},
    transfer_store::{LogHeader, TransferStore},
    wire::to_stored_text,
};

/// Number of sessions that are copied concurrently, because a store commits concurrent writes
/// together.
const CONCURRENT_COPIES: usize = 8;

#[derive(Debug)]
pub(super) struct Sessions {
    stores: StorePair<dyn TransferStore>,
    clock: Arc<dyn Clock>,
}

/// Events by position.
type Events = Vec<(u64, Arc<Event>)>;

impl Sessions {
    pub(super) fn new(stores: StorePair<dyn TransferStore>, clock: Arc<dyn Clock>) -> Sessions {
        Sessions { stores, clock }
    }

    fn addresses(&self, side: Side) -> BoxStream<'_, Result<Vec<SessionKey>>> {
        pages(move |after: Option<SessionKey>| {
            Box::pin(async move {
                let keys = self.stores.at(side).addresses(after.as_ref(), PAGE).await;
                keys.map_err(failed("the list of sessions"))
            })
        })
    }

    async fn header(&self, side: Side, key: &SessionKey) -> Result<Option<LogHeader>> {
        let header = self.stores.at(side).log_header(key).await;
        header.map_err(failed(name_of(key)))
    }

    async fn both_headers(
        &self,
        key: &SessionKey,
    ) -> Result<(Option<LogHeader>, Option<LogHeader>)> {
        try_join(
            self.header(Side::Source, key),
            self.header(Side::Target, key),
        )
        .await
    }

    /// Whether the session expires so soon that it may be missing on one side.
    fn is_expiring(&self, head: &Head) -> bool {
        let soon = self.clock.now_us().saturating_add(SLACK_US);
        head.expires_us.is_some_and(|expires_us| expires_us <= soon)
    }

    async fn events(&self, side: Side, head: &Head, from: u64, to: u64) -> Result<Events> {
        let (key, window) = (&head.key, Window::range(from, to));
        let read = self
            .stores
            .at(side)
            .read(key, window, ReadDetail::EventsOnly)
            .await;
        let read = read.map_err(failed(name_of(key)))?;
        let read = read.filter(|read| read.head.incarnation == head.incarnation);
        match read {
            Some(read) => Ok(read.events),
            None => Err(failed(name_of(key))(SessionError::not_found(key))),
        }
    }

    async fn state_at(&self, side: Side, key: &SessionKey, position: u64) -> Result<JsonMap> {
        let state = read_state_at(&**self.stores.at(side), key, position).await;
        Ok(state.map_err(failed(name_of(key)))?.session)
    }

    /// Returns the events at the positions `from` to `to`, and the state after them, as fields for
    /// comparison.
    async fn fields(
        &self,
        side: Side,
        head: &Head,
        from: u64,
        to: u64,
    ) -> Result<Vec<RecordField>> {
        let key = &head.key;
        let mut fields = Vec::new();
        for (position, event) in self.events(side, head, from, to).await? {
            let text = event.to_json().map_err(failed(name_of(key)))?;
            fields.push(RecordField::new(format!("event {position}"), text));
        }
        let state = self.state_at(side, key, to).await?;
        fields.push(RecordField::of_keys(
            format!("its state after event {to}"),
            &state,
        )?);
        Ok(fields)
    }

    /// Returns the first difference between two logs.
    async fn difference(
        &self,
        from: &LogHeader,
        to: &LogHeader,
        both: &mut HashPair,
        reports_progress: bool,
    ) -> Result<Option<String>> {
        let difference = both.compare(&header_fields(from)?, &header_fields(to)?);
        if difference.is_some() {
            return Ok(difference);
        }
        let (last, mut position, mut batch_size) = (from.head.position, 0, BatchSize::new());
        loop {
            let (first, end) = (position + 1, last.min(position + batch_size.step() as u64));
            let (source, target) = try_join(
                self.fields(Side::Source, &from.head, first, end),
                self.fields(Side::Target, &to.head, first, end),
            )
            .await?;
            let difference = both.compare(&source, &target);
            if difference.is_some() {
                return Ok(difference);
            }
            if reports_progress {
                self.stores.observer.advance(end - position);
            }
            batch_size.adapt(source.len(), source.iter().map(RecordField::bytes).sum());
            position = end;
            if position >= last {
                return Ok(None);
            }
        }
    }

    /// Copies a session, unless the target has it.
    async fn copy_one(&self, key: SessionKey) -> Result<MigrationCounts> {
        let none = MigrationCounts::default();
        let (Some(header), None) = self.both_headers(&key).await? else {
            return Ok(none);
        };
        let name = || name_of(&key);
        let draft = self.stores.to.begin_draft(&key).await;
        let draft = draft.map_err(failed(name()))?;
        let (last, mut position, mut batch_size) = (header.head.position, 0, BatchSize::new());
        let mut state = ScopedDelta::from_delta(&header.initial).session;
        while position < last {
            let end = last.min(position + batch_size.step() as u64);
            let events = self
                .events(Side::Source, &header.head, position + 1, end)
                .await?;
            let mut ready = Vec::with_capacity(events.len());
            for (position, event) in events {
                let changes = self.compute_changes(&key, position, &event, &state).await?;
                apply(&mut state, &changes);
                ready.push((position, new_event(&key, event, changes)?));
            }
            batch_size.adapt(
                ready.len(),
                ready.iter().map(|(_, new)| new.body.len()).sum(),
            );
            let extended = self.stores.to.extend_draft(draft, &ready).await;
            extended.map_err(failed(name()))?;
            self.stores.observer.advance(end - position);
            position = end;
        }
        let shared = ScopedState::default();
        match self.stores.to.finish_draft(draft, &header, &shared).await {
            Ok(_) => {}
            // The session expired before its copy was complete.
            Err(SessionError::NotFound { .. }) if self.is_expiring(&header.head) => {
                return Ok(none);
            }
            Err(error) => return Err(failed(name())(error)),
        }
        self.stores.observer.advance(1);
        Ok(count(&header.head))
    }

    /// Computes the changes of an event to the session's own state. The state after a rewind is
    /// read from the source, because keeping every state would need unbounded memory.
    async fn compute_changes(
        &self,
        key: &SessionKey,
        position: u64,
        event: &Event,
        state: &JsonMap,
    ) -> Result<KeyChanges> {
        let delta = ScopedDelta::from_delta(&event.actions.state_delta).session;
        let mut rewound = None;
        if let Some(invocation) = &event.actions.rewind_before_invocation_id {
            let first = find_invocation_start(&*self.stores.from, key, invocation).await;
            rewound = first.map_err(failed(name_of(key)))?;
        }
        match rewound.filter(|first| *first < position) {
            Some(first) => {
                let target = self.state_at(Side::Source, key, first - 1).await?;
                Ok(changes_to(state, &target, &delta))
            }
            None => Ok(delta.into_iter().map(|(k, v)| (k, Some(v))).collect()),
        }
    }
}

fn name_of(key: &SessionKey) -> String {
    format!("session {key}")
}

fn count(head: &Head) -> MigrationCounts {
    MigrationCounts {
        sessions: 1,
        events: head.position,
        ..MigrationCounts::default()
    }
}

/// Converts an event to the form that a store writes, with its original id and time.
fn new_event(key: &SessionKey, event: Arc<Event>, session: KeyChanges) -> Result<NewEvent> {
    Ok(NewEvent {
        body: to_stored_text(&*event).map_err(failed(name_of(key)))?,
        event,
        time_given: true,
        id_given: true,
        changes: Changes {
            session,
            ..Changes::default()
        },
    })
}

fn header_fields(header: &LogHeader) -> Result<Vec<RecordField>> {
    let head = &header.head;
    let us = |us: Option<i64>| us.map_or("none".to_owned(), |us| format!("{us} µs"));
    let origin = head.origin.as_ref();
    let origin = origin.map(|origin| format!("{:?} at {}", origin.session_id, origin.position));
    Ok(vec![
        RecordField::plain("its address", &head.key),
        RecordField::plain("its number of events", head.position),
        RecordField::plain("its creation time", head.create_time),
        RecordField::plain("its last update", head.last_update_time),
        RecordField::plain("its time to live", us(head.ttl.map(duration_us))),
        RecordField::plain("when it expires", us(head.expires_us)),
        RecordField::new("its origin", origin.unwrap_or_default()),
        RecordField::of_keys("its initial state", &header.initial)?,
    ])
}

#[async_trait]
impl Section for Sessions {
    fn name(&self) -> &'static str {
        "sessions"
    }

    async fn survey(&self, side: Side) -> Result<SideSurvey> {
        let mut survey = SideSurvey::default();
        let mut pages = self.addresses(side);
        while let Some(page) = pages.try_next().await? {
            for key in page {
                let Some(LogHeader { head, .. }) = self.header(side, &key).await? else {
                    continue;
                };
                survey.counts += count(&head);
                survey.add(
                    &[
                        name_of(&key).as_bytes(),
                        &head.incarnation.to_le_bytes(),
                        &head.position.to_le_bytes(),
                        &head.last_update_time.to_le_bytes(),
                    ],
                    head.expires_us,
                );
            }
        }
        Ok(survey)
    }

    async fn count_present(&self) -> Result<MigrationCounts> {
        let mut counts = MigrationCounts::default();
        let mut pages = self.addresses(Side::Target);
        while let Some(page) = pages.try_next().await? {
            for key in page {
                let what = name_of(&key);
                match self.both_headers(&key).await? {
                    (_, None) => {}
                    (None, Some(to)) if self.is_expiring(&to.head) => {}
                    (None, Some(_)) => return Err(MigrationError::Extra { what }),
                    (Some(from), Some(to)) => {
                        let mut both = HashPair::default();
                        let difference = self.difference(&from, &to, &mut both, false).await?;
                        if let Some(difference) = difference {
                            return Err(MigrationError::differs(what, difference));
                        }
                        counts += count(&from.head);
                    }
                }
            }
        }
        Ok(counts)
    }

    async fn copy(&self) -> Result<MigrationCounts> {
        let mut counts = MigrationCounts::default();
        let mut pages = self.addresses(Side::Source);
        while let Some(page) = pages.try_next().await? {
            let copies = page.into_iter().map(|key| self.copy_one(key));
            let mut copies = stream::iter(copies)
                .buffer_unordered(CONCURRENT_COPIES)
                .boxed();
            while let Some(copied) = copies.try_next().await? {
                counts += copied;
            }
        }
        Ok(counts)
    }

    async fn verify(&self, both: &mut HashPair) -> Result<MigrationCounts> {
        let mut counts = MigrationCounts::default();
        let mut pages = self.addresses(Side::Source);
        while let Some(page) = pages.try_next().await? {
            for key in page {
                let difference = match self.both_headers(&key).await? {
                    (None, _) => continue,
                    (Some(from), None) if self.is_expiring(&from.head) => continue,
                    (Some(_), None) => Some("it is missing in the target".to_owned()),
                    (Some(from), Some(to)) => {
                        counts += count(&from.head);
                        self.stores.observer.advance(1);
                        self.difference(&from, &to, both, true).await?
                    }
                };
                if let Some(difference) = difference {
                    return Err(MigrationError::mismatch(name_of(&key), difference));
                }
            }
        }
        let mut pages = self.addresses(Side::Target);
        while let Some(page) = pages.try_next().await? {
            for key in page {
                if let (None, Some(to)) = self.both_headers(&key).await?
                    && !self.is_expiring(&to.head)
                {
                    let difference = "it is in the target only";
                    return Err(MigrationError::mismatch(name_of(&key), difference));
                }
            }
        }
        Ok(counts)
    }
}
