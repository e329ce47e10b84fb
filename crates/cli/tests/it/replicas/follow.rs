//! A client that tails a session and reconnects to the next replica.

use std::{
    io::{ErrorKind, Read as _},
    sync::OnceLock,
    time::{Duration, Instant},
};

use retain::Json;

use super::{
    cluster::Cluster,
    http::{self, Chunks},
    load::path,
};
use crate::crash::wait;

/// Interval at which a follower checks whether it is done.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Maximum time until a stored event reaches a tail.
const TAIL_TIMEOUT: Duration = Duration::from_secs(60);

/// The events of a session that a follower has received.
pub(super) struct TailLog {
    pub(super) session: String,
    /// Positions and ids, in the order of arrival.
    pub(super) events: Vec<(u64, String)>,
    /// Number of reconnects to another replica.
    pub(super) reconnects: usize,
}

/// Follows a session until it has received the position in `goal`, once that is set.
pub(super) fn follow(
    cluster: &Cluster,
    session: &str,
    first: usize,
    goal: &OnceLock<u64>,
) -> TailLog {
    let mut seen = TailLog {
        session: session.to_owned(),
        events: Vec::new(),
        reconnects: 0,
    };
    let mut late = None;
    while !is_done(&seen, goal, &mut late) {
        let followed = follow_replica(cluster, &mut seen, first, goal, &mut late);
        if followed.is_some() {
            break;
        }
        seen.reconnects += 1;
        wait(Duration::from_millis(20));
    }
    seen
}

/// Whether the goal is set and reached.
fn is_done(seen: &TailLog, goal: &OnceLock<u64>, late: &mut Option<Instant>) -> bool {
    let Some(goal) = goal.get() else {
        return false;
    };
    let last = seen.events.last().map_or(0, |(position, _)| *position);
    let since = *late.get_or_insert_with(Instant::now);
    let in_time = since.elapsed() < TAIL_TIMEOUT;
    assert!(in_time, "{}: {last} of {goal}", seen.session);
    last >= *goal
}

/// Follows one replica: `Some` when the goal is reached, `None` when disconnected.
fn follow_replica(
    cluster: &Cluster,
    seen: &mut TailLog,
    first: usize,
    goal: &OnceLock<u64>,
    late: &mut Option<Instant>,
) -> Option<()> {
    let after = seen.events.last().map_or(0, |(position, _)| *position);
    let address = cluster.address(first + seen.reconnects);
    let path = format!("{}/tail?after={after}", path(&seen.session));
    let mut socket = http::send(&address, "GET", &path, "", POLL_INTERVAL).ok()?;
    let (mut chunks, mut text, mut buffer) = (Chunks::default(), String::new(), [0; 16384]);
    loop {
        if is_done(seen, goal, late) {
            return Some(());
        }
        match socket.read(&mut buffer) {
            Ok(0) => return None,
            Ok(count) => text += &chunks.take(&buffer[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => return None,
        }
        while let Some(end) = text.find("\n\n") {
            let message: String = text.drain(..end + 2).collect();
            if let Some(event) = parse(&message)? {
                seen.events.push(event);
            }
        }
    }
}

/// Parses an event of the stream; `Some(None)` for a heartbeat; `None` if the stream ends.
fn parse(message: &str) -> Option<Option<(u64, String)>> {
    let field = |name: &str| {
        let lines = message.lines();
        lines.filter_map(|line| line.strip_prefix(name)).next()
    };
    if message.starts_with(':') {
        return Some(None);
    }
    let position = field("id: ")?.parse().unwrap();
    let event = Json::parse(field("data: ")?).unwrap();
    Some(Some((position, event["id"].as_str().unwrap().to_owned())))
}
