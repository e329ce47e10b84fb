//! `/run_live` accepts the WebSocket and closes it with the reason.

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::adk::support::{GatedModel, gated_agent, listen, server};

/// Opens the WebSocket and returns the code and reason of the close frame.
async fn close_frame(query: &str) -> (u16, String) {
    let server = server(gated_agent(&GatedModel::new()));
    let address = listen(&server).await;
    let mut socket = TcpStream::connect(address).await.expect("a connection");
    let head = format!(
        "GET /run_live{query} HTTP/1.1\r\nhost: {address}\r\nconnection: Upgrade\r\n\
         upgrade: websocket\r\nsec-websocket-version: 13\r\n\
         sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    socket.write_all(head.as_bytes()).await.expect("sent");
    let mut got = Vec::new();
    let end = loop {
        let mut some = [0; 1024];
        let n = socket.read(&mut some).await.expect("read");
        got.extend_from_slice(&some[..n]);
        let end = got.windows(4).position(|it| it == b"\r\n\r\n");
        if let Some(end) = end.filter(|end| {
            got.len() > end + 4 + 2 && got.len() >= end + 6 + usize::from(got[end + 5])
        }) {
            break end + 4;
        }
        assert!(n > 0, "{}", String::from_utf8_lossy(&got));
    };
    assert!(
        got.starts_with(b"HTTP/1.1 101"),
        "{}",
        String::from_utf8_lossy(&got)
    );
    let frame = &got[end..];
    assert_eq!(frame[0], 0x88, "a close frame");
    let code = u16::from_be_bytes([frame[2], frame[3]]);
    (code, String::from_utf8_lossy(&frame[4..]).into_owned())
}

#[tokio::test]
async fn live_run_is_rejected_with_a_reason() {
    let (code, reason) = close_frame("?app_name=desk&user_id=u&session_id=s").await;
    assert_eq!(code, 1011);
    assert!(reason.contains("not supported"), "{reason}");
    let (code, reason) = close_frame("?user_id=u&session_id=s").await;
    assert_eq!(code, 1008);
    assert!(reason.contains("app_name"), "{reason}");
}
