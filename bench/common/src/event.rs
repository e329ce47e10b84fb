//! The event that every peer writes: a model text of 200 characters with one state key, about 420
//! bytes of JSON. Peers fill their own event types with `text` and `COUNTER`; the raw floor, which
//! has no event type, writes `BenchEvent`.

use serde::Serialize;
use std::cell::Cell;
use std::time::{SystemTime, UNIX_EPOCH};

/// Application name used by all peers.
pub const APP: &str = "bench";
/// User id used by all peers.
pub const USER: &str = "user-1";
/// The state key that each event increments.
pub const COUNTER: &str = "counter";

const WORDS: &str = "the model answers in plain words about rooms on high floors and \
quiet streets, adds what the guest asked before, and keeps the tone short and kind; \
then it offers two dates and waits for a reply from the user. ";

/// Returns the text of event `n`: 200 characters, different for each `n`.
pub fn text(n: u64) -> String {
    let mut s = format!("{n:010} ");
    s.push_str(&WORDS[..189]);
    s
}

/// Returns a pseudo-random id of 36 characters. Creating it costs as much as a UUID and needs no
/// crate.
pub fn new_id() -> String {
    thread_local!(static STATE: Cell<u64> = const { Cell::new(0) });
    fn mix(mut z: u64) -> u64 {
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    let (a, b) = STATE.with(|state| {
        let mut s = state.get();
        if s == 0 {
            let here = std::ptr::from_ref(state) as u64;
            let now = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default();
            s = mix(now.as_nanos() as u64 ^ here.rotate_left(32) ^ u64::from(std::process::id()));
        }
        let a = s.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let b = a.wrapping_add(0x9e37_79b9_7f4a_7c15);
        state.set(b);
        (mix(a), mix(b))
    });
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        a >> 32,
        (a >> 16) & 0xffff,
        a & 0xfff,
        b >> 48,
        b & 0xffff_ffff_ffff
    )
}

/// Returns the current time in seconds since 1970.
pub fn now_seconds() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs_f64()
}

/// The event of the raw floor, with the JSON field names of ADK.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BenchEvent {
    pub id: String,
    pub invocation_id: String,
    pub author: &'static str,
    pub timestamp: f64,
    pub content: Content,
    pub actions: Actions,
}

/// The content of a model's answer: one text part.
#[derive(Serialize)]
pub struct Content {
    pub role: &'static str,
    pub parts: [Part; 1],
}

/// A text part.
#[derive(Serialize)]
pub struct Part {
    pub text: String,
}

/// Actions with one state key.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Actions {
    pub state_delta: StateDelta,
}

/// The single state key.
#[derive(Serialize)]
pub struct StateDelta {
    pub counter: u64,
}

impl BenchEvent {
    /// Builds the event that sets the counter to `counter`.
    pub fn new(counter: u64, timestamp: f64) -> Self {
        BenchEvent {
            id: new_id(),
            invocation_id: format!("e-{}", new_id()),
            author: "agent",
            timestamp,
            content: Content {
                role: "model",
                parts: [Part {
                    text: text(counter),
                }],
            },
            actions: Actions {
                state_delta: StateDelta { counter },
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_has_the_stated_size() {
        assert_eq!(text(7).len(), 200);
        assert_eq!(new_id().len(), 36);
        assert_ne!(new_id(), new_id());
        let n = serde_json::to_vec(&BenchEvent::new(2_000, now_seconds()))
            .unwrap()
            .len();
        assert!((380..=460).contains(&n), "{n} bytes");
    }
}
