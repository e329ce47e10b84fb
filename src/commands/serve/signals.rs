//! Told to stop: once means gently, twice at once.

use std::process;

use anyhow::Context as _;
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
            process::exit(130);
        });
    })
}

async fn either(one: &mut Signal, other: &mut Signal) {
    tokio::select! {
        _ = one.recv() => {}
        _ = other.recv() => {}
    }
}
