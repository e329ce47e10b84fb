//! Proxies of the environment. A process reads it once, so the test runs itself in another one.

use super::*;
use crate::testing::answer;

const CHILD: &str = "RETAIN_TEST_PROXY_CHILD";

#[tokio::test(flavor = "multi_thread")]
async fn proxies_of_the_environment_are_used() {
    if std::env::var_os(CHILD).is_some() {
        let model = model_at("http://models.invalid".to_owned(), patient(), Auth::None);
        assert_eq!(ask(&model, false).await, ["by proxy"]);
        return;
    }
    let proxy = Server::playing([answer("by proxy")]).await;
    let url = proxy.url();
    let status = tokio::task::spawn_blocking(move || {
        std::process::Command::new(std::env::current_exe().expect("this test"))
            .args(["proxies_of_the_environment_are_used"])
            .env(CHILD, "1")
            .env("http_proxy", &url)
            .env("HTTP_PROXY", &url)
            .env_remove("no_proxy")
            .env_remove("NO_PROXY")
            .stdout(std::process::Stdio::null())
            .status()
            .expect("a child")
    });
    assert!(status.await.expect("a child").success());
    let received = proxy.received();
    assert_eq!(received[0].line, "POST http://models.invalid/ask HTTP/1.1");
}
