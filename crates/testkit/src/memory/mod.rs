//! The promises every memory keeps, as tests: those of a service, which is asked in words, and those
//! of a store, which a service stands on.
//!
//! A service signs them with one line, [`memory_promises!`](crate::memory_promises), a store with
//! [`memory_store_promises!`](crate::memory_store_promises), and each becomes a test of its own.

#![allow(
    clippy::unwrap_used,
    reason = "promises are test code that lives in a library"
)]

mod finding;
mod keeping;
mod store;
mod taking_over;

use std::{fmt, future::Future, sync::Arc};

use futures_util::future::BoxFuture;
use retain_core::{Event, MemoryService, MemoryStore, Session};

pub use finding::*;
pub use keeping::*;
pub use store::*;
pub use taking_over::*;

/// What a second service on the same data knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// Everything, also after all services were closed.
    Durable,
    /// Everything, as long as one is open.
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
    /// A harness on what `open` gives: each time a service on the same data, opened as another
    /// process would open it.
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

    /// A service on the data.
    pub async fn service(&self) -> Arc<dyn MemoryService> {
        (self.open)().await
    }
}

type OpenStore = Box<dyn Fn() -> BoxFuture<'static, Arc<dyn MemoryStore>> + Send + Sync>;

/// One fresh store of memories under test.
pub struct MemoryStoreHarness {
    open: OpenStore,
}

impl fmt::Debug for MemoryStoreHarness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStoreHarness").finish_non_exhaustive()
    }
}

impl MemoryStoreHarness {
    /// A harness on what `open` gives: each time a store on the same data.
    pub fn new<F, Opened>(open: F) -> MemoryStoreHarness
    where
        F: Fn() -> Opened + Send + Sync + 'static,
        Opened: Future<Output = Arc<dyn MemoryStore>> + Send + 'static,
    {
        MemoryStoreHarness {
            open: Box::new(move || Box::pin(open())),
        }
    }

    /// A store on the data.
    pub async fn store(&self) -> Arc<dyn MemoryStore> {
        (self.open)().await
    }
}

/// A session of `ada` in `app` in which the user says these texts, with ids of their own.
pub fn session(id: &str, texts: &[&str]) -> Session {
    session_of("app", "ada", id, texts)
}

/// As [`session`], of anybody.
pub fn session_of(app: &str, user: &str, id: &str, texts: &[&str]) -> Session {
    let mut session = Session::new(app, user, id);
    for (position, text) in (1..).zip(texts) {
        let event = said(&format!("{id}-{position}"), text);
        session.events.push(position, event);
    }
    session
}

/// What a user said.
pub fn said(id: &str, text: &str) -> Event {
    let mut event = Event::user_text(text);
    event.id = id.to_owned();
    event.timestamp = 1_700_000_000.0;
    event
}

/// The texts that `ada` of `app` finds.
async fn found(memory: &dyn MemoryService, query: &str) -> Vec<String> {
    found_by(memory, "app", "ada", query).await
}

async fn found_by(memory: &dyn MemoryService, app: &str, user: &str, query: &str) -> Vec<String> {
    let found = memory.search_memory(app, user, query).await.unwrap();
    let texts = found.memories.iter();
    texts.map(|memory| memory.content.text_concat()).collect()
}

/// Makes every promise a test of the memory service that the expression opens: a future of a fresh
/// [`MemoryHarness`](crate::memory::MemoryHarness). Where it needs something that is not everywhere,
/// `needs: is_there()` says whether it is; without it the tests skip themselves.
#[macro_export]
macro_rules! memory_promises {
    ($open:expr $(, needs: $needs:expr)?) => {
        $crate::memory_promises! { @each $open, [$($needs)?];
            // keeping
            a_session_that_is_added_again_is_there_once,
            a_growing_session_adds_what_is_new,
            events_are_added_beside_what_is_known,
            what_is_deleted_is_gone_and_stays_out,
            nobody_has_a_name_that_cannot_be,
            memories_survive_a_restart,
            what_is_not_text_stays_with_the_memory,
            // finding
            what_is_acknowledged_is_found_at_once,
            nobody_finds_what_others_said,
            adding_and_searching_go_on_together,
            hostile_texts_are_found_as_they_are,
            a_memory_of_a_megabyte_is_found,
            questions_without_words_do_no_harm,
            scripts_of_the_world_are_found,
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

/// Makes every promise a test of the store of memories that the expression opens: a future of a
/// fresh [`MemoryStoreHarness`](crate::memory::MemoryStoreHarness). `needs` is as for
/// [`memory_promises!`](crate::memory_promises).
#[macro_export]
macro_rules! memory_store_promises {
    ($open:expr $(, needs: $needs:expr)?) => {
        $crate::memory_promises! { @each $open, [$($needs)?];
            a_batch_is_taken_up_as_a_whole_or_not_at_all,
            the_same_id_twice_in_a_batch_comes_twice,
            notes_stay_when_a_turn_is_added_without,
            limits_of_a_user_are_kept,
            changes_by_hand_keep_the_limits,
            records_come_back_as_they_were,
            rows_come_in_pages,
            marks_move_with_every_change_and_only_then,
            changes_name_what_was_touched,
            too_many_changes_mean_reading_anew,
            what_was_changed_by_hand_stays,
            forgetting_takes_what_is_meant_and_nothing_else,
            forgotten_ids_stay_out_of_every_session,
            expired_memories_go_and_stay_out,
            what_was_given_may_be_given_again_after_its_time,
            vectors_are_kept_with_what_made_them,
            statistics_count_what_there_is,
            two_stores_on_the_same_data_agree,
            those_who_have_memories_are_listed_in_order,
            hashes_of_forgotten_memories_come_in_pages,
            what_another_store_kept_is_taken_up_as_it_was,
            numbers_that_are_known_are_not_taken_up_again,
        }
    };
}
