//! Embedders with a local server.
//!
//! The server's answers follow platform.openai.com/docs/api-reference/embeddings and
//! ai.google.dev/api/embeddings.

use std::time::Duration;

use retain_core::{BoxError, Embedder, Json};
use retain_runtime::ModelError;

use super::{EmbedderSpec, GeminiEmbedder, OpenAiEmbedder};
use crate::{
    Http, HttpSettings, OpenAiServer, Retries, Secret,
    testing::{Act, Server, answer, answer_with_status},
};

const KEY: &str = "sk-canary-0123456789";

fn http() -> Http {
    let retries = Retries {
        attempts: 3,
        first_wait: Duration::from_millis(1),
        ..Retries::default()
    };
    let settings = HttpSettings {
        retries,
        ..HttpSettings::default()
    };
    Http::new(settings).expect("a client")
}

fn openai(server: &Server, dims: usize) -> OpenAiEmbedder {
    let server = OpenAiServer::new(&server.url(), Some(Secret::from(KEY)));
    OpenAiEmbedder::new(http(), server, "text-embedding-3-small", dims)
}

fn gemini(server: &Server, dims: usize) -> GeminiEmbedder {
    GeminiEmbedder::new(http(), Secret::from(KEY), "gemini-embedding-001", dims)
        .with_base_url(&server.url())
}

fn texts(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("text {number}")).collect()
}

/// Returns OpenAI's response with these vectors; each is given by its index and its numbers.
fn vector_list(vectors: &[(usize, &str)]) -> Vec<Act> {
    let item = |(index, numbers): &(usize, &str)| {
        format!(r#"{{"object":"embedding","index":{index},"embedding":{numbers}}}"#)
    };
    let items: Vec<String> = vectors.iter().map(item).collect();
    answer(&format!(
        r#"{{"object":"list","data":[{}],"model":"m","usage":{{"prompt_tokens":8,"total_tokens":8}}}}"#,
        items.join(",")
    ))
}

fn code(error: &BoxError) -> Option<&str> {
    error.downcast_ref::<ModelError>()?.code.as_deref()
}

#[tokio::test]
async fn openai_embeddings_request_matches_its_api_and_vectors_are_sorted_by_index() {
    let server = Server::playing([vector_list(&[(1, "[0.0, 2.0]"), (0, "[3, 4]")])]).await;
    let vectors = openai(&server, 2).embed(&texts(2)).await.unwrap();
    assert_eq!(vectors, [[0.6, 0.8], [0.0, 1.0]]);
    let received = &server.received()[0];
    assert_eq!(received.path(), "/embeddings");
    assert_eq!(
        received.header("authorization"),
        Some(format!("Bearer {KEY}").as_str())
    );
    assert_eq!(
        received.body,
        r#"{"model":"text-embedding-3-small","input":["text 0","text 1"],"encoding_format":"float","dimensions":2}"#
    );
}

#[tokio::test]
async fn dimensions_are_sent_only_if_requested() {
    let server =
        Server::playing([vector_list(&[(0, "[1, 0]")]), vector_list(&[(0, "[1, 0]")])]).await;
    let embedder = OpenAiEmbedder::new(http(), OpenAiServer::new(&server.url(), None), "own", 2);
    embedder.embed(&texts(1)).await.unwrap();
    embedder.request_dims().embed(&texts(1)).await.unwrap();
    let received = server.received();
    assert!(!received[0].body.contains("dimensions"));
    assert!(received[1].body.contains(r#""dimensions":2"#));
    assert_eq!(received[0].header("authorization"), None);
}

#[tokio::test]
async fn gemini_embeddings_request_matches_its_api() {
    let body = r#"{"embeddings":[{"values":[3,4]},{"values":[0.0,2.0]}]}"#;
    let server = Server::playing([answer(body)]).await;
    let vectors = gemini(&server, 2).embed(&texts(2)).await.unwrap();
    assert_eq!(vectors, [[0.6, 0.8], [0.0, 1.0]]);
    let received = &server.received()[0];
    assert_eq!(
        received.path(),
        "/v1beta/models/gemini-embedding-001:batchEmbedContents"
    );
    assert_eq!(received.header("x-goog-api-key"), Some(KEY));
    let request = |text: &str| {
        format!(
            r#"{{"model":"models/gemini-embedding-001","content":{{"parts":[{{"text":"{text}"}}]}},"taskType":"SEMANTIC_SIMILARITY","outputDimensionality":2}}"#
        )
    };
    let requests = [request("text 0"), request("text 1")].join(",");
    assert_eq!(received.body, format!(r#"{{"requests":[{requests}]}}"#));
}

#[tokio::test]
async fn texts_are_sent_in_batches_and_vectors_keep_their_order() {
    let batch = |from: usize, count: usize| {
        let numbers: Vec<String> = (0..count).map(|at| format!("[1, {}]", from + at)).collect();
        let numbered = numbers.iter().enumerate();
        let mut vectors: Vec<(usize, &str)> = numbered.map(|(at, it)| (at, it.as_str())).collect();
        vectors.reverse();
        vector_list(&vectors)
    };
    let server = Server::playing([batch(0, 128), batch(128, 128), batch(256, 44)]).await;
    let vectors = openai(&server, 2).embed(&texts(300)).await.unwrap();
    assert_eq!(vectors.len(), 300);
    for (at, vector) in vectors.iter().enumerate() {
        let slope = f64::from(vector[1]) / f64::from(vector[0]);
        assert_eq!(slope.round() as usize, at);
    }
    let received = server.received();
    let counts = received.iter().map(|it| {
        let body = Json::parse(&it.body).unwrap();
        body["input"].as_array().unwrap().len()
    });
    assert_eq!(counts.collect::<Vec<_>>(), [128, 128, 44]);
    let none = openai(&server, 2).embed(&[]).await.unwrap();
    assert!(none.is_empty() && server.received().len() == 3);
}

#[tokio::test]
async fn wrong_number_or_size_of_vectors_is_an_error() {
    let bodies = [
        r#"{"data":[{"index":0,"embedding":[1,0]}]}"#,
        r#"{"data":[{"index":0,"embedding":[1,0]},{"index":0,"embedding":[1,0]}]}"#,
        r#"{"data":[{"index":0,"embedding":[1,0]},{"index":2,"embedding":[1,0]}]}"#,
        r#"{"data":[{"index":0,"embedding":[1,0]},{"index":-1,"embedding":[1,0]}]}"#,
        r#"{"data":[{"index":0,"embedding":[1,0]},{"index":1,"embedding":[1,"x"]}]}"#,
        r#"{"data":[{"index":0,"embedding":[1,0]},{"index":1,"embedding":[0,0]}]}"#,
        r#"{"data":[{"index":0,"embedding":[1,0]},{"index":1}]}"#,
        r#"{"data":{}}"#,
        "{",
    ];
    for body in bodies {
        let server = Server::playing([answer(body)]).await;
        let error = openai(&server, 2).embed(&texts(2)).await.unwrap_err();
        assert_eq!(code(&error), Some("MalformedResponse"), "{body}");
    }
    for body in [
        r#"{"embeddings":[{"values":[1,0]}]}"#,
        r#"{"embeddings":[{"values":[1,0]},{}]}"#,
        "{}",
    ] {
        let server = Server::playing([answer(body)]).await;
        let error = gemini(&server, 2).embed(&texts(2)).await.unwrap_err();
        assert_eq!(code(&error), Some("MalformedResponse"), "{body}");
    }
    let server = Server::playing([vector_list(&[(0, "[1, 0, 0]")])]).await;
    let error = openai(&server, 2).embed(&texts(1)).await.unwrap_err();
    assert_eq!(code(&error), Some("WrongDimensions"));
    assert!(error.to_string().contains('3'), "{error}");
}

#[tokio::test]
async fn nonstandard_embedding_responses_are_accepted() {
    // The bytes of 0.6 and 0.8 in base64.
    let body = r#"{"data":[{"embedding":"mpkZP83MTD8="},{"embedding":[0,1]}]}"#;
    let server = Server::playing([answer(body)]).await;
    let vectors = openai(&server, 2).embed(&texts(2)).await.unwrap();
    assert_eq!(vectors[1], [0.0, 1.0]);
    assert!((vectors[0][0] - 0.6).abs() < 1e-6, "{vectors:?}");
}

#[tokio::test]
async fn busy_server_is_retried_and_permanent_error_has_the_servers_code() {
    let busy = r#"{"error":{"message":"Slow down","code":"rate_limit_exceeded"}}"#;
    let busy = answer_with_status("429 Too Many Requests", &[("retry-after", "0")], busy);
    let server = Server::playing([busy.clone(), vector_list(&[(0, "[1, 0]")])]).await;
    openai(&server, 2).embed(&texts(1)).await.unwrap();
    assert_eq!(server.received().len(), 2);

    let invalid =
        format!(r#"{{"error":{{"message":"Wrong key {KEY}","code":"invalid_api_key"}}}}"#);
    let server = Server::playing([answer_with_status("401 Unauthorized", &[], &invalid)]).await;
    let error = openai(&server, 2).embed(&texts(1)).await.unwrap_err();
    assert_eq!(code(&error), Some("invalid_api_key"));
    assert!(!format!("{error} {error:?}").contains(KEY), "{error:?}");

    // An error with a successful status is reported too.
    let server = Server::playing([answer(&invalid)]).await;
    let error = openai(&server, 2).embed(&texts(1)).await.unwrap_err();
    assert_eq!(code(&error), Some("invalid_api_key"));
    assert!(!format!("{error} {error:?}").contains(KEY), "{error:?}");

    let invalid =
        r#"{"error":{"code":400,"message":"API key not valid","status":"INVALID_ARGUMENT"}}"#;
    let server = Server::playing([answer_with_status("400 Bad Request", &[], invalid)]).await;
    let error = gemini(&server, 2).embed(&texts(1)).await.unwrap_err();
    assert_eq!(code(&error), Some("INVALID_ARGUMENT"));
}

/// Some gateways report a failure with status 200.
#[tokio::test]
async fn error_with_status_200_is_classified_by_its_code() {
    let busy = r#"{"error":{"message":"Slow down","code":"rate_limit_exceeded"}}"#;
    let server = Server::playing([answer(busy), vector_list(&[(0, "[3, 4]")])]).await;
    assert!(openai(&server, 2).embed(&texts(1)).await.is_ok());
    assert_eq!(server.received().len(), 2);
    let busy = r#"{"error":{"code":503,"message":"Busy","status":"UNAVAILABLE"}}"#;
    let vectors = answer(r#"{"embeddings":[{"values":[3, 4]}]}"#);
    let server = Server::playing([answer(busy), vectors.clone()]).await;
    assert!(gemini(&server, 2).embed(&texts(1)).await.is_ok());
    assert_eq!(server.received().len(), 2);
    let invalid = r#"{"error":{"code":400,"message":"No","status":"INVALID_ARGUMENT"}}"#;
    let server = Server::playing([answer(invalid), vectors]).await;
    let error = gemini(&server, 2).embed(&texts(1)).await.unwrap_err();
    assert_eq!(code(&error), Some("INVALID_ARGUMENT"));
    assert_eq!(server.received().len(), 1);
}

#[test]
fn embedder_is_selected_by_name() {
    let id = |name: &str| {
        let spec: EmbedderSpec = name.parse().unwrap();
        let variable = |name: &str| match name {
            "OPENAI_API_KEY" | "GEMINI_API_KEY" => Some(KEY.to_owned()),
            _ => None,
        };
        let embedder = spec.open(&http(), &variable).unwrap();
        assert!(!format!("{embedder:?}").contains(KEY));
        assert_eq!(embedder.dims(), spec.dims);
        embedder.id().to_owned()
    };
    assert_eq!(
        id("openai/text-embedding-3-small"),
        "openai/text-embedding-3-small/1536"
    );
    assert_eq!(
        id("openai/text-embedding-3-small@512"),
        "openai/text-embedding-3-small/512"
    );
    assert_eq!(
        id("gemini/gemini-embedding-001"),
        "gemini/gemini-embedding-001/768/SEMANTIC_SIMILARITY"
    );
    assert_eq!(
        id("gemini/gemini-embedding-2@3072"),
        "gemini/gemini-embedding-2/3072"
    );
    assert_eq!(
        id("ollama/nomic-embed-text:v1.5"),
        "openai/nomic-embed-text:v1.5/768"
    );
    assert_eq!(id("ollama/own/model@7"), "openai/own/model/7");
}

/// `OLLAMA_HOST` takes precedence over LiteLLM's variable, and a Google URL may end in a version.
#[test]
fn embedder_base_urls_are_configured_like_model_base_urls() {
    let spec: EmbedderSpec = "ollama/all-minilm".parse().unwrap();
    let variable = |name: &str| match name {
        "OLLAMA_HOST" => Some("http://user:canary-5b1c9f@first:1".to_owned()),
        "OLLAMA_API_BASE" => Some("http://second:2".to_owned()),
        _ => None,
    };
    let printed = format!("{:?}", spec.open(&http(), &variable).unwrap());
    assert!(
        printed.contains("first:1") && !printed.contains("canary"),
        "{printed}"
    );
    let new = || GeminiEmbedder::new(http(), KEY.into(), "m", 2);
    for (address, url) in [
        (
            "https://x.googleapis.com/v1/",
            "https://x.googleapis.com/v1/models/m",
        ),
        (
            "https://x.googleapis.com",
            "https://x.googleapis.com/v1beta/models/m",
        ),
        ("http://own/v1", "http://own/v1/v1beta/models/m"),
    ] {
        let call = super::EmbedWire::call(&new().with_base_url(address), &texts(1)).unwrap();
        assert_eq!(call.url, format!("{url}:batchEmbedContents"));
    }
}

#[test]
fn invalid_embedder_name_is_reported_with_the_reason() {
    let assert_error = |name: &str, about: &str| {
        let error = name.parse::<EmbedderSpec>().unwrap_err().to_string();
        assert!(error.contains(about), "{error}");
    };
    assert_error("", "expected gemini/MODEL");
    assert_error("text-embedding-3-small", "expected gemini/MODEL");
    assert_error("cohere/x@1", "expected gemini/MODEL");
    assert_error("openai/", "needs a model name");
    assert_error("openai/@5", "needs a model name");
    assert_error("openai/own", "openai/own@DIMENSIONS");
    assert_error("openai/own@x", "\"x\" after @");
    assert_error("openai/own@0", "after @");
    for (name, variable) in [
        ("openai/text-embedding-3-small", "OPENAI_API_KEY"),
        ("gemini/gemini-embedding-001", "GOOGLE_API_KEY"),
    ] {
        let spec: EmbedderSpec = name.parse().unwrap();
        let error = spec.open(&http(), &|_| Some("  ".to_owned())).unwrap_err();
        assert!(error.to_string().contains(variable), "{error}");
    }
}
