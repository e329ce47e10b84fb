//! Models by name, by value and from the environment.

use std::sync::Arc;

use retain::{LlmAgent, Model, ScriptedModel};

#[test]
fn agent_builder_accepts_a_model_an_arc_or_a_name() {
    let scripted = || ScriptedModel::new("scripted").reply("Hi");
    let shared: Arc<dyn Model> = Arc::new(scripted());
    let agents = [
        LlmAgent::builder("a").model(scripted()).build(),
        LlmAgent::builder("a").model(Arc::new(scripted())).build(),
        LlmAgent::builder("a").model(shared).build(),
    ];
    for agent in agents {
        assert_eq!(agent.unwrap().model().unwrap().name(), "scripted");
    }
    let named = LlmAgent::builder("a").model("offline").build().unwrap();
    assert_eq!(named.model().unwrap().name(), "offline");
}

#[test]
fn unknown_model_name_is_an_error() {
    let error = LlmAgent::builder("a").model("martian-1").build();
    assert!(error.unwrap_err().to_string().contains("martian-1"));
}

/// Tests with environment variables. Each runs in a child process, because a test must not change
/// the environment of its own process.
#[cfg(feature = "models")]
mod from_env {
    use std::process::Command;

    use retain::{
        LlmAgent,
        agent::BuildError,
        memory::{Embedder as _, GeminiEmbedder, OpenAiEmbedder},
        model::{Claude, Gemini, OpenAi},
    };

    const KEY_VARIABLES: [&str; 4] = [
        "GOOGLE_API_KEY",
        "GEMINI_API_KEY",
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
    ];
    const OTHER_VARIABLES: [&str; 9] = [
        "ANTHROPIC_AUTH_TOKEN",
        "GOOGLE_CLOUD_PROJECT",
        "GOOGLE_CLOUD_LOCATION",
        "VERTEXAI_PROJECT",
        "VERTEXAI_LOCATION",
        "GOOGLE_GENAI_USE_VERTEXAI",
        "GOOGLE_GENAI_USE_ENTERPRISE",
        "OPENAI_BASE_URL",
        "OPENAI_API_BASE",
    ];

    /// Runs an ignored test of this file in a child process that has `key` in every API-key
    /// variable, or no such variable.
    fn run_child(test: &str, key: Option<&str>) {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "--ignored", &format!("models::from_env::{test}")]);
        for name in KEY_VARIABLES.iter().chain(&OTHER_VARIABLES) {
            child.env_remove(name);
        }
        if let Some(key) = key {
            child.envs(KEY_VARIABLES.map(|name| (name, key)));
        }
        let output = child.output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        let passed = output.status.success() && printed.contains("1 passed");
        assert!(
            passed,
            "{printed}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    #[test]
    fn models_and_embedders_are_created_with_keys_from_the_environment() {
        run_child("child_with_keys", Some("a-key-for-tests"));
    }

    #[test]
    fn missing_api_key_is_an_error_that_names_the_variable() {
        run_child("child_without_keys", None);
    }

    #[test]
    #[ignore = "run by models_and_embedders_are_created_with_keys_from_the_environment"]
    fn child_with_keys() {
        use retain::Model as _;
        let gemini = Gemini::from_env("gemini-2.5-flash").unwrap();
        assert_eq!(gemini.name(), "gemini-2.5-flash");
        assert_eq!(
            Claude::from_env("claude-sonnet-5").unwrap().name(),
            "claude-sonnet-5"
        );
        assert_eq!(OpenAi::from_env("gpt-4o").unwrap().name(), "gpt-4o");
        assert_eq!(
            OpenAi::from_env("ollama/qwen3").unwrap().name(),
            "ollama/qwen3"
        );
        let embedder = GeminiEmbedder::from_env("gemini-embedding-001").unwrap();
        assert_eq!(embedder.dims(), 768);
        let embedder = OpenAiEmbedder::from_env("text-embedding-3-small@512").unwrap();
        assert_eq!(embedder.dims(), 512);
        for name in ["gemini-2.5-flash", "claude-sonnet-5", "gpt-4o"] {
            let agent = LlmAgent::builder("a").model(name).build().unwrap();
            assert_eq!(agent.model().unwrap().name(), name);
        }
    }

    #[test]
    #[ignore = "run by missing_api_key_is_an_error_that_names_the_variable"]
    fn child_without_keys() {
        let error_of = |name| LlmAgent::builder("a").model(name).build().unwrap_err();
        let cases: [(BuildError, &str); 8] = [
            (error_of("gemini-2.5-flash"), "GOOGLE_API_KEY"),
            (error_of("claude-sonnet-5"), "ANTHROPIC_API_KEY"),
            (error_of("gpt-4o"), "OPENAI_API_KEY"),
            (
                Gemini::from_env("gemini-2.5-flash").unwrap_err(),
                "GOOGLE_API_KEY",
            ),
            (
                Claude::from_env("claude-sonnet-5").unwrap_err(),
                "ANTHROPIC_API_KEY",
            ),
            (OpenAi::from_env("gpt-4o").unwrap_err(), "OPENAI_API_KEY"),
            (
                GeminiEmbedder::from_env("gemini-embedding-001").unwrap_err(),
                "GOOGLE_API_KEY",
            ),
            (
                OpenAiEmbedder::from_env("text-embedding-3-small").unwrap_err(),
                "OPENAI_API_KEY",
            ),
        ];
        for (error, variable) in cases {
            assert!(error.to_string().contains(variable), "{error}");
        }
    }
}
