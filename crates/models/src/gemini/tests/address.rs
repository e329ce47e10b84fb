//! Gemini's URLs and credentials.

use super::*;
use crate::{Gemini, GeminiAccess, GeminiSettings, GoogleCredentials, Http, HttpSettings};
use retain_runtime::Model as _;

fn url(gemini: &GeminiWire, model: &str, config: &str, stream: bool) -> Result<String, ModelError> {
    let mut request = request(&json("[]"), &json(config));
    request.model = model.to_owned();
    gemini.url(&request, stream)
}

fn vertex_at(location: &str) -> GeminiWire {
    gemini(Backend::Vertex {
        project: Some("p".to_owned()),
        location: location.to_owned(),
    })
}

#[test]
fn default_urls_are_googles() {
    const API: &str = "https://generativelanguage.googleapis.com/v1beta";
    const P: &str = "v1beta1/projects/p/locations";
    let cases = [
        (api(), "", format!("{API}/models/gemini-2.5-flash")),
        (api(), "models/x", format!("{API}/models/x")),
        (api(), "tunedModels/x", format!("{API}/tunedModels/x")),
        (vertex_at("global"), "m", format!("https://aiplatform.googleapis.com/{P}/global/publishers/google/models/m")),
        (vertex_at("eu"), "m", format!("https://aiplatform.eu.rep.googleapis.com/{P}/eu/publishers/google/models/m")),
        (vertex_at("us-central1"), "meta/l", format!("https://us-central1-aiplatform.googleapis.com/{P}/us-central1/publishers/meta/models/l")),
        (
            vertex_at("global"),
            "projects/o/locations/europe-west4/endpoints/7",
            "https://europe-west4-aiplatform.googleapis.com/v1beta1/projects/o/locations/europe-west4/endpoints/7".to_owned(),
        ),
        (
            gemini(Backend::Vertex { project: None, location: "global".to_owned() }),
            "m",
            "https://aiplatform.googleapis.com/v1beta1/publishers/google/models/m".to_owned(),
        ),
    ];
    for (gemini, model, expected) in cases {
        let whole = url(&gemini, model, "{}", false).expect("an address");
        assert_eq!(whole, format!("{expected}:generateContent"));
        let stream = url(&gemini, model, "{}", true).expect("an address");
        assert_eq!(stream, format!("{expected}:streamGenerateContent?alt=sse"));
    }
}

#[test]
fn base_url_and_version_are_configurable() {
    let mut own = api();
    own.base_url = Some("http://127.0.0.1:9/gemini/".into());
    own.api_version = Some("v1".to_owned());
    let plain = url(&own, "m", "{}", false).expect("an address");
    assert_eq!(
        plain,
        "http://127.0.0.1:9/gemini/v1/models/m:generateContent"
    );
    own.base_url = Some("https://x.googleapis.com/v1alpha/".into());
    let version = url(&own, "m", "{}", false).expect("an address");
    assert_eq!(
        version,
        "https://x.googleapis.com/v1alpha/models/m:generateContent"
    );
    let options = r#"{"http_options":{"base_url":"http://h","api_version":"v9"}}"#;
    let overridden = url(&own, "m", options, false).expect("an address");
    assert_eq!(overridden, "http://h/v9/models/m:generateContent");
}

#[test]
fn model_name_with_url_characters_is_rejected() {
    for name in ["../x", "a?b", "a&b", "a b", "a#b", "a%2e", "ü"] {
        assert!(url(&api(), name, "{}", false).is_err(), "{name}");
    }
}

#[test]
fn cache_name_is_expanded_to_the_full_resource_name() {
    let (api, vertex) = (Backend::Api, vertex_at("l").backend);
    assert_eq!(api.cache_name("7"), "cachedContents/7");
    assert_eq!(api.cache_name("cachedContents/7"), "cachedContents/7");
    let full = "projects/p/locations/l/cachedContents/7";
    for name in [
        "7",
        "cachedContents/7",
        "locations/l/cachedContents/7",
        full,
    ] {
        assert_eq!(vertex.cache_name(name), full, "{name}");
    }
}

#[test]
fn only_vertex_combines_a_schema_with_tools() {
    let can = |mut gemini: GeminiWire, name: &str| {
        gemini.name = name.to_owned();
        gemini.capabilities().output_schema_and_tools
    };
    assert!(!can(api(), "gemini-2.5-flash"));
    assert!(can(vertex(), "gemini-2.5-flash"));
    assert!(can(
        vertex(),
        "projects/p/locations/l/publishers/google/models/gemini-3-pro"
    ));
    assert!(!can(vertex(), "projects/p/locations/l/endpoints/7"));
    assert!(!can(vertex(), "meta/llama"));
}

fn from_env(model: &str, env: &[(&str, &str)]) -> Result<GeminiSettings, String> {
    let find = |name: &str| {
        let found = env.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    GeminiSettings::from_env(model, &find).map_err(|error| error.to_string())
}

/// Returns the credentials as a short text, or the error.
fn describe_credentials(model: &str, env: &[(&str, &str)]) -> String {
    match from_env(model, env) {
        Ok(settings) => match settings.access {
            GeminiAccess::ApiKey(key) => format!("key {}", key.expose()),
            GeminiAccess::VertexKey(key) => format!("vertex key {}", key.expose()),
            GeminiAccess::Vertex {
                project,
                location,
                credentials,
            } => {
                let credentials = match credentials {
                    GoogleCredentials::MetadataServer { host } => host,
                    other => format!("{other:?}"),
                };
                format!("vertex {project} {location} {credentials}")
            }
        },
        Err(error) => error,
    }
}

#[test]
fn environment_variables_select_the_credentials() {
    const ON: (&str, &str) = ("GOOGLE_GENAI_USE_VERTEXAI", "TRUE");
    const KEY: (&str, &str) = ("GOOGLE_API_KEY", "k1");
    const SECOND_KEY: (&str, &str) = ("GEMINI_API_KEY", "k2");
    const PROJECT: (&str, &str) = ("GOOGLE_CLOUD_PROJECT", "p");
    let metadata = "metadata.google.internal";
    assert_eq!(describe_credentials("m", &[KEY, SECOND_KEY]), "key k1");
    assert_eq!(
        describe_credentials("m", &[("GOOGLE_API_KEY", " "), SECOND_KEY]),
        "key k2"
    );
    assert_eq!(describe_credentials("m", &[KEY, PROJECT]), "key k1");
    assert_eq!(describe_credentials("m", &[ON, KEY]), "vertex key k1");
    assert_eq!(
        describe_credentials("m", &[ON, KEY, PROJECT]),
        format!("vertex p global {metadata}")
    );
    let place = ("GOOGLE_CLOUD_LOCATION", "us-east1");
    let host = ("GCE_METADATA_HOST", "h:1");
    assert_eq!(
        describe_credentials("m", &[ON, PROJECT, place, host]),
        "vertex p us-east1 h:1"
    );
    let off = ("GOOGLE_GENAI_USE_ENTERPRISE", "0");
    assert_eq!(describe_credentials("m", &[ON, off, KEY]), "key k1");
    let path = "projects/q/locations/l/publishers/google/models/gemini-x";
    assert_eq!(
        describe_credentials(path, &[]),
        format!("vertex q global {metadata}")
    );
    assert!(describe_credentials("m", &[]).contains("GOOGLE_API_KEY or GEMINI_API_KEY"));
    assert!(describe_credentials("m", &[ON]).contains("GOOGLE_CLOUD_PROJECT"));
    let missing = ("GOOGLE_APPLICATION_CREDENTIALS", "/no/such/file.json");
    assert!(describe_credentials("m", &[ON, missing]).contains("/no/such/file.json"));
}

#[test]
fn credentials_are_read_from_files() {
    let folder = retain_testkit::scratch::folder();
    let account = folder.path().join("account.json");
    let text = r#"{"type":"service_account","client_email":"a@b","private_key":"canary-key","project_id":"of-account"}"#;
    std::fs::write(&account, text).expect("a file");
    let user = r#"{"type":"authorized_user","client_id":"c","client_secret":"canary-secret","refresh_token":"canary-token","quota_project_id":"of-user"}"#;
    let gcloud = folder.path().join("application_default_credentials.json");
    std::fs::write(gcloud, user).expect("a file");
    let on = ("GOOGLE_GENAI_USE_VERTEXAI", "1");
    let file = (
        "GOOGLE_APPLICATION_CREDENTIALS",
        account.to_str().expect("a path"),
    );
    let config = ("CLOUDSDK_CONFIG", folder.path().to_str().expect("a path"));
    assert_eq!(
        describe_credentials("m", &[on, file, config]),
        "vertex of-account global ServiceAccount(ServiceAccount(\"a@b\"))"
    );
    assert_eq!(
        describe_credentials("m", &[on, config]),
        "vertex of-user global User(UserCredentials)"
    );
    for (text, word) in [
        ("{", "not valid JSON"),
        ("{}", "\"none\""),
        (r#"{"type":"external_account"}"#, "external_account"),
        (
            r#"{"type":"service_account","client_email":"a"}"#,
            "private_key",
        ),
    ] {
        let error = GoogleCredentials::from_json(text)
            .expect_err("no credentials")
            .to_string();
        assert!(error.contains(word), "{error}");
    }
}

#[test]
fn invalid_model_name_is_rejected() {
    let http = Http::new(HttpSettings::default()).expect("a client");
    let access = GeminiAccess::ApiKey("canary-key".into());
    let model = Gemini::new("gemini-2.5-pro", access.clone(), &http).expect("a model");
    assert_eq!(model.name(), "gemini-2.5-pro");
    assert!(!format!("{model:?} {access:?}").contains("canary"));
    let error = Gemini::new("a?b", access, &http).expect_err("no name");
    assert!(error.to_string().contains("a?b"), "{error}");
}
