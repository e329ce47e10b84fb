//! Lets a test capture spans and events on its own thread while other tests run in the process.

use std::sync::LazyLock;

use tracing::{Dispatch, subscriber::NoSubscriber};

/// A second dispatcher, which lives as long as the process beside the subscriber of a test.
static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));

/// Call this before a test sets a subscriber for its thread.
///
/// `tracing` caches per callsite whether it is enabled. With a single dispatcher it asks only that
/// of the first thread that reaches the callsite, so a thread without a subscriber would disable it
/// for the test too. With two dispatchers it asks all of them.
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

    fn tell() {
        tracing::info!("something happened");
    }

    #[test]
    fn callsite_is_enabled_on_every_thread() {
        super::enable_for_all_threads();
        let heard = EventCounter::default();
        let _guard = tracing_subscriber::registry()
            .with(heard.clone())
            .set_default();
        std::thread::spawn(tell).join().unwrap();
        tell();
        assert_eq!(heard.0.load(Ordering::SeqCst), 1);
    }
}
