//! The configuration of the server of an `McpToolset`: its location, credentials and timeouts.

use std::{fmt, path::PathBuf, time::Duration};

use percent_encoding::percent_decode_str;
use retain_core::Bytes;

/// Default timeout for connecting, as in ADK.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Default timeout for an answer of an HTTP server, as in ADK.
const HTTP_CALL_TIMEOUT: Duration = Duration::from_secs(300);

/// A server that provides tools.
#[derive(Debug, Clone, PartialEq)]
pub enum McpServer {
    /// A child process.
    Stdio(StdioServer),
    /// A server with the "streamable HTTP" transport.
    Http(HttpServer),
}

impl McpServer {
    /// Returns the timeout for connecting and listing.
    pub(crate) fn connect_timeout(&self) -> Duration {
        match self {
            McpServer::Stdio(server) => server.timeout,
            McpServer::Http(server) => server.timeout,
        }
    }

    /// Returns the timeout for a call.
    pub(crate) fn call_timeout(&self) -> Duration {
        match self {
            McpServer::Stdio(server) => server.call_timeout.unwrap_or(server.timeout),
            McpServer::Http(server) => server.call_timeout,
        }
    }
}

impl From<StdioServer> for McpServer {
    fn from(server: StdioServer) -> McpServer {
        McpServer::Stdio(server)
    }
}

impl From<HttpServer> for McpServer {
    fn from(server: HttpServer) -> McpServer {
        McpServer::Http(server)
    }
}

/// A program that the toolset starts and talks to over standard input and output. It ends with the
/// toolset, together with all processes that it started.
///
/// It inherits only `HOME`, `LOGNAME`, `PATH`, `SHELL`, `TERM` and `USER` from the environment,
/// because it must not see API keys of models.
#[derive(Clone, PartialEq)]
pub struct StdioServer {
    pub(crate) command: String,
    pub(crate) args: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) timeout: Duration,
    pub(crate) call_timeout: Option<Duration>,
}

impl StdioServer {
    /// Creates a server from the name or path of a program.
    pub fn new(command: impl Into<String>) -> StdioServer {
        StdioServer {
            command: command.into(),
            args: Vec::new(),
            env: Vec::new(),
            cwd: None,
            timeout: CONNECT_TIMEOUT,
            call_timeout: None,
        }
    }

    /// Adds arguments.
    pub fn with_args<T: Into<String>>(mut self, args: impl IntoIterator<Item = T>) -> StdioServer {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable.
    pub fn with_env(mut self, name: impl Into<String>, value: impl Into<String>) -> StdioServer {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Sets the working folder.
    pub fn with_cwd(mut self, folder: impl Into<PathBuf>) -> StdioServer {
        self.cwd = Some(folder.into());
        self
    }

    /// Sets the timeout for startup and, as in ADK, for answers (default: 5 seconds). A program
    /// that must be downloaded first needs more.
    pub fn with_timeout(mut self, timeout: Duration) -> StdioServer {
        self.timeout = timeout;
        self
    }

    /// Sets the timeout for answers to calls, if it differs from the startup timeout.
    pub fn with_call_timeout(mut self, timeout: Duration) -> StdioServer {
        self.call_timeout = Some(timeout);
        self
    }
}

impl fmt::Debug for StdioServer {
    /// Omits the values of variables and arguments, which may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.env.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("StdioServer")
            .field("command", &self.command)
            .field("args", &self.args.len())
            .field("env", &names)
            .field("cwd", &self.cwd)
            .field("timeout", &self.timeout)
            .field("call_timeout", &self.call_timeout)
            .finish()
    }
}

/// A server over HTTP with the "streamable HTTP" transport.
///
/// The older HTTP+SSE transport is not supported.
#[derive(Clone, PartialEq)]
pub struct HttpServer {
    pub(crate) url: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) timeout: Duration,
    pub(crate) call_timeout: Duration,
    pub(crate) terminates_on_close: bool,
}

impl HttpServer {
    /// Creates a server with this URL.
    pub fn new(url: impl Into<String>) -> HttpServer {
        HttpServer {
            url: url.into(),
            headers: Vec::new(),
            timeout: CONNECT_TIMEOUT,
            call_timeout: HTTP_CALL_TIMEOUT,
            terminates_on_close: true,
        }
    }

    /// Adds a header to every request, for example `Authorization`. It is sent only to this server:
    /// redirects to other hosts are not followed.
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<String>) -> HttpServer {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets the timeout for connecting and listing (default: 5 seconds).
    pub fn with_timeout(mut self, timeout: Duration) -> HttpServer {
        self.timeout = timeout;
        self
    }

    /// Sets the timeout for a call and for reading from a stream (default: 5 minutes).
    pub fn with_call_timeout(mut self, timeout: Duration) -> HttpServer {
        self.call_timeout = timeout;
        self
    }

    /// Sets whether the session is terminated on the server when it closes (default: true).
    pub fn with_terminate_on_close(mut self, terminate: bool) -> HttpServer {
        self.terminates_on_close = terminate;
        self
    }
}

impl fmt::Debug for HttpServer {
    /// Omits the values of headers and of the URL query, which may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("HttpServer")
            .field("url", &without_secrets(&self.url))
            .field("headers", &names)
            .field("timeout", &self.timeout)
            .field("call_timeout", &self.call_timeout)
            .field("terminates_on_close", &self.terminates_on_close)
            .finish()
    }
}

/// The values in a request that may be secrets. They are redacted, because some servers repeat them
/// in error messages.
#[derive(Clone, Default)]
pub(crate) struct Secrets(Vec<String>);

/// Minimum length of a secret. Redacting shorter values would change ordinary words.
const SECRET_MIN: usize = 6;

impl Secrets {
    pub(crate) fn from_server(server: &McpServer) -> Secrets {
        let McpServer::Http(server) = server else {
            // Nothing to redact: a child process may print its own configuration.
            return Secrets::default();
        };
        let headers = server
            .headers
            .iter()
            .flat_map(|(_, value)| header_secrets(value));
        let mut all: Vec<String> = headers.chain(url_secrets(&server.url)).collect();
        all.retain(|it| it.len() >= SECRET_MIN);
        // Redact longer values first, because they may contain shorter ones.
        all.sort_by_key(|it| std::cmp::Reverse(it.len()));
        Secrets(all)
    }

    /// Redacts all secrets in the text.
    pub(crate) fn redact(&self, text: &str) -> String {
        let text = text.to_owned();
        self.0.iter().fold(text, |text, it| text.replace(it, "…"))
    }
}

fn header_secrets(value: &str) -> Vec<String> {
    // Redact the credential without its scheme too: a server may repeat it without `Bearer`.
    let key = value.split_whitespace().next_back().unwrap_or_default();
    let mut all = vec![value.to_owned(), key.to_owned()];
    let is_basic = value
        .get(..6)
        .is_some_and(|it| it.eq_ignore_ascii_case("basic "));
    let login = Bytes::from_base64(key).filter(|_| is_basic);
    if let Some(login) = login.and_then(|it| String::from_utf8(it.to_vec()).ok()) {
        all.extend(login_secrets(&login));
    }
    all
}

/// Returns the user name, password and query values of a URL, as written and decoded.
fn url_secrets(url: &str) -> Vec<String> {
    let url = url.split('#').next().unwrap_or_default();
    let (address, query) = url.split_once('?').unwrap_or((url, ""));
    let values = query
        .split('&')
        .filter_map(|pair| Some(pair.split_once('=')?.1));
    let mut all: Vec<String> = values
        .flat_map(|value| {
            [
                value.to_owned(),
                percent_decode(value),
                percent_decode(&value.replace('+', " ")),
            ]
        })
        .collect();
    let rest = address.split_once("://").map_or(address, |it| it.1);
    let authority = rest.split('/').next().unwrap_or_default();
    if let Some((login, _)) = authority.rsplit_once('@') {
        let login = match login.contains(':') {
            true => login.to_owned(),
            // Without a password, the login is sent with a trailing colon.
            false => format!("{login}:"),
        };
        all.extend(login_secrets(&login));
        all.extend(login_secrets(&percent_decode(&login)));
    }
    all
}

/// Returns the user name and the password: separately, together, and in base64 as for
/// `Authorization: Basic`.
fn login_secrets(login: &str) -> Vec<String> {
    let (name, password) = login.split_once(':').unwrap_or((login, ""));
    let encoded = Bytes::from(login.as_bytes()).to_base64();
    let encoded = encoded.trim_end_matches('=');
    let encoded = encoded.replace('-', "+").replace('_', "/");
    vec![
        encoded,
        login.to_owned(),
        name.to_owned(),
        password.to_owned(),
    ]
}

/// Percent-decodes a text. A `%` without two hexadecimal digits is kept.
fn percent_decode(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// Removes the query, user name and password from a URL.
pub(crate) fn without_secrets(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let (authority, path) = match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_hides_secrets() {
        let server = HttpServer::new("https://me:canary-1@host:8/mcp?key=canary-2#canary-3")
            .with_header("Authorization", "Bearer canary-4");
        let debug = format!("{server:?}");
        assert!(!debug.contains("canary"), "{debug}");
        assert!(debug.contains("https://host:8/mcp"), "{debug}");
        assert!(debug.contains("Authorization"), "{debug}");
        let server = StdioServer::new("serve")
            .with_args(["--key=canary-1"])
            .with_env("KEY", "canary-2");
        let debug = format!("{server:?}");
        assert!(!debug.contains("canary"), "{debug}");
        assert!(debug.contains("serve") && debug.contains("KEY"), "{debug}");
    }

    #[test]
    fn error_texts_contain_no_secrets() {
        let server = HttpServer::new("https://me:canary-1@host:8/mcp?n=1&key=canary-2#f")
            .with_header("Authorization", "Bearer canary-4")
            .with_header("X-Short", "on");
        let secrets = Secrets::from_server(&server.into());
        let message = "canary-1 canary-2 [Bearer canary-4] (canary-4) on 1";
        assert_eq!(secrets.redact(message), "… … […] (…) on 1");
        // The client sends user name and password as one value, and servers decode query values.
        let server = HttpServer::new("https://canary-5:canary%2D6@host/?key=canary%2F7+8&n=%zz%4");
        let secrets = Secrets::from_server(&server.into());
        let login = "Basic Y2FuYXJ5LTU6Y2FuYXJ5LTY= Y2FuYXJ5LTU6Y2FuYXJ5LTY";
        assert_eq!(secrets.redact(login), "Basic …= …");
        let message = "canary-5 canary-6 canary%2D6 canary/7 8 canary%2F7+8 canary-5:canary-6";
        assert_eq!(secrets.redact(message), "… … … … … …");
        let keyed = HttpServer::new("https://canary-key@host/");
        let secrets = Secrets::from_server(&keyed.into());
        assert_eq!(secrets.redact("Basic Y2FuYXJ5LWtleTo="), "Basic …=");
        // The server can decode the login in a header.
        let basic = HttpServer::new("https://host/")
            .with_header("Authorization", "Basic Y2FuYXJ5LTU6Y2FuYXJ5LTY=");
        let secrets = Secrets::from_server(&basic.into());
        assert_eq!(secrets.redact("canary-5 canary-6"), "… …");
        let process = StdioServer::new("serve").with_env("FOLDER", "documents");
        let message = "no documents";
        assert_eq!(
            Secrets::from_server(&process.into()).redact(message),
            message
        );
    }

    #[test]
    fn call_timeout_of_a_child_process_defaults_to_its_connect_timeout() {
        let server = StdioServer::new("x").with_timeout(Duration::from_secs(9));
        assert_eq!(
            McpServer::from(server.clone()).call_timeout(),
            Duration::from_secs(9)
        );
        let server = server.with_call_timeout(Duration::from_secs(70));
        assert_eq!(
            McpServer::from(server).call_timeout(),
            Duration::from_secs(70)
        );
    }
}
