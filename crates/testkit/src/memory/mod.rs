//! The promises that every memory keeps, as tests: a service answers queries, and a store holds the
//! service's entries.
//!
//! A service runs them with one line, [`memory_promises!`](crate::memory_promises), a store with
//! [`memory_store_promises!`](crate::memory_store_promises); each promise becomes a test.

#![allow(
    clippy::unwrap_used,
    reason = "promises are test code that lives in a library"
)]

mod migration;
mod search;
mod storage;
mod store;

use std::{fmt, future::Future, sync::Arc};

use futures_util::future::BoxFuture;
use retain_core::{Event, MemoryService, MemoryStore, Session};

pub use migration::*;
pub use search::*;
pub use storage::*;
pub use store::*;

/// What a second service on the same data sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// Everything, even after all services were closed.
    Durable,
    /// Everything, as long as one service is open.
    Shared,
    /// Nothing.
    Alone,
}

type Open = Box<dyn Fn() -> BoxFuture<'static, Arc<dyn MemoryService>> + Send + Sync>;

/// One fresh memory under test.
pub struct MemoryHarness {
    sharing: Sharing,
    open: Open,
}

impl fmt::Debug for MemoryHarness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryHarness").finish_non_exhaustive()
    }
}

impl MemoryHarness {
    /// Creates a harness; every call of `open` must return a service on the same data, opened the
    /// way another process would open it.
    pub fn new<F, Opened>(sharing: Sharing, open: F) -> MemoryHarness
    where
        F: Fn() -> Opened + Send + Sync + 'static,
        Opened: Future<Output = Arc<dyn MemoryService>> + Send + 'static,
    {
        MemoryHarness {
            sharing,
            open: Box::new(move || Box::pin(open())),
        }
    }

    /// Opens a service on the data.
    pub async fn service(&self) -> Arc<dyn MemoryService> {
        (self.open)().await
    }
}

type OpenStore = Box<dyn Fn() -> BoxFuture<'static, Arc<dyn MemoryStore>> + Send + Sync>;

/// One fresh memory store under test.
pub struct MemoryStoreHarness {
    open: OpenStore,
}

impl fmt::Debug for MemoryStoreHarness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStoreHarness").finish_non_exhaustive()
    }
}

impl MemoryStoreHarness {
    /// Creates a harness; every call of `open` must return a store on the same data.
    pub fn new<F, Opened>(open: F) -> MemoryStoreHarness
    where
        F: Fn() -> Opened + Send + Sync + 'static,
        Opened: Future<Output = Arc<dyn MemoryStore>> + Send + 'static,
    {
        MemoryStoreHarness {
            open: Box::new(move || Box::pin(open())),
        }
    }

    /// Opens a store on the data.
    pub async fn store(&self) -> Arc<dyn MemoryStore> {
        (self.open)().await
    }
}

/// Creates a session of `ada` in `app` in which the user says these texts, each with its own event
/// id.
pub fn session(id: &str, texts: &[&str]) -> Session {
    session_of("app", "ada", id, texts)
}

/// Like [`session`], for any app and user.
pub fn session_of(app: &str, user: &str, id: &str, texts: &[&str]) -> Session {
    let mut session = Session::new(app, user, id);
    for (position, text) in (1..).zip(texts) {
        let event = user_event(&format!("{id}-{position}"), text);
        session.events.push(position, event);
    }
    session
}

/// Creates an event with a user message.
pub fn user_event(id: &str, text: &str) -> Event {
    let mut event = Event::user_text(text);
    event.id = id.to_owned();
    event.timestamp = 1_700_000_000.0;
    event
}

/// Returns the texts that a search of `ada` in `app` finds.
async fn found_texts(memory: &dyn MemoryService, query: &str) -> Vec<String> {
    found_texts_of(memory, "app", "ada", query).await
}

async fn found_texts_of(
    memory: &dyn MemoryService,
    app: &str,
    user: &str,
    query: &str,
) -> Vec<String> {
    let found = memory.search_memory(app, user, query).await.unwrap();
    let texts = found.memories.iter();
    texts.map(|memory| memory.content.text_concat()).collect()
}

/// Turns every promise into a test of one memory service. The expression is a future of a fresh
/// [`MemoryHarness`](crate::memory::MemoryHarness). If the memory needs a service, `needs:
/// is_there()` reports whether it is available; otherwise the tests skip themselves.
#[macro_export]
macro_rules! memory_promises {
    ($open:expr $(, needs: $needs:expr)?) => {
        $crate::memory_promises! { @each $open, [$($needs)?];
            // storage
            session_added_twice_is_stored_once,
            session_that_has_grown_adds_only_its_new_entries,
            single_events_are_added_to_existing_entries,
            deleted_entry_is_not_ingested_again,
            invalid_user_name_has_no_entries_or_is_refused,
            memories_survive_a_restart,
            entry_keeps_its_non_text_parts,
            // search
            acknowledged_entry_is_found_at_once,
            search_is_isolated_by_user,
            concurrent_adds_and_searches_lose_nothing,
            hostile_text_is_found_unchanged,
            memory_of_a_megabyte_is_found,
            query_without_words_succeeds,
            words_in_any_script_are_found,
        }
    };
    (@each $open:expr, $needs:expr; $($promise:ident),* $(,)?) => { $(
        #[tokio::test(flavor = "multi_thread")]
        async fn $promise() {
            let needs: [bool; _] = $needs;
            if needs.contains(&false) {
                return;
            }
            $crate::memory::$promise($open.await).await;
        }
    )* };
}

/// Turns every promise into a test of one memory store. The expression is a future of a fresh
/// [`MemoryStoreHarness`](crate::memory::MemoryStoreHarness). `needs` works as in
/// [`memory_promises!`](crate::memory_promises).
#[macro_export]
macro_rules! memory_store_promises {
    ($open:expr $(, needs: $needs:expr)?) => {
        $crate::memory_promises! { @each $open, [$($needs)?];
            ingested_batch_is_all_or_nothing,
            duplicate_id_in_a_batch_acts_like_two_calls,
            repeated_ingest_without_metadata_keeps_the_metadata,
            limits_of_a_user_are_enforced,
            edits_respect_the_limits,
            every_field_of_an_entry_is_returned_unchanged,
            entries_are_read_in_pages_without_gap_or_repeat,
            mark_moves_exactly_when_entries_change,
            changes_since_a_mark_include_changed_and_removed_entries,
            too_many_changes_require_a_full_read,
            edited_entry_is_not_replaced_by_ingestion,
            forget_removes_exactly_the_selected_entries,
            forgotten_id_is_not_ingested_from_any_session,
            expired_entries_are_not_ingested_again,
            expired_direct_entry_can_be_added_again,
            vectors_are_stored_with_their_model,
            statistics_count_existing_entries,
            usage_counts_the_entries_of_users_and_apps,
            batch_beyond_the_room_of_a_quota_is_refused,
            second_store_on_the_same_data_sees_acknowledged_changes,
            scopes_with_entries_are_listed_in_order,
            hashes_of_forgotten_entries_are_read_in_pages,
            migrated_entries_equal_their_source,
            restore_does_not_overwrite_existing_entries,
        }
    };
}
