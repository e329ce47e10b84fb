//! Proxies from the usual environment variables.

use super::*;
use crate::testing::{answer, answer_with_status};

const CHILD: &str = "RETAIN_TEST_PROXY_CHILD";

/// Plain HTTP requests go to the proxy in `HTTP_PROXY`.
#[tokio::test(flavor = "multi_thread")]
async fn environment_proxy_is_used() {
    if std::env::var_os(CHILD).is_some() {
        let model = model_at(
            "http://models.invalid".to_owned(),
            fast_retries(),
            Auth::None,
        );
        assert_eq!(ask(&model, false).await, ["by proxy"]);
        return;
    }
    for variable in ["HTTP_PROXY", "http_proxy"] {
        let proxy = Server::playing([answer("by proxy")]).await;
        let variables = vec![(variable, proxy.url()), (CHILD, String::new())];
        let test = "http::tests::proxy::environment_proxy_is_used";
        run_in_child_process(test, variables).await;
        let received = proxy.received();
        assert_eq!(received[0].line, "POST http://models.invalid/ask HTTP/1.1");
    }
}

/// Requests to hosts in `NO_PROXY` bypass the proxy.
#[tokio::test(flavor = "multi_thread")]
async fn no_proxy_hosts_bypass_the_proxy() {
    if let Ok(url) = std::env::var(CHILD) {
        let model = model_at(url, fast_retries(), Auth::None);
        assert_eq!(ask(&model, false).await, ["itself"]);
        return;
    }
    let server = Server::playing([answer("itself")]).await;
    let proxy = Server::playing([answer("by proxy")]).await;
    let variables = vec![
        ("HTTP_PROXY", proxy.url()),
        ("NO_PROXY", "models.invalid,127.0.0.0/8".to_owned()),
        (CHILD, server.url()),
    ];
    let test = "http::tests::proxy::no_proxy_hosts_bypass_the_proxy";
    run_in_child_process(test, variables).await;
    assert_eq!(server.received().len(), 1);
    assert!(proxy.received().is_empty());
}

/// If the proxy rejects the tunnel, the error does not contain the proxy's password.
#[tokio::test(flavor = "multi_thread")]
async fn proxy_error_does_not_contain_the_proxys_password() {
    if std::env::var_os(CHILD).is_some() {
        let address = "https://models.invalid".to_owned();
        let model = model_at(address, fast_retries(), Auth::Bearer("key-123".into()));
        let answers = model.generate(Arc::default(), false);
        let output = format!("{:?}", answers.collect::<Vec<_>>().await);
        assert!(output.contains("ConnectionError"), "{output}");
        assert!(!output.contains("canary"), "{output}");
        return;
    }
    let rejection = answer_with_status(
        "407 Proxy Authentication Required",
        &[],
        "not canary-5b1c9f",
    );
    let proxy = Server::playing(vec![rejection; 3]).await;
    let address = proxy.url().replace("http://", "http://me:canary-5b1c9f@");
    let variables = vec![("HTTPS_PROXY", address), (CHILD, String::new())];
    let test = "http::tests::proxy::proxy_error_does_not_contain_the_proxys_password";
    run_in_child_process(test, variables).await;
    let received = proxy.received();
    assert_eq!(received[0].line, "CONNECT models.invalid:443 HTTP/1.1");
    let basic = received[0].header("proxy-authorization");
    assert_eq!(basic, Some("Basic bWU6Y2FuYXJ5LTViMWM5Zg=="));
    // The proxy does not receive the API key.
    assert_eq!(received[0].header("authorization"), None);
}

/// TLS is tunneled through the proxy, which sees neither API key nor content.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn tls_is_tunneled_through_the_proxy() {
    use tokio::{io::AsyncReadExt as _, io::AsyncWriteExt as _, net::TcpListener, net::TcpStream};

    if let Ok(url) = std::env::var(CHILD) {
        return tls::ask_three_times(url).await;
    }
    let (port, log) = tls::provider().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let proxy = listener.local_addr().expect("an address");
    let asked = Arc::new(std::sync::Mutex::new(Vec::new()));
    let record = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(client.read_u8().await.expect("a head"));
            }
            let head = String::from_utf8(head).expect("text");
            record.lock().expect("lock").push(head);
            let ok = b"HTTP/1.1 200 Connection established\r\n\r\n";
            client.write_all(ok).await.expect("sent");
            let mut server = TcpStream::connect(("localhost", port))
                .await
                .expect("the server");
            tokio::spawn(async move {
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    let variables = vec![
        ("HTTPS_PROXY", format!("http://{proxy}")),
        ("SSL_CERT_FILE", tls::CA_FILE.to_owned()),
        (CHILD, format!("https://localhost:{port}")),
    ];
    run_in_child_process(
        "http::tests::proxy::tls_is_tunneled_through_the_proxy",
        variables,
    )
    .await;
    tls::check(&log);
    let asked = asked.lock().expect("lock").concat();
    let line = format!("CONNECT localhost:{port} HTTP/1.1\r\n");
    assert!(asked.starts_with(&line), "{asked}");
    assert!(!asked.contains("key-123"), "{asked}");
}
