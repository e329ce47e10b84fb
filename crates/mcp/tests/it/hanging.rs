//! Servers that hang, fail to start or have reserved tool names: no run waits forever, and no
//! process is left running.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use retain_mcp::{McpToolset, StdioServer};
use retain_runtime::{ScriptedModel, Toolset as _, telemetry::SPANS};
use tracing::{Id, Subscriber, span::Attributes};
use tracing_subscriber::{
    Layer, filter::filter_fn, layer::Context, layer::SubscriberExt as _,
    util::SubscriberInitExt as _,
};

use crate::support::{AgentRun, LONG, call, child_process, is_alive, wait_until_ended};

/// The start of a shell script that acts as a server: it defines `answer` and records its process
/// id.
const PRELUDE: &str = r#"
answer() {
  id=$(printf %s "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"
}
echo $$ >>pids
"#;
/// Lines of a server that initializes and lists one tool.
const LIST_ONE_TOOL: &str = r#"
read -r line
answer '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}'
read -r line
read -r line
answer '{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}'
"#;

fn script(folder: &Path, lines: &str) -> StdioServer {
    StdioServer::new("sh")
        .with_args(["-c", &format!("{PRELUDE}{lines}")])
        .with_cwd(folder)
        .with_timeout(LONG)
}

fn pids(folder: &Path) -> Vec<String> {
    let pids = std::fs::read_to_string(folder.join("pids")).unwrap_or_default();
    pids.lines().map(str::to_owned).collect()
}

/// Returns an argument larger than any pipe buffer.
fn large_arguments() -> String {
    format!(r#"{{"text":"{}"}}"#, "x".repeat(1 << 20))
}

#[tokio::test]
async fn server_process_that_reads_nothing_ends_with_its_toolset() {
    // Each check waits for the server to be killed, so run them concurrently.
    join_all([true, false].map(check_termination)).await;
}

/// Checks that a server that stops reading ends when its toolset is closed or dropped.
async fn check_termination(closes: bool) {
    let folder = retain_testkit::scratch::folder();
    let lines = format!("{LIST_ONE_TOOL}\nexec sleep 600");
    let server = script(folder.path(), &lines).with_call_timeout(Duration::from_millis(100));
    let set = Arc::new(McpToolset::new(server));
    let run = AgentRun::calling_tool(&set, "echo", &large_arguments()).await;
    let expected = "MCP tool execution failed: Request 'tools/call' timed out";
    assert_eq!(run.error(), expected);
    let server = &pids(folder.path())[0];
    if closes {
        set.close().await;
        assert!(!is_alive(server), "the server is still running");
    } else {
        // The recorded requests hold references to the tools, and so to the toolset.
        drop((set, run));
        wait_until_ended(server).await;
    }
}

#[tokio::test]
async fn runs_share_the_failure_of_a_server_that_does_not_start() {
    let folder = retain_testkit::scratch::folder();
    let failing = "while [ ! -e go ]; do sleep 0.01; done; exit 1";
    let set = Arc::new(McpToolset::new(script(folder.path(), failing)));
    let start_run = || AgentRun::with_model(&set, ScriptedModel::new("m").otherwise(|_| "Done."));
    // Let the server fail only once all runs wait for it.
    let release = async {
        while pids(folder.path()).is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        std::fs::write(folder.path().join("go"), "").unwrap();
    };
    let (runs, ()) = tokio::join!(join_all((0..5).map(|_| start_run())), release);
    for run in runs {
        assert_eq!(run.tools(), Vec::<String>::new());
    }
    // All runs shared two attempts: the first one and its retry.
    assert_eq!(pids(folder.path()).len(), 2);
    // A later run tries again: one attempt and its retry.
    start_run().await;
    assert_eq!(pids(folder.path()).len(), 4);
}

/// The first server in a folder hangs when it receives the method `HANGS`. The next one answers.
const HANGING: &str = r#"
hangs=nothing
if mkdir first 2>/dev/null; then hangs=HANGS; fi
while read -r line; do
  case $line in
  *"$hangs"*) echo hangs >>hung; exec sleep 600 ;;
  *'"initialize"'*) answer '{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"resources":{}},
    "serverInfo":{"name":"s","version":"1"}}' ;;
  *tools/list*) answer '{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}' ;;
  *resources/list*) answer '{"resources":[{"name":"poem","uri":"x:poem"}]}' ;;
  *resources/read*) answer '{"contents":[{"uri":"x:poem","text":"Roses are red."}]}' ;;
  esac
done
"#;

#[tokio::test]
async fn hanging_child_process_is_restarted() {
    let methods = ["tools/list", "resources/list", "resources/read"];
    // Each check waits for a timeout, so run them concurrently.
    join_all(methods.map(check_replacement)).await;
}

/// Checks that a run succeeds although the first server hangs in `method`.
async fn check_replacement(method: &str) {
    let folder = retain_testkit::scratch::folder();
    // A message must be on one line.
    let lines = HANGING.replace("},\n    ", "},").replace("HANGS", method);
    let server = script(folder.path(), &lines).with_timeout(Duration::from_secs(3));
    let set = Arc::new(McpToolset::new(server).use_mcp_resources());
    let poem = call("load_mcp_resource", r#"{"resource_names":["poem"]}"#);
    let model = ScriptedModel::new("m").reply(poem);
    let run = AgentRun::with_model(&set, model.otherwise(|_| "Done.")).await;
    assert_eq!(run.tools(), ["echo", "load_mcp_resource"], "{method}");
    let contents = &run.requests[1].contents;
    let last = contents.last().map(|it| it.parts().to_vec()).unwrap();
    let read = last.last().and_then(|part| part.text.as_deref());
    assert_eq!(read, Some("Roses are red."), "{method}");
    assert!(
        folder.path().join("hung").exists(),
        "{method} was not requested"
    );
    let pids = pids(folder.path());
    wait_until_ended(&pids[0]).await;
    set.close().await;
}

#[tokio::test]
async fn tool_whose_prefixed_name_is_reserved_is_dropped() {
    let folder = retain_testkit::scratch::folder();
    let lines = LIST_ONE_TOOL.replace("echo", "to_agent").replace(
        r#""inputSchema":{"type":"object"}}"#,
        r#""inputSchema":{"type":"object"}},{"name":"echo","inputSchema":{"type":"object"}}"#,
    );
    let server = script(folder.path(), &format!("{lines}\nexec sleep 600"));
    let set = McpToolset::new(server).with_tool_name_prefix("transfer");
    let model = ScriptedModel::new("m").otherwise(|_| "Done.");
    let run = AgentRun::with_model(&Arc::new(set), model).await;
    assert_eq!(run.tools(), ["transfer_echo"]);
}

/// Counts run spans: those still open, and all.
#[derive(Debug, Clone, Default)]
struct SpanCounter {
    open: Arc<AtomicUsize>,
    all: Arc<AtomicUsize>,
}

impl<S: Subscriber> Layer<S> for SpanCounter {
    fn on_new_span(&self, _: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        self.open.fetch_add(1, Ordering::SeqCst);
        self.all.fetch_add(1, Ordering::SeqCst);
    }

    fn on_close(&self, _: Id, _: Context<'_, S>) {
        self.open.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Runs on one thread, because the subscriber is set for this thread only.
#[tokio::test]
async fn run_spans_end_although_the_connection_stays_open() {
    let spans = SpanCounter::default();
    let run_spans = spans
        .clone()
        .with_filter(filter_fn(|about| about.target() == SPANS));
    // Enable the MCP library's spans and events too: only then does the library hold the current
    // span.
    let everything = tracing_subscriber::fmt::layer().with_writer(std::io::sink);
    let registry = tracing_subscriber::registry()
        .with(run_spans)
        .with(everything);
    retain_testkit::callsites::enable_for_all_threads();
    let _guard = registry.set_default();
    let folder = retain_testkit::scratch::folder();
    let set = Arc::new(McpToolset::new(child_process(folder.path())));
    let text = AgentRun::calling_tool(&set, "echo", r#"{"text":"hello"}"#).await;
    assert_eq!(text.text(), "hello");
    assert!(spans.all.load(Ordering::SeqCst) > 3, "{spans:?}");
    let ended = async {
        while spans.open.load(Ordering::SeqCst) > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let ended = tokio::time::timeout(Duration::from_secs(10), ended).await;
    assert!(ended.is_ok(), "spans are still open: {spans:?}");
    set.close().await;
}
