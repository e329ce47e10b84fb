//! A wait for a session's turn that nobody wants any more.
//!
//! Whoever waits cannot just be dropped: it may be in the middle of writing, and what was written is
//! somebody's to end. So it is told, and stops where nothing is half done.

use tokio::sync::watch;

tokio::task_local! {
    static GIVEN_UP: watch::Receiver<bool>;
}

/// Runs `work`, which begins a run. Once `given_up` is true it waits for its turn no longer:
/// appending ends with [`RunBusy`](crate::SessionError::RunBusy), and nothing was written. What is
/// being written at that moment is written.
pub async fn unless_given_up<F: Future>(given_up: watch::Receiver<bool>, work: F) -> F::Output {
    GIVEN_UP.scope(given_up, work).await
}

/// Returns when the turn that this task waits for is not wanted any more; never, where nobody can
/// say so.
pub(crate) async fn given_up() {
    let Ok(mut given_up) = GIVEN_UP.try_with(Clone::clone) else {
        return std::future::pending().await;
    };
    if given_up.wait_for(|given_up| *given_up).await.is_err() {
        // Who could have said so is gone without a word.
        std::future::pending::<()>().await;
    }
}

/// Whether the turn is not wanted any more.
pub(crate) fn is_given_up() -> bool {
    GIVEN_UP.try_with(|it| *it.borrow()).unwrap_or(false)
}
