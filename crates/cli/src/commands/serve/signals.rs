//! Stop signals: the first starts a graceful shutdown, the second exits immediately.

use anyhow::Context as _;
#[cfg(feature = "mcp")]
use retain::tool::mcp::exit_at_once;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::output::note;

/// Returns a future that completes at the first stop signal. The second signal exits the process.
pub(super) fn stop() -> anyhow::Result<impl Future<Output = ()> + Send + 'static> {
    let listen = |kind| signal(kind).context("cannot listen for signals");
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut terminate = listen(SignalKind::terminate())?;
    Ok(async move {
        any_signal(&mut interrupt, &mut terminate).await;
        note!("Waiting for running requests to finish. Press Ctrl-C again to quit now.");
        tokio::spawn(async move {
            any_signal(&mut interrupt, &mut terminate).await;
            exit_at_once(130);
        });
    })
}

/// Exits. Without MCP there are no child processes to end.
#[cfg(not(feature = "mcp"))]
fn exit_at_once(code: i32) -> ! {
    std::process::exit(code)
}

async fn any_signal(one: &mut Signal, other: &mut Signal) {
    tokio::select! {
        _ = one.recv() => {}
        _ = other.recv() => {}
    }
}
