//! Access tokens for Vertex AI.

use std::{sync::Arc, time::Duration};

use base64::{
    Engine as _, engine::general_purpose::STANDARD, engine::general_purpose::URL_SAFE_NO_PAD,
};
use futures_util::StreamExt as _;
use retain_runtime::Model as _;
use retain_testkit::TestClock;
use ring::signature::{RSA_PKCS1_2048_8192_SHA256, RsaKeyPair, UnparsedPublicKey};

use super::*;
use crate::{
    Gemini, GeminiAccess, GeminiSettings, GoogleCredentials, Http, HttpSettings, Retries,
    testing::{Act, ReceivedRequest, Server, answer, answer_with_status},
};

/// A private key generated for these tests. It gives access to nothing.
const KEY: &str = include_str!("test-key.pem");
const ANSWER: &str = r#"{"candidates":[{"content":{"parts":[{"text":"Hi"}],"role":"model"},"finishReason":"STOP"}]}"#;

fn account(token_uri: &str) -> GoogleCredentials {
    let key = Json::from(KEY);
    let text = format!(
        r#"{{"type":"service_account","client_email":"me@p.iam","private_key_id":"k7","private_key":{key},"token_uri":"{token_uri}/token"}}"#
    );
    GoogleCredentials::from_json(&text).expect("credentials")
}

fn token(value: &str, seconds: u32) -> Vec<Act> {
    answer(&format!(
        r#"{{"access_token":"{value}","expires_in":{seconds},"token_type":"Bearer"}}"#
    ))
}

/// Returns a model on Vertex AI that calls `models`, with a clock that tests advance.
fn model(models: &Server, credentials: GoogleCredentials, clock: &Arc<TestClock>) -> Gemini {
    let settings = HttpSettings {
        retries: Retries {
            attempts: 2,
            first_wait: Duration::from_millis(1),
            ..Retries::default()
        },
        ..HttpSettings::default()
    };
    let http = Http::with_clock(settings, Arc::clone(clock) as _).expect("a client");
    let access = GeminiAccess::Vertex {
        project: "p".to_owned(),
        location: "global".to_owned(),
        credentials,
    };
    let settings = GeminiSettings {
        base_url: Some(models.url()),
        ..access.into()
    };
    Gemini::new("gemini-2.5-flash", settings, &http).expect("a model")
}

async fn ask(model: &Gemini) -> String {
    let answers = model.generate(Arc::new(LlmRequest::default()), false);
    let answers: Vec<_> = answers.collect().await;
    match &answers[0] {
        Ok(answer) => answer.content.clone().unwrap_or_default().text_concat(),
        Err(error) => format!(
            "{}: {}",
            error.code.as_deref().unwrap_or_default(),
            error.message
        ),
    }
}

fn bearers(server: &Server) -> Vec<String> {
    let bearer = |it: &ReceivedRequest| it.header("authorization").unwrap_or_default().to_owned();
    server.received().iter().map(bearer).collect()
}

#[tokio::test]
async fn service_account_signs_its_token_request() {
    let tokens = Server::playing([token("t1", 3600)]).await;
    let models = Server::playing([answer(ANSWER)]).await;
    let clock = Arc::new(TestClock::default());
    let model = model(&models, account(&tokens.url()), &clock);
    assert_eq!(ask(&model).await, "Hi");
    assert_eq!(bearers(&models), ["Bearer t1"]);
    assert_eq!(
        models.received()[0].path(),
        "/v1beta1/projects/p/locations/global/publishers/google/models/gemini-2.5-flash:generateContent"
    );
    let request = &tokens.received()[0];
    assert_eq!(
        request.header("content-type"),
        Some("application/x-www-form-urlencoded")
    );
    let form = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=";
    let assertion = request.body.strip_prefix(form).expect("a form");
    let (claim, signature) = assertion.rsplit_once('.').expect("three parts");
    let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).expect("base64");
    let text = |part: &str| String::from_utf8(decode(part)).expect("text");
    let (header, claims) = claim.split_once('.').expect("three parts");
    assert_eq!(
        json(&text(header)),
        json(r#"{"alg":"RS256","typ":"JWT","kid":"k7"}"#)
    );
    let claims = json(&text(claims));
    assert_eq!(claims["iss"], "me@p.iam");
    assert_eq!(claims["aud"], &*format!("{}/token", tokens.url()));
    assert_eq!(
        claims["scope"],
        "https://www.googleapis.com/auth/cloud-platform"
    );
    assert_eq!(claims["iat"], 1_700_000_000);
    assert_eq!(claims["exp"], 1_700_003_600);
    let pem: String = KEY.lines().filter(|line| !line.starts_with('-')).collect();
    let key = RsaKeyPair::from_pkcs8(&STANDARD.decode(pem).expect("base64")).expect("a key");
    let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key.public().as_ref());
    public
        .verify(claim.as_bytes(), &decode(signature))
        .expect("signed");
}

#[tokio::test]
async fn token_is_cached_and_renewed_before_expiry() {
    let tokens = Server::playing([token("t1", 3600), token("t2", 3600)]).await;
    let models = Server::playing(vec![answer(ANSWER); 4]).await;
    let clock = Arc::new(TestClock::default());
    let model = model(&models, account(&tokens.url()), &clock);
    ask(&model).await;
    clock.tick(Duration::from_secs(3300));
    ask(&model.clone()).await;
    // The token is valid for another 220 seconds, less than the renewal margin.
    clock.tick(Duration::from_secs(80));
    ask(&model).await;
    ask(&model).await;
    assert_eq!(
        bearers(&models),
        ["Bearer t1", "Bearer t1", "Bearer t2", "Bearer t2"]
    );
    assert_eq!(tokens.received().len(), 2);
}

#[tokio::test]
async fn concurrent_requests_share_one_token_fetch() {
    let slow = [
        vec![Act::Pause(Duration::from_millis(50))],
        token("t1", 3600),
    ]
    .concat();
    let tokens = Server::playing([slow]).await;
    let models = Server::playing(vec![answer(ANSWER); 8]).await;
    let clock = Arc::new(TestClock::default());
    let model = model(&models, account(&tokens.url()), &clock);
    let all = (0..8).map(|_| ask(&model));
    let all = futures_util::future::join_all(all).await;
    assert!(all.iter().all(|answer| answer == "Hi"), "{all:?}");
    assert_eq!(tokens.received().len(), 1);
}

#[tokio::test]
async fn revoked_token_is_renewed() {
    let tokens = Server::playing([token("t1", 3600), token("t2", 3600)]).await;
    let refused = answer_with_status(
        "401 Unauthorized",
        &[],
        r#"{"error":{"status":"UNAUTHENTICATED"}}"#,
    );
    let models = Server::playing([refused, answer(ANSWER)]).await;
    let clock = Arc::new(TestClock::default());
    let model = model(&models, account(&tokens.url()), &clock);
    assert_eq!(ask(&model).await, "Hi");
    assert_eq!(bearers(&models), ["Bearer t1", "Bearer t2"]);
}

#[tokio::test]
async fn token_request_error_has_googles_message() {
    let body = r#"{"error":"invalid_grant","error_description":"Invalid JWT Signature."}"#;
    let tokens = Server::playing([
        answer_with_status("400 Bad Request", &[], body),
        answer("{}"),
    ])
    .await;
    let models = Server::playing([]).await;
    let clock = Arc::new(TestClock::default());
    let model = model(&models, account(&tokens.url()), &clock);
    let refused =
        "UNAUTHENTICATED: Google rejected the token request: invalid_grant: Invalid JWT Signature.";
    assert_eq!(ask(&model).await, refused);
    assert!(ask(&model).await.starts_with("UNAUTHENTICATED: "));
    assert!(models.received().is_empty());
}

/// A token endpoint may repeat the request in its error.
#[tokio::test]
async fn token_request_error_contains_no_secrets() {
    let clock = Arc::new(TestClock::default());
    let models = Server::playing([]).await;
    let user = |uri: &str| {
        let text = format!(
            r#"{{"type":"authorized_user","client_id":"c","client_secret":"canary/1","refresh_token":"canary/2","token_uri":"{uri}"}}"#
        );
        GoogleCredentials::from_json(&text).expect("credentials")
    };
    for body in [
        "canary/1 canary/2 client_secret=canary%2F1&refresh_token=canary%2F2".to_owned(),
        format!(
            r#"{{"error":"x","error_description":"{} canary/2"}}"#,
            "x".repeat(900)
        ),
        format!("{}canary%2F2", "x".repeat(494)),
    ] {
        let tokens = Server::playing([answer_with_status("400 Bad Request", &[], &body)]).await;
        let output = ask(&model(&models, user(&tokens.url()), &clock)).await;
        assert!(
            output.contains("UNAUTHENTICATED") && !output.contains("canar"),
            "{output}"
        );
    }
    // The assertion depends only on the time, so with a stopped clock the second request repeats
    // the first.
    let tokens = Server::playing([]).await;
    let model = model(&models, account(&tokens.url()), &clock);
    ask(&model).await;
    let sent = tokens.received()[0].body.clone();
    tokens.play(answer_with_status("400 Bad Request", &[], &sent));
    let output = ask(&model).await;
    assert!(output.contains("assertion=[secret]"), "{output}");
}

#[tokio::test]
async fn invalid_private_key_is_reported_without_printing_it() {
    let models = Server::playing([]).await;
    let clock = Arc::new(TestClock::default());
    for key in [
        "canary",
        "-----BEGIN PRIVATE KEY-----\\nY2FuYXJ5\\n-----END PRIVATE KEY-----",
    ] {
        let text = format!(
            r#"{{"type":"service_account","client_email":"me@p.iam","private_key":"{key}"}}"#
        );
        let credentials = GoogleCredentials::from_json(&text).expect("credentials");
        let error = ask(&model(&models, credentials, &clock)).await;
        assert!(
            error.contains("cannot use the private key of me@p.iam"),
            "{error}"
        );
        assert!(
            !error.contains("canary") && !error.contains("Y2Fu"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn metadata_server_provides_the_machines_token() {
    let metadata = Server::playing([token("m1....", 3599)]).await;
    let models = Server::playing([answer(ANSWER)]).await;
    let clock = Arc::new(TestClock::default());
    let host = metadata.url().replace("http://", "");
    let credentials = GoogleCredentials::MetadataServer { host };
    assert_eq!(ask(&model(&models, credentials, &clock)).await, "Hi");
    assert_eq!(bearers(&models), ["Bearer m1"]);
    let request = &metadata.received()[0];
    assert!(
        request
            .line
            .starts_with("GET /computeMetadata/v1/instance/service-accounts/default/token ")
    );
    assert_eq!(request.header("metadata-flavor"), Some("Google"));
}

/// Every machine has its own metadata server: a proxy would reach another one, or none.
#[tokio::test(flavor = "multi_thread")]
async fn metadata_server_is_called_without_a_proxy() {
    const CHILD: &str = "RETAIN_TEST_METADATA_CHILD";
    if let Ok(url) = std::env::var(CHILD) {
        let credentials = GoogleCredentials::MetadataServer { host: url };
        let http = crate::Http::new(crate::HttpSettings::default()).expect("a client");
        let tokens = super::super::tokens::Tokens::new(credentials);
        let token = crate::http::TokenSource::token(&tokens, &http).await;
        assert_eq!(token.expect("a token").expose(), "m1");
        return;
    }
    let metadata = Server::playing([token("m1", 3599)]).await;
    let proxy = Server::playing([]).await;
    let host = metadata.url().replace("http://", "");
    let variables = vec![("HTTP_PROXY", proxy.url()), (CHILD, host)];
    let test = "gemini::tests::tokens::metadata_server_is_called_without_a_proxy";
    crate::http::tests::run_in_child_process(test, variables).await;
    assert_eq!(metadata.received().len(), 1);
    assert!(proxy.received().is_empty());
}

#[tokio::test]
async fn gcloud_user_credentials_are_exchanged_for_a_token() {
    let tokens = Server::playing([token("u1", 3599)]).await;
    let models = Server::playing([answer(ANSWER)]).await;
    let text = format!(
        r#"{{"type":"authorized_user","client_id":"c","client_secret":"s+","refresh_token":"r/","quota_project_id":"q","token_uri":"{}"}}"#,
        tokens.url()
    );
    let credentials = GoogleCredentials::from_json(&text).expect("credentials");
    let clock = Arc::new(TestClock::default());
    assert_eq!(ask(&model(&models, credentials, &clock)).await, "Hi");
    let form = "grant_type=refresh_token&client_id=c&client_secret=s%2B&refresh_token=r%2F";
    assert_eq!(tokens.received()[0].body, form);
    assert_eq!(
        models.received()[0].header("x-goog-user-project"),
        Some("q")
    );
}

#[tokio::test]
async fn configured_access_token_is_sent() {
    let models = Server::playing([answer(ANSWER)]).await;
    let clock = Arc::new(TestClock::default());
    let credentials = GoogleCredentials::AccessToken("given".into());
    assert_eq!(ask(&model(&models, credentials, &clock)).await, "Hi");
    assert_eq!(bearers(&models), ["Bearer given"]);
}
