//! Told to stop: once means gently, twice at once.

use anyhow::Context as _;
#[cfg(feature = "mcp")]
use retain::tool::mcp::exit_at_once;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Done when the program is told to stop for the first time. The second time it ends.
pub(super) fn stop() -> anyhow::Result<impl Future<Output = ()> + Send + 'static> {
    let listen = |kind| signal(kind).context("signals cannot be listened to");
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut terminate = listen(SignalKind::terminate())?;
    Ok(async move {
        either(&mut interrupt, &mut terminate).await;
        eprintln!("stopping when running turns have ended; once more ends at once");
        tokio::spawn(async move {
            either(&mut interrupt, &mut terminate).await;
            exit_at_once(130);
        });
    })
}

/// There are no child processes that would be left behind.
#[cfg(not(feature = "mcp"))]
fn exit_at_once(code: i32) -> ! {
    std::process::exit(code)
}

async fn either(one: &mut Signal, other: &mut Signal) {
    tokio::select! {
        _ = one.recv() => {}
        _ = other.recv() => {}
    }
}
