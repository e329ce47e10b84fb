//! As much of RFC 6455 as it takes to accept a WebSocket and close it with a reason. A library for
//! all of it would bring a score of crates.

use std::time::Duration;

use axum::{
    body::Body,
    extract::Request,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::Response,
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Why a socket is closed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Close {
    /// One of RFC 6455's codes.
    pub(super) code: u16,
    /// In at most 123 bytes.
    pub(super) reason: &'static str,
}

/// How long the other side may take to say goodbye.
const PATIENCE: Duration = Duration::from_secs(5);

/// Accepts the socket that is asked for and closes it; `None` if none is asked for.
pub(super) fn accept_and_close(mut request: Request, close: Close) -> Option<Response> {
    let headers = request.headers();
    let is_asked = has_word(headers, header::CONNECTION, "upgrade")
        && has_word(headers, header::UPGRADE, "websocket")
        && has_word(headers, header::SEC_WEBSOCKET_VERSION, "13");
    let key = headers
        .get(header::SEC_WEBSOCKET_KEY)
        .filter(|_| is_asked)?;
    let accepted = HeaderValue::from_str(&accept_key(key.as_bytes())).ok()?;
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        // Whoever is gone needs no reason.
        if let Ok(socket) = upgrade.await {
            let _ = tokio::time::timeout(PATIENCE, say(TokioIo::new(socket), close)).await;
        }
    });
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::SEC_WEBSOCKET_ACCEPT, accepted);
    Some(response)
}

/// Whether a header lists a word, in whatever case.
fn has_word(headers: &HeaderMap, name: HeaderName, word: &str) -> bool {
    let values = headers.get_all(name).into_iter();
    let words = values.filter_map(|value| value.to_str().ok());
    let mut words = words.flat_map(|value| value.split(','));
    words.any(|found| found.trim().eq_ignore_ascii_case(word))
}

/// Sends the reason and waits until the other side closes.
async fn say(
    mut socket: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    close: Close,
) -> std::io::Result<()> {
    socket.write_all(&close_frame(close)).await?;
    socket.shutdown().await?;
    let mut unheard = [0; 1024];
    while socket.read(&mut unheard).await? > 0 {}
    Ok(())
}

/// A close frame of a server: final, unmasked, short.
fn close_frame(close: Close) -> Vec<u8> {
    let reason = close.reason.as_bytes();
    let reason = &reason[..reason.len().min(123)];
    let mut frame = vec![0x88, 2 + reason.len() as u8];
    frame.extend(close.code.to_be_bytes());
    frame.extend(reason);
    frame
}

/// What proves that the key was read by somebody who speaks WebSocket.
fn accept_key(key: &[u8]) -> String {
    const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    BASE64_STANDARD.encode(sha1(&[key, GUID].concat()))
}

/// SHA-1, which protects nothing here: the protocol wants it.
fn sha1(message: &[u8]) -> [u8; 20] {
    let mut padded = message.to_vec();
    padded.push(0x80);
    while padded.len() % 64 != 56 {
        padded.push(0);
    }
    padded.extend((message.len() as u64 * 8).to_be_bytes());
    let mut state = [
        0x6745_2301,
        0xefcd_ab89,
        0x98ba_dcfe,
        0x1032_5476,
        0xc3d2_e1f0_u32,
    ];
    for block in padded.chunks_exact(64) {
        let mut words = [0u32; 80];
        for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
            *word = bytes
                .iter()
                .fold(0, |word, byte| word << 8 | u32::from(*byte));
        }
        for at in 16..80 {
            let mixed = words[at - 3] ^ words[at - 8] ^ words[at - 14] ^ words[at - 16];
            words[at] = mixed.rotate_left(1);
        }
        let [mut a, mut b, mut c, mut d, mut e] = state;
        for (at, word) in words.into_iter().enumerate() {
            let (mixed, constant) = match at / 20 {
                0 => (b & c | !b & d, 0x5a82_7999),
                1 => (b ^ c ^ d, 0x6ed9_eba1),
                2 => (b & c | b & d | c & d, 0x8f1b_bcdc),
                _ => (b ^ c ^ d, 0xca62_c1d6_u32),
            };
            let next = a.rotate_left(5).wrapping_add(mixed).wrapping_add(e);
            let next = next.wrapping_add(constant).wrapping_add(word);
            (a, b, c, d, e) = (next, a, b.rotate_left(30), c, d);
        }
        for (value, added) in state.iter_mut().zip([a, b, c, d, e]) {
            *value = value.wrapping_add(added);
        }
    }
    let mut digest = [0; 20];
    for (bytes, value) in digest.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&value.to_be_bytes());
    }
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_answered_as_in_the_rfc() {
        let accepted = accept_key(b"dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(accepted, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn sha1_is_that_of_fips_180() {
        let hex = |digest: [u8; 20]| {
            let digits = digest.iter().map(|byte| format!("{byte:02x}"));
            digits.collect::<String>()
        };
        assert_eq!(
            hex(sha1(b"abc")),
            "a9993e364706816aba3e25717850c26c9cd0d89d"
        );
        assert_eq!(hex(sha1(b"")), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
        let million = vec![b'a'; 1_000_000];
        assert_eq!(
            hex(sha1(&million)),
            "34aa973cd4c4daa4f61eeb2bdbad27316534016f"
        );
    }
}
