//! The promises that every artifact store keeps, as tests.
//!
//! A store runs them with one line, [`artifact_promises!`](crate::artifact_promises), which turns
//! each promise into a test.

#![allow(
    clippy::unwrap_used,
    reason = "promises are test code that lives in a library"
)]

mod references;
mod scopes;
mod usage;
mod versions;

use std::{fmt, future::Future, sync::Arc};

use futures_util::future::BoxFuture;
use retain_core::{
    ArtifactKey, ArtifactNaming, ArtifactService, ArtifactStore, Quotas, SessionKey,
    StoreArtifactService, Usage,
};

pub use references::*;
pub use scopes::*;
pub use usage::*;
pub use versions::*;

use crate::{clock::TestClock, harness::Persistence, random::Random};

type Open = Box<dyn Fn(Quotas) -> BoxFuture<'static, Arc<dyn ArtifactService>> + Send + Sync>;

type OpenStore = Box<dyn Fn() -> BoxFuture<'static, Arc<dyn ArtifactStore>> + Send + Sync>;

/// One fresh artifact store under test.
pub struct ArtifactHarness {
    /// The clock that the services use.
    pub clock: TestClock,
    names: ArtifactNaming,
    persistence: Persistence,
    open: Open,
    open_store: OpenStore,
}

impl fmt::Debug for ArtifactHarness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArtifactHarness").finish_non_exhaustive()
    }
}

impl ArtifactHarness {
    /// Creates a harness; every call of `open` must return a store on the same data.
    pub async fn new<S, F, Opened>(persistence: Persistence, open: F) -> ArtifactHarness
    where
        S: ArtifactStore,
        F: Fn() -> Opened + Send + Sync + 'static,
        Opened: Future<Output = S> + Send + 'static,
    {
        let clock = TestClock::default();
        let names = open().await.naming();
        let time = clock.clone();
        let open = Arc::new(open);
        let for_store = Arc::clone(&open);
        let open_store = move || -> BoxFuture<'static, Arc<dyn ArtifactStore>> {
            let opened = for_store();
            Box::pin(async move {
                let store: Arc<dyn ArtifactStore> = Arc::new(opened.await);
                store
            })
        };
        let open = move |quotas: Quotas| -> BoxFuture<'static, Arc<dyn ArtifactService>> {
            let (opened, clock) = (open(), time.clone());
            Box::pin(async move {
                let service = StoreArtifactService::over(opened.await)
                    .with_clock(Arc::new(clock))
                    .with_quotas(quotas);
                let service: Arc<dyn ArtifactService> = Arc::new(service);
                service
            })
        };
        ArtifactHarness {
            clock,
            names,
            persistence,
            open: Box::new(open),
            open_store: Box::new(open_store),
        }
    }

    /// Opens a service on the data.
    pub async fn service(&self) -> Arc<dyn ArtifactService> {
        self.limited(Usage::default()).await
    }

    /// Opens a service with quotas of each user.
    async fn limited(&self, limits: Usage) -> Arc<dyn ArtifactService> {
        (self.open)(Quotas::default().with_user(limits)).await
    }

    /// Opens the store itself.
    async fn store(&self) -> Arc<dyn ArtifactStore> {
        (self.open_store)().await
    }

    /// Whether the store accepts any part under any name. A store of files does not.
    fn accepts_any_part(&self) -> bool {
        self.names == ArtifactNaming::Exact
    }

    fn is_durable(&self) -> bool {
        self.persistence == Persistence::Durable
    }
}

/// Returns the key of an artifact in the default session.
fn key(filename: &str) -> ArtifactKey {
    ArtifactKey::in_session(&SessionKey::new("app", "ada", "s1"), filename)
}

/// Builds a name that attempts path traversal from random pieces.
pub fn hostile_name(random: &mut Random) -> String {
    const PIECES: [&str; 34] = [
        "..",
        ".",
        "/",
        "//",
        "\\",
        "a",
        "b",
        "user:",
        "C:",
        "~",
        "\0",
        " ",
        "versions",
        "metadata.json",
        "VERSIONS",
        "artifacts",
        "sessions",
        "users",
        "apps",
        "0",
        "1",
        ".pending",
        "%2e%2e",
        "%2f",
        "é",
        "\u{202e}",
        "\n",
        "\r",
        "..\\",
        "../",
        "/etc/passwd",
        "con",
        ":",
        "\u{1f}",
    ];
    if random.chance(2) {
        let long = [200, 255, 256, 4000, 70_000];
        return random.pick(&["x", "/x", "é"]).repeat(random.pick(&long));
    }
    let pieces = 1 + random.below(7);
    (0..pieces).map(|_| random.pick(&PIECES)).collect()
}

/// Turns every promise into a test of one artifact store. The expression is a future of a fresh
/// [`ArtifactHarness`](crate::artifacts::ArtifactHarness). If the store needs a service, `needs:
/// is_there()` reports whether it is available; otherwise the tests skip themselves.
#[macro_export]
macro_rules! artifact_promises {
    ($open:expr $(, needs: $needs:expr)?) => {
        $crate::artifact_promises! { @each $open, [$($needs)?];
            // versions
            artifact_versions_start_at_zero,
            load_returns_the_newest_or_the_requested_version,
            missing_artifact_loads_as_none,
            artifact_bytes_and_text_are_stored_exactly,
            artifact_versions_have_time_type_and_metadata,
            parts_without_content_are_refused,
            tombstone_of_an_artifact_loads_as_none,
            deleting_an_artifact_removes_all_versions,
            deleting_an_artifact_keeps_nested_names,
            concurrent_saves_get_distinct_versions,
            second_instance_continues_the_version_numbers,
            // scopes
            artifact_names_are_listed_in_order,
            every_artifact_is_listed_once_in_order,
            user_artifacts_are_visible_in_every_session,
            artifacts_are_isolated_by_scope,
            session_names_do_not_collide_with_the_user_scope,
            name_without_a_session_belongs_to_the_user_or_is_refused,
            owners_with_path_traversal_are_refused,
            hostile_names_are_stored_separately_or_refused,
            erasing_a_user_keeps_other_users_artifacts,
            erasing_an_invalid_user_removes_nothing,
            // references
            references_load_their_target,
            references_to_another_scope_are_refused,
            invalid_references_are_refused,
            circular_references_are_an_error,
            // usage
            usage_is_the_sum_of_the_stored_bytes,
            artifact_beyond_a_quota_is_not_saved,
            artifact_quota_is_never_exceeded_by_concurrent_saves,
        }
    };
    (@each $open:expr, $needs:expr; $($promise:ident),* $(,)?) => { $(
        #[tokio::test(flavor = "multi_thread")]
        async fn $promise() {
            let needs: [bool; _] = $needs;
            if needs.contains(&false) {
                return;
            }
            $crate::artifacts::$promise($open.await).await;
        }
    )* };
}
