//! The real program exports spans over OTLP to a collector in the test.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::Path,
    sync::{Arc, Mutex},
};

use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{AnyValue, KeyValue, any_value::Value},
    trace::v1::{Span, span::SpanKind},
};
use prost::Message as _;

use super::process::{Server, ServerExit, run_request, serve};

/// The credential that is sent to the collector and must not appear elsewhere.
const KEY: &str = "CANARY-of-the-collector";

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";

const WORDS: &str = "The parrot is called Polly.";

/// One export: the lower-cased head and the body.
type Export = (String, ExportTraceServiceRequest);

/// A collector that accepts everything.
#[derive(Clone)]
struct Collector {
    address: String,
    received: Arc<Mutex<Vec<Export>>>,
}

impl Collector {
    fn start() -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let collector = Collector {
            address: format!("http://{}", listener.local_addr().unwrap()),
            received: Arc::default(),
        };
        let received = Arc::clone(&collector.received);
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                let received = Arc::clone(&received);
                std::thread::spawn(move || receive_exports(socket.unwrap(), &received));
            }
        });
        collector
    }

    fn exports(&self) -> Vec<Export> {
        self.received.lock().unwrap().clone()
    }

    fn spans(&self) -> Vec<Span> {
        let mut spans = Vec::new();
        for (_, export) in self.exports() {
            for resource in export.resource_spans {
                for scope in resource.scope_spans {
                    assert_eq!(scope.scope.unwrap().name, "gcp.vertex.agent");
                    spans.extend(scope.spans);
                }
            }
        }
        spans
    }
}

/// Answers the requests of a connection and records them.
fn receive_exports(socket: TcpStream, received: &Mutex<Vec<Export>>) {
    let mut reader = BufReader::new(socket.try_clone().unwrap());
    let mut writer = socket;
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).unwrap_or(0) == 0 {
                return;
            }
        }
        let head = head.to_ascii_lowercase();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.unwrap().trim().parse().unwrap()];
        reader.read_exact(&mut body).unwrap();
        let export = ExportTraceServiceRequest::decode(&*body).unwrap();
        received.lock().unwrap().push((head, export));
        let _ = writer.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    }
}

/// Starts a server that exports to an address, runs one message, and stops it.
fn run(endpoint: &str, arguments: &[&str]) -> ServerExit {
    let folder = retain_testkit::scratch::folder();
    let server = start_server(folder.path(), endpoint, arguments);
    let traceparent = format!("traceparent: 00-{TRACE}-{CALLER}-01\r\n");
    let answer = server.ask("POST", "/run", &traceparent, &run_request("s1", WORDS));
    assert_eq!(answer.status, 200, "{}", answer.text);
    let ended = server.stop();
    assert!(ended.status.success(), "{}", ended.stderr);
    ended
}

fn start_server(folder: &Path, endpoint: &str, arguments: &[&str]) -> Server {
    let mut command = serve(folder, arguments);
    command
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        .env(
            "OTEL_EXPORTER_OTLP_HEADERS",
            format!("x-collector-key={KEY}"),
        )
        .env("OTEL_SERVICE_NAME", "a-test")
        .env("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=ci");
    Server::start(command)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn value<'a>(attributes: &'a [KeyValue], key: &str) -> Option<&'a Value> {
    let found = attributes.iter().find(|it| it.key == key)?;
    found.value.as_ref()?.value.as_ref()
}

fn find_span<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let found = spans.iter().find(|span| span.name == name);
    found.unwrap_or_else(|| {
        let names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
        panic!("no {name} in {names:?}")
    })
}

#[test]
fn exported_spans_belong_to_the_callers_trace() {
    let collector = Collector::start();
    let ended = run(&collector.address, &[]);
    assert!(!ended.stderr.contains("collector"), "{}", ended.stderr);
    for (head, export) in collector.exports() {
        assert!(head.starts_with("post /v1/traces "), "{head}");
        assert!(head.contains("application/x-protobuf"), "{head}");
        let key = format!("x-collector-key: {}", KEY.to_ascii_lowercase());
        assert!(head.contains(&key), "{head}");
        let attributes = export.resource_spans[0]
            .resource
            .clone()
            .unwrap()
            .attributes;
        let text = |text: &str| Value::StringValue(text.to_owned());
        assert_eq!(value(&attributes, "service.name"), Some(&text("a-test")));
        let place = value(&attributes, "deployment.environment.name");
        assert_eq!(place, Some(&text("ci")));
    }

    let spans = collector.spans();
    let request = find_span(&spans, "POST /run");
    assert_eq!(hex(&request.trace_id), TRACE);
    assert_eq!(hex(&request.parent_span_id), CALLER);
    assert_eq!(request.kind(), SpanKind::Server);
    let status = value(&request.attributes, "http.response.status_code");
    assert_eq!(status, Some(&Value::IntValue(200)));
    let chain = [
        "POST /run",
        "invocation",
        "invoke_agent assistant",
        "call_llm",
    ];
    for (above, below) in chain.iter().zip(&chain[1..]) {
        let (above, below) = (find_span(&spans, above), find_span(&spans, below));
        assert_eq!(below.parent_span_id, above.span_id, "{}", below.name);
        assert_eq!(hex(&below.trace_id), TRACE);
    }
    let call = find_span(&spans, "call_llm");
    let reasons = value(&call.attributes, "gen_ai.response.finish_reasons");
    let is_list = |value: &Value| matches!(value, Value::ArrayValue(_));
    assert!(reasons.is_none_or(is_list), "{reasons:?}");
    let names =
        |span: &Span| -> Vec<String> { span.attributes.iter().map(|it| it.key.clone()).collect() };
    for span in &spans {
        let mut sorted = names(span);
        sorted.sort();
        sorted.dedup();
        assert_eq!(sorted.len(), names(span).len(), "twice in {span:?}");
        assert!(
            !names(span).iter().any(|name| name.starts_with("code.")),
            "{span:?}"
        );
    }
}

/// Returns all exported spans as text.
fn exported_text(collector: &Collector) -> String {
    let value_text = |value: &Option<AnyValue>| format!("{value:?}");
    let spans = collector.spans();
    let texts = spans.iter().flat_map(|span| {
        let attributes = span
            .attributes
            .iter()
            .map(|it| format!("{}={}", it.key, value_text(&it.value)));
        let more = [
            span.name.clone(),
            format!("{:?} {:?}", span.events, span.status),
        ];
        attributes.chain(more).collect::<Vec<_>>()
    });
    texts.collect::<Vec<_>>().join("\n")
}

#[test]
fn message_content_is_exported_only_when_turned_on() {
    let collector = Collector::start();
    let ended = run(&collector.address, &[]);
    let text = exported_text(&collector);
    assert!(text.contains("call_llm"), "{text}");
    for secret in ["Polly", KEY] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
    // Compare whole words, because a random id may contain `ada`.
    let mut words = text.split(|letter: char| !letter.is_ascii_alphanumeric());
    assert!(words.all(|word| word != "ada"), "{text}");
    assert!(!ended.stderr.contains(KEY) && !ended.stderr.contains("Polly"));

    let collector = Collector::start();
    run(&collector.address, &["--capture-message-content"]);
    let text = exported_text(&collector);
    assert!(text.contains("Polly") && !text.contains(KEY), "{text}");
}

#[test]
fn missing_or_hanging_collector_does_not_delay_runs() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", gone.local_addr().unwrap());
    drop(gone);
    let ended = run(&address, &[]);
    let warnings = ended
        .stderr
        .matches("spans do not reach the collector")
        .count();
    assert_eq!(warnings, 1, "{}", ended.stderr);
    assert!(!ended.stderr.contains(KEY), "{}", ended.stderr);

    // A collector that accepts connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    run(&format!("http://{}", silent.local_addr().unwrap()), &[]);
}

#[test]
fn export_timeout_is_read_from_the_environment() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = retain_testkit::scratch::folder();
    let mut command = serve(folder.path(), &[]);
    let address = format!("http://{}", silent.local_addr().unwrap());
    command
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        .env("OTEL_EXPORTER_OTLP_TIMEOUT", "100");
    let server = Server::start(command);
    let answer = server.ask("POST", "/run", "", &run_request("s1", WORDS));
    assert_eq!(answer.status, 200, "{}", answer.text);
    // The export failed with its own timeout, before the shutdown could cancel it.
    let stderr = server.stop().stderr;
    let why = stderr.lines().find(|line| line.contains("do not reach"));
    assert!(why.is_some_and(|why| why.contains("timed out")), "{stderr}");
}

#[test]
fn otel_variables_disable_export() {
    for (name, value) in [
        ("OTEL_SDK_DISABLED", "True"),
        ("OTEL_TRACES_EXPORTER", "none"),
    ] {
        let collector = Collector::start();
        let folder = retain_testkit::scratch::folder();
        let mut command = serve(folder.path(), &[]);
        command
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.address)
            .env(name, value);
        let server = Server::start(command);
        let answer = server.ask("POST", "/run", "", &run_request("s1", WORDS));
        assert_eq!(answer.status, 200, "{}", answer.text);
        server.stop();
        assert!(collector.exports().is_empty(), "{name}={value}");
    }
}

#[test]
fn unsupported_otlp_protocol_is_named_in_the_error() {
    let folder = retain_testkit::scratch::folder();
    let mut command = serve(folder.path(), &[]);
    command
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
    let refused = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success(), "{stderr}");
    assert!(
        stderr.contains("grpc") && stderr.contains("http/protobuf"),
        "{stderr}"
    );
}
