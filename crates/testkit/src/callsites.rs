//! Lets a test capture spans and events on its own thread while other tests run in the process.

use std::sync::LazyLock;

use tracing::{Dispatch, subscriber::NoSubscriber};

/// A second dispatcher in addition to the subscriber of a test. It is never dropped.
static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));

/// Makes `tracing` ask the subscribers of all threads. Call this before a test sets a subscriber.
///
/// `tracing` caches whether a callsite is enabled. With a single dispatcher it asks only the
/// subscriber of the thread that reaches the callsite first. If that thread has none, the callsite
/// is disabled for the test too. With two dispatchers `tracing` asks all of them.
pub fn enable_for_all_threads() {
    LazyLock::force(&SECOND);
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use tracing::{Event, Subscriber};
    use tracing_subscriber::{
        Layer,
        layer::{Context, SubscriberExt as _},
        util::SubscriberInitExt as _,
    };

    #[derive(Debug, Clone, Default)]
    struct EventCounter(Arc<AtomicUsize>);

    impl<S: Subscriber> Layer<S> for EventCounter {
        fn on_event(&self, _: &Event<'_>, _: Context<'_, S>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn emit_event() {
        tracing::info!("something happened");
    }

    #[test]
    fn callsite_is_enabled_on_every_thread() {
        super::enable_for_all_threads();
        let counter = EventCounter::default();
        let _guard = tracing_subscriber::registry()
            .with(counter.clone())
            .set_default();
        std::thread::spawn(emit_event).join().unwrap();
        emit_event();
        assert_eq!(counter.0.load(Ordering::SeqCst), 1);
    }
}
