//! Where a server is and how it is reached: what `McpToolset` is made with.

use std::{fmt, path::PathBuf, time::Duration};

/// How long connecting may take where nothing else is said; as in ADK.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an HTTP server may take for an answer where nothing else is said; as in ADK.
const HTTP_CALL_TIMEOUT: Duration = Duration::from_secs(300);

/// A server that tools come from.
#[derive(Debug, Clone, PartialEq)]
pub enum McpServer {
    /// A child process.
    Stdio(StdioServer),
    /// A server of the transport «streamable HTTP».
    Http(HttpServer),
}

impl McpServer {
    /// How long connecting and listing may take.
    pub(crate) fn connect_timeout(&self) -> Duration {
        match self {
            McpServer::Stdio(server) => server.timeout,
            McpServer::Http(server) => server.timeout,
        }
    }

    /// How long a call may take.
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

/// A program that is started for the toolset, spoken to over its standard input and output, and
/// ended with the toolset, together with all that it started.
///
/// Of our environment it gets `HOME`, `LOGNAME`, `PATH`, `SHELL`, `TERM` and `USER`, and nothing
/// else: keys for models are none of its business.
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
    /// The program of that name or path.
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

    /// With arguments.
    pub fn args<T: Into<String>>(mut self, args: impl IntoIterator<Item = T>) -> StdioServer {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// With a variable in its environment.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> StdioServer {
        self.env.push((name.into(), value.into()));
        self
    }

    /// In a folder.
    pub fn cwd(mut self, folder: impl Into<PathBuf>) -> StdioServer {
        self.cwd = Some(folder.into());
        self
    }

    /// How long it may take to come up, and, as in ADK, to answer: 5 seconds, unless you say so. A
    /// program that is downloaded first needs more.
    pub fn timeout(mut self, timeout: Duration) -> StdioServer {
        self.timeout = timeout;
        self
    }

    /// How long it may take to answer a call, where that is not the time in which it comes up.
    pub fn call_timeout(mut self, timeout: Duration) -> StdioServer {
        self.call_timeout = Some(timeout);
        self
    }
}

impl fmt::Debug for StdioServer {
    /// Values of variables and arguments may be keys.
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

/// A server that is reached over HTTP, with the transport «streamable HTTP».
///
/// The transport before it, HTTP+SSE, is not spoken.
#[derive(Clone, PartialEq)]
pub struct HttpServer {
    pub(crate) url: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) timeout: Duration,
    pub(crate) call_timeout: Duration,
    pub(crate) terminates_on_close: bool,
}

impl HttpServer {
    /// The server at this URL.
    pub fn new(url: impl Into<String>) -> HttpServer {
        HttpServer {
            url: url.into(),
            headers: Vec::new(),
            timeout: CONNECT_TIMEOUT,
            call_timeout: HTTP_CALL_TIMEOUT,
            terminates_on_close: true,
        }
    }

    /// With a header in every request, for example `Authorization`. It is sent to this server only:
    /// redirects to others are not followed.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> HttpServer {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// How long connecting and listing may take; 5 seconds, unless you say so.
    pub fn timeout(mut self, timeout: Duration) -> HttpServer {
        self.timeout = timeout;
        self
    }

    /// How long a call may take, and how long nothing may come; 5 minutes, unless you say so.
    pub fn call_timeout(mut self, timeout: Duration) -> HttpServer {
        self.call_timeout = timeout;
        self
    }

    /// Whether the server is told when the session is over. It is, unless you say so.
    pub fn terminate_on_close(mut self, terminate: bool) -> HttpServer {
        self.terminates_on_close = terminate;
        self
    }
}

impl fmt::Debug for HttpServer {
    /// Values of headers, and of a query, may be keys.
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

/// What a server is sent that may be a key. Some servers repeat it when they refuse something.
#[derive(Clone, Default)]
pub(crate) struct Secrets(Vec<String>);

/// Shorter values are no keys, and would be taken out of words.
const SECRET_MIN: usize = 6;

impl Secrets {
    pub(crate) fn of(server: &McpServer) -> Secrets {
        let McpServer::Http(server) = server else {
            // What a child process is given is its own to tell.
            return Secrets::default();
        };
        let values = server.headers.iter().map(|(_, value)| value.as_str());
        // «Bearer …»: the key may be repeated without that word.
        let values = values.flat_map(|value| [Some(value), value.split_whitespace().next_back()]);
        let url = server.url.split('#').next().unwrap_or_default();
        let (place, query) = url.split_once('?').unwrap_or((url, ""));
        let query = query
            .split('&')
            .map(|pair| pair.split_once('=').map(|it| it.1));
        let rest = place.split_once("://").map_or(place, |it| it.1);
        let authority = rest.split('/').next().unwrap_or_default();
        let login = authority.rsplit_once('@').map(|it| it.0);
        let password = login.and_then(|login| login.split_once(':')).map(|it| it.1);
        let all = values.chain(query).chain([password]).flatten();
        let mut all: Vec<String> = all
            .filter(|it| it.len() >= SECRET_MIN)
            .map(str::to_owned)
            .collect();
        // What holds another one goes first.
        all.sort_by_key(|it| std::cmp::Reverse(it.len()));
        Secrets(all)
    }

    /// The text with none of them in it.
    pub(crate) fn without(&self, text: &str) -> String {
        let text = text.to_owned();
        self.0.iter().fold(text, |text, it| text.replace(it, "…"))
    }
}

/// A URL without its query and without a name and password.
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
    fn what_may_be_secret_is_not_shown() {
        let server = HttpServer::new("https://me:canary-1@host:8/mcp?key=canary-2#canary-3")
            .header("Authorization", "Bearer canary-4");
        let shown = format!("{server:?}");
        assert!(!shown.contains("canary"), "{shown}");
        assert!(shown.contains("https://host:8/mcp"), "{shown}");
        assert!(shown.contains("Authorization"), "{shown}");
        let server = StdioServer::new("serve")
            .args(["--key=canary-1"])
            .env("KEY", "canary-2");
        let shown = format!("{server:?}");
        assert!(!shown.contains("canary"), "{shown}");
        assert!(shown.contains("serve") && shown.contains("KEY"), "{shown}");
    }

    #[test]
    fn what_may_be_secret_is_taken_out_of_what_is_said() {
        let server = HttpServer::new("https://me:canary-1@host:8/mcp?n=1&key=canary-2#f")
            .header("Authorization", "Bearer canary-4")
            .header("X-Short", "on");
        let secrets = Secrets::of(&server.into());
        let said = "canary-1 canary-2 [Bearer canary-4] (canary-4) on 1";
        assert_eq!(secrets.without(said), "… … […] (…) on 1");
        let process = StdioServer::new("serve").env("FOLDER", "documents");
        let said = "no documents";
        assert_eq!(Secrets::of(&process.into()).without(said), said);
    }

    #[test]
    fn a_child_process_answers_in_the_time_in_which_it_comes_up() {
        let server = StdioServer::new("x").timeout(Duration::from_secs(9));
        assert_eq!(
            McpServer::from(server.clone()).call_timeout(),
            Duration::from_secs(9)
        );
        let server = server.call_timeout(Duration::from_secs(70));
        assert_eq!(
            McpServer::from(server).call_timeout(),
            Duration::from_secs(70)
        );
    }
}
