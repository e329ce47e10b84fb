//! Spans and events that a test listens to on its own thread, in a process where others run too.

use std::sync::LazyLock;

use tracing::{Dispatch, subscriber::NoSubscriber};

/// Lives as long as the process, beside the subscriber of a test.
static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));

/// To be called before a test sets a subscriber for its thread.
///
/// Whether a place in the code is listened to is asked once, and remembered. While there is but one
/// subscriber, that of the thread which comes by first is asked: one without any would make the place
/// silent for the test as well. Where there are two, all are asked.
pub fn are_asked_for_all_threads() {
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
    struct Heard(Arc<AtomicUsize>);

    impl<S: Subscriber> Layer<S> for Heard {
        fn on_event(&self, _: &Event<'_>, _: Context<'_, S>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn tell() {
        tracing::info!("something happened");
    }

    #[test]
    fn a_thread_hears_of_what_another_one_came_by_first() {
        super::are_asked_for_all_threads();
        let heard = Heard::default();
        let _guard = tracing_subscriber::registry()
            .with(heard.clone())
            .set_default();
        std::thread::spawn(tell).join().unwrap();
        tell();
        assert_eq!(heard.0.load(Ordering::SeqCst), 1);
    }
}
