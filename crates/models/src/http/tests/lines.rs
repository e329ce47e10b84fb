//! Tests of the parser of server-sent events.

use proptest::prelude::*;

use crate::http::sse::{Sse, SseError, SseEvent};

fn event(kind: Option<&str>, data: &str) -> SseEvent {
    SseEvent {
        event: kind.map(str::to_owned),
        data: data.to_owned(),
    }
}

/// Reads `text` in chunks that end at `cuts`.
fn read(text: &[u8], cuts: &[usize]) -> Result<Vec<SseEvent>, SseError> {
    let mut sse = Sse::default();
    let mut events = Vec::new();
    let mut from = 0;
    for &to in cuts.iter().chain([&text.len()]) {
        events.extend(sse.push(&text[from..to]));
        from = to;
    }
    events.extend(sse.finish());
    match sse.error() {
        Some(error) => Err(error),
        None => Ok(events),
    }
}

/// Lists texts with the events that the WHATWG specification of server-sent events gives for them.
fn examples() -> Vec<(&'static str, Vec<SseEvent>)> {
    vec![
        ("", vec![]),
        ("data: a\n\n", vec![event(None, "a")]),
        ("\u{feff}data: a\n\n", vec![event(None, "a")]),
        (
            "data:a\r\rdata:  b\r\r",
            vec![event(None, "a"), event(None, " b")],
        ),
        (
            "data: a\r\n\r\ndata: b\r\n\r\n",
            vec![event(None, "a"), event(None, "b")],
        ),
        (
            "data: a\rdata: b\n\ndata: c\n\n",
            vec![event(None, "a\nb"), event(None, "c")],
        ),
        ("data: a\ndata\ndata: b\n\n", vec![event(None, "a\n\nb")]),
        (
            "event: k\ndata: {}\nid: 7\nretry: 10\n\n",
            vec![event(Some("k"), "{}")],
        ),
        (": ping\n\n: pong\n\ndata: a\n\n", vec![event(None, "a")]),
        ("event: lonely\n\ndata: a\n\n", vec![event(None, "a")]),
        ("data: no end of line", vec![event(None, "no end of line")]),
        ("data: no empty line\n", vec![event(None, "no empty line")]),
        ("data: a:b: c\n\n", vec![event(None, "a:b: c")]),
        (
            "other: x\ndata: Grüße 🎈\n\n",
            vec![event(None, "Grüße 🎈")],
        ),
        ("\n\n\ndata: a\n\n\n\n", vec![event(None, "a")]),
    ]
}

#[test]
fn event_stream_can_be_split_at_every_byte() {
    for (text, events) in examples() {
        let bytes = text.as_bytes();
        assert_eq!(read(bytes, &[]).as_ref(), Ok(&events), "{text:?}");
        for cut in 0..=bytes.len() {
            assert_eq!(
                read(bytes, &[cut]).as_ref(),
                Ok(&events),
                "{text:?} at {cut}"
            );
        }
        let every: Vec<usize> = (0..bytes.len()).collect();
        assert_eq!(
            read(bytes, &every).as_ref(),
            Ok(&events),
            "{text:?} byte by byte"
        );
    }
}

#[test]
fn invalid_utf8_is_an_error() {
    assert_eq!(read(b"data: \xff\n\n", &[]), Err(SseError::NotUtf8));
    assert_eq!(read(b"data: \xc3", &[]), Err(SseError::NotUtf8));
}

#[test]
fn oversized_event_is_an_error() {
    let mut sse = Sse::default();
    let mebibyte = [b'x'; 1 << 20];
    let refused = (0..200).find_map(|_| {
        assert!(sse.push(&mebibyte).is_empty());
        sse.error()
    });
    assert_eq!(refused, Some(SseError::TooLarge));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn parsed_events_do_not_depend_on_chunk_boundaries(
        lines in proptest::collection::vec("(data|event|id|:)?:? ?[a-zü🎈{}\":]{0,8}(\n|\r|\r\n){0,3}", 0..12),
        cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..8),
    ) {
        let text = lines.concat();
        let bytes = text.as_bytes();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.sort_unstable();
        prop_assert_eq!(read(bytes, &cuts), read(bytes, &[]));
    }
}
