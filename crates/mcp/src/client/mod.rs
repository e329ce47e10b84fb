//! The protocol layer: sessions whose answers are JSON. Only this module uses the MCP library, so a
//! new major version of the library affects only this folder.

mod child;
mod errors;
mod group;
mod http;
mod trace;

use std::sync::Arc;

use futures_util::FutureExt as _;
use retain_core::{Json, JsonMap};
use rmcp::{
    Peer, RoleClient, ServiceError,
    model::{
        CallToolRequest, CallToolRequestParams, CancelledNotification, CancelledNotificationParam,
        ClientCapabilities, ClientConfig, ClientRequest, Implementation, ReadResourceRequestParams,
        RequestId, ResourceContents, ServerResult,
    },
    service::{PeerRequestOptions, RunningService, serve_client},
};
use serde::Serialize;
use tokio::{
    sync::Mutex,
    task::JoinSet,
    time::{Duration, timeout},
};

use crate::{
    failure::{Failure, FailureKind},
    server::{McpServer, Secrets},
};
use child::{ChildProcess, SentCalls};
pub use group::exit_at_once;
pub(crate) use http::check_headers;

/// Timeout for closing a session. It exceeds the time that a child process gets to exit.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// A tool as the server describes it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ServerTool {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) input_schema: Json,
    pub(crate) output_schema: Option<Json>,
    /// The complete JSON of the tool, as received.
    pub(crate) wire: Json,
}

/// A resource of a server.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ServerResource {
    pub(crate) name: String,
    pub(crate) uri: String,
}

/// The contents of a resource.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ResourceBody {
    Text(String),
    /// Base64 data with its MIME type.
    Blob(String, Option<String>),
    Unknown,
}

/// An initialized session with a server.
pub(crate) struct Session {
    peer: Peer<RoleClient>,
    running: Mutex<Option<RunningService<RoleClient, ClientConfig>>>,
    /// Calls sent to a child process. `None` for HTTP, where errors tell whether a call was
    /// received.
    sent: Option<SentCalls>,
    secrets: Secrets,
}

impl Session {
    /// Connects to the server and initializes the session.
    ///
    /// This runs in a separate task, which is cancelled with the caller. The library holds the
    /// current span for the lifetime of the session, so otherwise the span of the first run would
    /// not end before the session.
    pub(crate) async fn connect(server: &McpServer) -> Result<Session, Failure> {
        let limit = server.connect_timeout();
        let mut task = JoinSet::new();
        let server = server.clone();
        task.spawn(async move {
            let started = timeout(limit, Session::start(&server)).await;
            started.map_err(|_| Failure::connect_timed_out(limit))?
        });
        let started = task.join_next().await;
        started.and_then(Result::ok).unwrap_or_else(|| {
            let message = "cannot open the session: its task was cancelled or panicked";
            Err(Failure::new(FailureKind::ConnectFailed, message))
        })
    }

    async fn start(server: &McpServer) -> Result<Session, Failure> {
        let (mut sent, secrets) = (None, Secrets::from_server(server));
        let started = match server {
            McpServer::Stdio(server) => {
                let child = ChildProcess::spawn(server)?;
                sent = Some(child.sent());
                serve_client(client_config(), child).await
            }
            McpServer::Http(server) => {
                serve_client(client_config(), http::transport(server)?).await
            }
        };
        let running = started.map_err(|error| errors::from_initialize_error(&error, &secrets))?;
        Ok(Session {
            peer: running.peer().clone(),
            running: Mutex::new(Some(running)),
            sent,
            secrets,
        })
    }

    /// Whether the session is known to be closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.peer.is_transport_closed()
    }

    /// Lists all tools of the server, in its order.
    pub(crate) async fn tools(&self, limit: Duration) -> Result<Vec<ServerTool>, Failure> {
        let tools = self
            .request("tools/list", limit, self.peer.list_all_tools())
            .await?;
        tools.iter().map(server_tool).collect()
    }

    /// Lists all resources of the server, in its order.
    pub(crate) async fn resources(&self, limit: Duration) -> Result<Vec<ServerResource>, Failure> {
        let listed = self
            .request("resources/list", limit, self.peer.list_all_resources())
            .await?;
        let resource = |it: rmcp::model::Resource| ServerResource {
            name: it.name,
            uri: it.uri,
        };
        Ok(listed.into_iter().map(resource).collect())
    }

    /// Reads a resource.
    pub(crate) async fn read(
        &self,
        uri: &str,
        limit: Duration,
    ) -> Result<Vec<ResourceBody>, Failure> {
        let response = self.peer.read_resource(ReadResourceRequestParams::new(uri));
        let read = self.request("resources/read", limit, response).await?;
        Ok(read.contents.into_iter().map(body_of).collect())
    }

    /// Calls a tool and returns its result in protocol form.
    ///
    /// If the caller is cancelled or the call times out, the server receives a cancellation.
    pub(crate) async fn call(
        &self,
        tool: &str,
        args: &JsonMap,
        limit: Duration,
    ) -> Result<Json, Failure> {
        let arguments = args
            .iter()
            .map(|(name, value)| (name.to_owned(), value.into()))
            .collect();
        let mut params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        params.meta = trace::meta();
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let handle = self
            .peer
            .send_cancellable_request(request, PeerRequestOptions::no_options())
            .await
            // The request was not queued yet.
            .map_err(|_| Failure::new(FailureKind::NotDelivered, errors::CLOSED))?;
        let mut pending = PendingCall {
            session: self,
            id: handle.id.clone(),
            is_completed: false,
        };
        let answer = timeout(limit, handle.await_response()).await;
        let answer = answer.map_err(|_| Failure::call_timed_out("tools/call"))?;
        pending.is_completed = true;
        let may_have_arrived = pending.stop_tracking();
        match answer {
            Ok(ServerResult::CallToolResult(result)) => json_of(&result),
            Ok(_) => Err(errors::invalid_answer()),
            Err(ServiceError::TransportClosed) if !may_have_arrived => {
                Err(Failure::new(FailureKind::NotDelivered, errors::CLOSED))
            }
            Err(error) => Err(errors::from_request_error(&error, &self.secrets)),
        }
    }

    /// Sends a request other than a tool call. A working server answers these quickly, so a timeout
    /// ends the session.
    async fn request<T>(
        &self,
        method: &str,
        limit: Duration,
        response: impl Future<Output = Result<T, ServiceError>>,
    ) -> Result<T, Failure> {
        let answer = timeout(limit, response).await;
        let answer = answer.map_err(|_| Failure::request_timed_out(method))?;
        answer.map_err(|error| errors::from_request_error(&error, &self.secrets))
    }

    /// Closes the session: ends the child process, or the session on the HTTP server.
    pub(crate) async fn close(&self) {
        // Take the session out of the mutex first, so that no other caller waits while it closes.
        let running = self.running.lock().await.take();
        if let Some(mut running) = running {
            // If the server does not react in time, dropping the session still ends the child
            // process or connection.
            let _ = running.close_with_timeout(CLOSE_TIMEOUT).await;
        }
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_struct("Session");
        debug.field("is_closed", &self.is_closed());
        debug.finish_non_exhaustive()
    }
}

/// A call that the server is executing. Dropping it before it has completed sends a cancellation.
struct PendingCall<'s> {
    session: &'s Session,
    id: RequestId,
    is_completed: bool,
}

impl PendingCall<'_> {
    /// Stops tracking the call. Returns whether it may have reached the server.
    fn stop_tracking(&self) -> bool {
        let sent = self.session.sent.as_ref();
        sent.is_none_or(|sent| sent.remove(&self.id))
    }
}

impl Drop for PendingCall<'_> {
    fn drop(&mut self) {
        if self.is_completed {
            return;
        }
        self.stop_tracking();
        let reason = "the caller no longer waits for the answer".to_owned();
        let params = CancelledNotificationParam::new(Some(self.id.clone()), Some(reason));
        let cancelled = CancelledNotification::new(params);
        // One poll queues the notification. `drop` cannot wait until it is sent.
        let sending = self.session.peer.send_notification(cancelled.into());
        let _ = sending.now_or_never();
    }
}

fn client_config() -> ClientConfig {
    let implementation = Implementation::new("retain", env!("CARGO_PKG_VERSION"));
    ClientConfig::new(ClientCapabilities::default(), implementation)
}

fn server_tool(tool: &rmcp::model::Tool) -> Result<ServerTool, Failure> {
    let schema = |schema: &Arc<rmcp::model::JsonObject>| {
        let pairs = schema.iter();
        let pairs = pairs.map(|(key, value)| (key.clone(), Json::from(value.clone())));
        Json::from(pairs.collect::<JsonMap>())
    };
    Ok(ServerTool {
        name: tool.name.to_string(),
        description: tool.description.as_deref().unwrap_or_default().to_owned(),
        input_schema: schema(&tool.input_schema),
        output_schema: tool.output_schema.as_ref().map(schema),
        wire: json_of(tool)?,
    })
}

fn body_of(contents: ResourceContents) -> ResourceBody {
    match contents {
        ResourceContents::TextResourceContents { text, .. } => ResourceBody::Text(text),
        ResourceContents::BlobResourceContents {
            blob, mime_type, ..
        } => ResourceBody::Blob(blob, mime_type),
        _ => ResourceBody::Unknown,
    }
}

/// Converts through JSON text, because a direct conversion would widen the library's 32-bit floats:
/// 0.7 would become 0.699999988.
fn json_of(value: &impl Serialize) -> Result<Json, Failure> {
    let text = serde_json::to_string(value).ok();
    let json = text.and_then(|text| Json::parse(&text).ok());
    json.ok_or_else(errors::invalid_answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::StdioServer;

    /// A server that initializes, lists no tools, and never answers any other request.
    const SILENT: &str = r#"
answer() {
  id=$(printf %s "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"
}
read -r line
answer '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}'
read -r line
while read -r line; do
  case $line in *tools/list*) answer '{"tools":[]}' ;; esac
done
"#;

    /// A session may last as long as the program, so data that it kept for each request would
    /// accumulate.
    #[tokio::test]
    async fn session_stops_tracking_a_call_that_has_ended() {
        let long = Duration::from_secs(60);
        let server = StdioServer::new("sh")
            .with_args(["-c", SILENT])
            .with_timeout(long);
        let session = Session::connect(&server.into()).await.unwrap();
        let sent = session.sent.clone().unwrap();
        assert_eq!(session.tools(long).await.unwrap(), []);
        assert_eq!(sent.len(), 0, "after a list");
        let args = JsonMap::new();
        let call = session.call("echo", &args, Duration::from_millis(50));
        assert_eq!(call.await, Err(Failure::call_timed_out("tools/call")));
        assert_eq!(sent.len(), 0, "after a call that timed out");
        let call = session.call("echo", &args, long);
        let waits = timeout(Duration::from_millis(50), call).await;
        assert!(waits.is_err());
        assert_eq!(sent.len(), 0, "after a cancelled call");
    }
}
