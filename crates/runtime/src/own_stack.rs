//! Running a future on a task of its own: polling goes through all that wait for one another, and
//! agents inside agents would use up the stack.

use std::future::Future;

use tokio::task::{JoinError, JoinHandle};
use tracing::Instrument as _;

/// Ends the task when nobody waits for it.
struct Aborting<T>(JoinHandle<T>);

impl<T> Drop for Aborting<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What the future gives. It ends when this is dropped.
pub(crate) async fn run<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
) -> Result<T, JoinError> {
    let mut task = Aborting(tokio::spawn(future.in_current_span()));
    (&mut task.0).await
}
