//! The log has the kind of each failure and no text of users, tools or models.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
};

use retain_runtime::{FunctionTool, LlmAgent, ToolContext, ToolError};
use tracing_subscriber::fmt::MakeWriter;

use crate::adk::support::{
    FilingModel, GatedModel, ask, gated_agent, message, server, with_session,
};

/// Captured log output.
#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        log.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Log;

    fn make_writer(&'a self) -> Log {
        self.clone()
    }
}

/// Starts two runs that fail, and returns their log.
async fn log_of_failed_runs(agent: LlmAgent, level: tracing::Level) -> String {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_ansi(false)
        .with_writer(log.clone())
        .finish();
    retain_testkit::callsites::enable_for_all_threads();
    let _guard = tracing::subscriber::set_default(subscriber);
    let server = server(agent);
    with_session(&server).await;
    for path in ["/run", "/run_sse"] {
        let answer = ask(&server, "POST", path, &message("please fail", "")).await;
        let is_late = answer.status == 200 && answer.text.contains("\"error\"");
        assert!(answer.status == 500 || is_late, "{answer:?}");
    }
    log.text()
}

/// Whether the log has this word. Substrings do not count: a random id may contain `ada`.
fn contains_word(log: &str, word: &str) -> bool {
    log.split(|c: char| !c.is_ascii_alphanumeric())
        .any(|w| w == word)
}

/// Returns an agent whose only tool fails with its own error text.
fn failing_agent() -> LlmAgent {
    let file = FunctionTool::untyped("file", "Files.", None, |_: ToolContext, _| async {
        Err(ToolError::new("Grete's IBAN\nis not known"))
    });
    let agent = LlmAgent::builder("clerk").model(FilingModel).tool(file);
    agent.build().expect("an agent")
}

#[tokio::test]
async fn error_details_are_logged_at_debug_level_only() {
    let agents = || [failing_agent(), gated_agent(&GatedModel::new())];
    let words = ["IBAN", "out of service"];
    for (agent, words) in agents().into_iter().zip(words) {
        let log = log_of_failed_runs(agent, tracing::Level::INFO).await;
        assert!(log.contains("a request failed"), "{log}");
        assert!(log.contains("a run failed"), "{log}");
        assert!(!log.contains(words), "{log}");
        assert!(!contains_word(&log, "ada"), "{log}");
    }
    for (agent, words) in agents().into_iter().zip(words) {
        let log = log_of_failed_runs(agent, tracing::Level::DEBUG).await;
        assert!(log.contains(words), "{log}");
        assert!(!log.contains("IBAN\n"), "the error is on one line: {log}");
    }
}
