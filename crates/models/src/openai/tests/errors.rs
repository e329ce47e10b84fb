//! Errors in the formats of different servers.

use super::{chat, read, read_answer, server};
use crate::provider::Provider as _;

#[test]
fn error_code_and_message_are_taken_from_the_servers_response() {
    let cases = [
        // platform.openai.com/docs/guides/error-codes
        (
            401,
            r#"{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}"#,
            "invalid_api_key",
            "Incorrect API key provided",
        ),
        (
            500,
            r#"{"error":{"message":"The server had an error","type":"server_error","param":null,"code":null}}"#,
            "server_error",
            "The server had an error",
        ),
        // Azure: learn.microsoft.com/azure/ai-foundry/openai/how-to/quota
        (
            429,
            r#"{"error":{"code":"429","message":"Requests have exceeded the rate limit"}}"#,
            "429",
            "Requests have exceeded the rate limit",
        ),
        // vLLM: flat in older versions, nested in newer ones
        (
            400,
            r#"{"object":"error","message":"too long","type":"BadRequestError","param":null,"code":400}"#,
            "BadRequestError",
            "too long",
        ),
        (
            404,
            r#"{"error":{"message":"no such model","type":"NotFoundError","param":null,"code":404}}"#,
            "NotFoundError",
            "no such model",
        ),
        // LiteLLM's proxy: the status in quotation marks
        (
            400,
            r#"{"error":{"message":"Invalid model name","type":"invalid_request_error","param":null,"code":"400"}}"#,
            "invalid_request_error",
            "Invalid model name",
        ),
        // Ollama
        (
            404,
            r#"{"error":"model not found"}"#,
            "404",
            "model not found",
        ),
        // OpenRouter: openrouter.ai/docs/api-reference/errors
        (
            502,
            r#"{"error":{"code":502,"message":"Provider returned error","metadata":{"provider_name":"X","raw":"overloaded"}}}"#,
            "502",
            "Provider returned error: overloaded",
        ),
        // Frameworks and proxies
        (
            422,
            r#"{"detail":"Field required"}"#,
            "422",
            "Field required",
        ),
        (
            422,
            r#"{"detail":[{"msg":"no"}]}"#,
            "422",
            r#"[{"msg":"no"}]"#,
        ),
        (503, "<html>Down</html>", "503", "<html>Down</html>"),
        (504, "", "504", "the provider returned HTTP status 504"),
    ];
    let chat = chat(server("openai"));
    for (status, body, code, message) in cases {
        let failure = chat.failure(status, body);
        assert_eq!(
            (failure.code.as_str(), failure.message.as_str()),
            (code, message)
        );
        assert!(!failure.is_final, "{body}");
    }
    // A call that failed for an exhausted quota is not retried.
    let body = r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}"#;
    assert!(chat.failure(429, body).is_final);
}

#[test]
fn error_body_with_status_200_is_an_error() {
    for body in [
        r#"{"error":{"message":"Busy","code":"busy"}}"#,
        r#"{"object":"error","message":"Busy","code":"busy"}"#,
    ] {
        let error = read_answer(body).unwrap_err();
        assert_eq!(error.code.as_deref(), Some("busy"));
        assert_eq!(error.message, "Busy");
        let error = read([body]).unwrap_err();
        assert_eq!(error.code.as_deref(), Some("busy"));
    }
    // `null` is not an error.
    assert!(read_answer(r#"{"error":null,"choices":[]}"#).is_ok());
}
