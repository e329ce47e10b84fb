//! Host and Origin checks as in ADK 2.13, and CORS for the allowed origins.
//!
//! A page of another site must neither read from nor write to this server, not even through a host
//! name of its own that resolves to this machine (DNS rebinding). Programs other than browsers send
//! no `Origin` and pass.

use std::{collections::HashSet, net::IpAddr};

use axum::{
    extract::Request,
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use regex::Regex;

use super::fault;

/// The prefix of a pattern in `--allow-origins`.
const PATTERN: &str = "regex:";

/// An invalid allowed origin.
#[derive(Debug, thiserror::Error)]
#[error("allowed origin {origin:?} is not a valid pattern")]
pub struct OriginsError {
    origin: String,
    source: regex::Error,
}

/// The allowed origins and hosts.
#[derive(Debug, Default)]
pub struct Origins {
    /// Whether the server listens on a loopback address.
    is_on_loopback: bool,
    literal: Vec<String>,
    patterns: Vec<Regex>,
    /// The hosts of the allowed origins, and the server's own host name.
    hosts: HashSet<String>,
    /// Whether all origins are allowed.
    all: bool,
}

impl Origins {
    /// Allows these origins: literally, by `regex:…`, or all by `*`. `is_on_loopback` says whether
    /// the server listens on a loopback address. Decide this by the address, because `127.1` and
    /// many host names are loopback addresses too.
    pub fn new(is_on_loopback: bool, allowed: &[String]) -> Result<Origins, OriginsError> {
        let mut origins = Origins {
            is_on_loopback,
            ..Origins::default()
        };
        for origin in allowed {
            match origin.strip_prefix(PATTERN) {
                Some("") => {}
                Some(pattern) => {
                    let whole = Regex::new(&format!("^(?:{pattern})$"));
                    let origin = origin.clone();
                    let whole = whole.map_err(|source| OriginsError { origin, source })?;
                    origins.patterns.push(whole);
                }
                None => origins.literal.push(origin.clone()),
            }
        }
        origins.all = origins.literal.iter().any(|origin| origin == "*");
        let hosts = origins.literal.iter().filter_map(|origin| host_of(origin));
        origins.hosts = hosts.map(|host| host.to_ascii_lowercase()).collect();
        Ok(origins)
    }

    /// Adds the host name that the server was started with.
    pub fn with_host(mut self, host: &str) -> Origins {
        self.hosts.insert(normalize_host(host));
        self
    }

    /// Whether allowed origins are configured.
    fn are_configured(&self) -> bool {
        !self.literal.is_empty() || !self.patterns.is_empty()
    }

    /// Checks the origin of a request and returns the CORS headers for the browser.
    pub(super) fn check(&self, request: &Request) -> Result<Cors, Box<Response>> {
        let headers = request.headers();
        if !self.is_host_allowed(request) {
            return Err(Box::new(forbidden(request, "host not allowed")));
        }
        let Some(origin) = first(headers, header::ORIGIN) else {
            return Ok(Cors {
                is_on: self.are_configured(),
                origin: None,
                allows_all: self.all,
            });
        };
        let is_allowed = self.is_allowed(origin);
        if !is_allowed && !self.is_same_origin(origin, request) {
            return Err(Box::new(forbidden(request, "origin not allowed")));
        }
        Ok(Cors {
            is_on: self.are_configured(),
            origin: is_allowed
                .then(|| headers.get(header::ORIGIN).cloned())
                .flatten(),
            allows_all: self.all,
        })
    }

    /// Whether the `Host` header is allowed. A server on a loopback address accepts only loopback
    /// names and allowed hosts: any other name means DNS rebinding.
    fn is_host_allowed(&self, request: &Request) -> bool {
        if self.all || !self.is_on_loopback {
            return true;
        }
        let mut hosts = request.headers().get_all(header::HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else {
            // A browser always sends one. Other programs may send none; several are an attack.
            return !request.headers().contains_key(header::HOST);
        };
        let Ok(host) = host.to_str() else {
            return false;
        };
        let host = host.trim();
        if host.contains(',') {
            return false;
        }
        self.is_own(host)
    }

    /// Whether a host is a loopback name or an allowed host.
    fn is_own(&self, host: &str) -> bool {
        is_loopback_name(host) || self.hosts.contains(&normalize_host(host))
    }

    fn is_allowed(&self, origin: &str) -> bool {
        self.all
            || self.literal.iter().any(|allowed| allowed == origin)
            || self.patterns.iter().any(|pattern| pattern.is_match(origin))
    }

    fn is_same_origin(&self, origin: &str, request: &Request) -> bool {
        if !self.are_configured() && self.is_on_loopback {
            let host = host_of(origin).unwrap_or_default();
            if !self.is_own(host) {
                return false;
            }
        }
        own_origin(request.headers()).is_some_and(|own| own == origin)
    }
}

/// The CORS headers of a response.
#[derive(Debug, Default)]
pub(super) struct Cors {
    is_on: bool,
    /// The origin, if it is allowed.
    origin: Option<HeaderValue>,
    allows_all: bool,
}

impl Cors {
    /// Returns the response to a preflight request.
    pub(super) fn preflight(&self, request: &Request) -> Option<Response> {
        let asked = request.headers().get(header::ACCESS_CONTROL_REQUEST_METHOD);
        let is_preflight = request.method() == Method::OPTIONS
            && request.headers().contains_key(header::ORIGIN)
            && asked.is_some();
        if !self.is_on || !is_preflight {
            return None;
        }
        let mut headers = HeaderMap::new();
        let vary = "Origin, Access-Control-Request-Method, Access-Control-Request-Headers";
        headers.insert(header::VARY, HeaderValue::from_static(vary));
        let methods = HeaderValue::from_static("DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT");
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
        let age = HeaderValue::from_static("600");
        headers.insert(header::ACCESS_CONTROL_MAX_AGE, age);
        let credentials = HeaderValue::from_static("true");
        headers.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, credentials);
        if let Some(names) = request
            .headers()
            .get(header::ACCESS_CONTROL_REQUEST_HEADERS)
        {
            headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, names.clone());
        }
        let Some(origin) = &self.origin else {
            let refused = (StatusCode::BAD_REQUEST, headers, "Disallowed CORS origin");
            return Some(refused.into_response());
        };
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        Some((StatusCode::OK, headers, "OK").into_response())
    }

    /// Allows a page of an allowed origin to read the response.
    pub(super) fn allow(&self, headers: &mut HeaderMap) {
        if self.is_on && !self.allows_all {
            // Add it even if the request has no origin: a cache must not serve this response to a
            // page of another origin.
            headers.append(header::VARY, HeaderValue::from_static("Origin"));
        }
        let Some(origin) = &self.origin else {
            return;
        };
        let origin = match self.allows_all {
            true => HeaderValue::from_static("*"),
            false => origin.clone(),
        };
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        let credentials = HeaderValue::from_static("true");
        headers.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, credentials);
    }
}

/// Whether a host, with or without a port, is a loopback address.
pub fn is_loopback_name(host: &str) -> bool {
    let host = normalize_host(host);
    let ip = host.parse::<IpAddr>();
    // An IPv6 address may contain an IPv4 address.
    host == "localhost" || ip.is_ok_and(|ip| ip.to_canonical().is_loopback())
}

/// Normalizes a host for comparison.
fn normalize_host(host: &str) -> String {
    let host = without_port(host).to_ascii_lowercase();
    host.trim_end_matches('.').to_owned()
}

/// Strips the port. Text that is not a host with a port is returned unchanged, so that
/// `127.0.0.1:8000.evil.example` is not taken for a loopback address.
fn without_port(host: &str) -> &str {
    let (bare, rest) = match host.strip_prefix('[') {
        Some(inside) => match inside.split_once(']') {
            Some(parts) => parts,
            None => return host,
        },
        None => match host.split_once(':') {
            // More than one colon: an IPv6 address without brackets.
            Some((_, port)) if port.contains(':') => return host,
            Some((bare, _)) => (bare, &host[bare.len()..]),
            None => return host,
        },
    };
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    match rest.strip_prefix(':') {
        Some(port) if is_port(port) => bare,
        None if rest.is_empty() => bare,
        _ => host,
    }
}

/// Returns the host of an origin.
fn host_of(origin: &str) -> Option<&str> {
    let (_, rest) = origin.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let (_, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    Some(without_port(host)).filter(|host| !host.is_empty())
}

/// Returns the server's own origin, according to the headers of a proxy or of the client.
fn own_origin(headers: &HeaderMap) -> Option<String> {
    if let Some(origin) = first(headers, header::FORWARDED).and_then(forwarded) {
        return Some(origin);
    }
    let named = |name: &str| {
        headers
            .get(name)
            .and_then(|v| v.to_str().ok())
            .map(before_comma)
    };
    let host = named("x-forwarded-host").or_else(|| first(headers, header::HOST))?;
    let scheme = named("x-forwarded-proto").unwrap_or("http");
    Some(format!("{}://{host}", page_scheme(scheme)))
}

/// Returns scheme and host of a `Forwarded` header that has both.
fn forwarded(value: &str) -> Option<String> {
    let find = |wanted: &str| {
        let pairs = value.split(';').filter_map(|pair| pair.split_once('='));
        let mut found = pairs.filter(|(name, _)| name.trim().eq_ignore_ascii_case(wanted));
        found.next_back().map(|(_, value)| unquote(value.trim()))
    };
    let (scheme, host) = (find("proto")?, find("host")?);
    Some(format!("{}://{host}", page_scheme(scheme)))
}

fn unquote(value: &str) -> &str {
    let inside = value.strip_prefix('"').and_then(|v| v.strip_suffix('"'));
    inside.unwrap_or(value)
}

/// Returns the scheme of the page that opens a connection: `http` for `ws`, `https` for `wss`.
fn page_scheme(scheme: &str) -> &str {
    match scheme {
        "ws" => "http",
        "wss" => "https",
        other => other,
    }
}

fn first(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok().map(before_comma)
}

/// Returns the text before the first comma.
fn before_comma(value: &str) -> &str {
    value.split(',').next().unwrap_or_default().trim()
}

/// Creates the error in ADK's format, or as a problem below `/api/`.
fn forbidden(request: &Request, reason: &str) -> Response {
    if request.uri().path().starts_with("/api/") {
        return fault(request.uri().path(), 403, reason);
    }
    let body = format!("Forbidden: {reason}");
    let content_type = [(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"))];
    (StatusCode::FORBIDDEN, content_type, body).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    #[test]
    fn only_hosts_of_this_machine_are_loopback() {
        for host in [
            "localhost",
            "LOCALHOST:8000",
            "localhost.",
            "127.0.0.1",
            "127.9.9.9:1",
            "[::1]",
            "[::1]:8000",
            "::1",
            "[::ffff:127.0.0.1]:8000",
            "[::ffff:7f00:1]",
        ] {
            assert!(is_loopback_name(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "127.0.0.1.evil.example",
            "127.0.0.1:8000.evil.example",
            "localhost:x",
            "localhost:",
            "[::1",
            "[::1]x",
            "0.0.0.0",
            "10.0.0.1",
            "localhost.evil.example",
            "[::ffff:10.0.0.1]",
        ] {
            assert!(!is_loopback_name(host), "{host}");
        }
    }

    fn request(headers: &[(&str, &str)]) -> Request {
        let mut request = Request::builder().uri("/x");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(Body::empty()).unwrap()
    }

    fn status(origins: &Origins, headers: &[(&str, &str)]) -> u16 {
        match origins.check(&request(headers)) {
            Ok(_) => 200,
            Err(refused) => refused.status().as_u16(),
        }
    }

    /// Whether the server listens on a loopback address.
    const LOCAL: bool = true;

    fn origins(is_on_loopback: bool, allowed: &[&str]) -> Origins {
        let allowed: Vec<String> = allowed.iter().map(|text| (*text).to_owned()).collect();
        Origins::new(is_on_loopback, &allowed).unwrap()
    }

    const HERE: (&str, &str) = ("host", "127.0.0.1:8000");

    #[test]
    fn foreign_origin_is_rejected() {
        let local = origins(LOCAL, &[]);
        assert_eq!(status(&local, &[HERE]), 200);
        assert_eq!(status(&local, &[("host", "evil.example")]), 403);
        assert_eq!(
            status(&local, &[HERE, ("origin", "http://evil.example")]),
            403
        );
        // A different port makes a different origin.
        assert_eq!(
            status(&local, &[HERE, ("origin", "http://127.0.0.1:9")]),
            403
        );
        assert_eq!(
            status(&local, &[HERE, ("origin", "http://127.0.0.1:8000")]),
            200
        );
        assert_eq!(
            status(&local, &[HERE, ("origin", "https://127.0.0.1:8000")]),
            403
        );
        assert_eq!(status(&local, &[HERE, ("origin", "null")]), 403);
        // With DNS rebinding, host and origin are equal, but the host is not this server's.
        let rebound = [("host", "evil.example"), ("origin", "http://evil.example")];
        assert_eq!(status(&local, &rebound), 403);
        assert_eq!(status(&local, &[HERE, ("host", "127.0.0.1")]), 403);
        assert_eq!(status(&local, &[]), 200);
    }

    #[test]
    fn configured_host_name_is_accepted() {
        let named = origins(LOCAL, &[]).with_host("Box.example");
        assert_eq!(status(&named, &[("host", "box.example:8000")]), 200);
        let page = ("origin", "http://box.example:8000");
        assert_eq!(status(&named, &[("host", "box.example:8000"), page]), 200);
        assert_eq!(status(&named, &[("host", "evil.example")]), 403);
        assert_eq!(status(&named, &[HERE, page]), 403);
    }

    #[test]
    fn forwarded_host_is_ignored_on_a_loopback_address() {
        let local = origins(LOCAL, &[]);
        let evil = ("origin", "http://evil.example");
        assert_eq!(
            status(&local, &[HERE, evil, ("x-forwarded-host", "evil.example")]),
            403
        );
        let forwarded = ("forwarded", "proto=http;host=evil.example");
        assert_eq!(status(&local, &[HERE, evil, forwarded]), 403);
    }

    #[test]
    fn forwarded_host_counts_as_same_origin_behind_a_proxy() {
        let public = origins(!LOCAL, &[]);
        let page = ("origin", "https://shop.example");
        assert_eq!(status(&public, &[("host", "shop.example"), page]), 403);
        let proxied = [("host", "x"), ("x-forwarded-host", "shop.example")];
        let https = ("x-forwarded-proto", "https");
        assert_eq!(status(&public, &[proxied[0], proxied[1], https, page]), 200);
        let forwarded = ("forwarded", "for=1;proto=https;host=\"shop.example\"");
        assert_eq!(status(&public, &[("host", "x"), forwarded, page]), 200);
        assert_eq!(status(&public, &[("host", "anything.example")]), 200);
    }

    #[test]
    fn configured_origin_is_allowed() {
        let named = origins(
            LOCAL,
            &["https://a.example", "regex:https://.*\\.b\\.example"],
        );
        let from = |origin| status(&named, &[HERE, ("origin", origin)]);
        assert_eq!(from("https://a.example"), 200);
        assert_eq!(from("https://x.b.example"), 200);
        assert_eq!(from("https://x.b.example.evil"), 403);
        assert_eq!(from("https://c.example"), 403);
        // A literal origin allows its host; a pattern does not.
        assert_eq!(status(&named, &[("host", "a.example")]), 200);
        assert_eq!(status(&named, &[("host", "x.b.example")]), 403);
        let all = origins(LOCAL, &["*"]);
        assert_eq!(
            status(&all, &[("host", "evil"), ("origin", "http://evil")]),
            200
        );
        assert!(Origins::new(LOCAL, &["regex:(".to_owned()]).is_err());
    }

    #[test]
    fn cors_is_off_by_default() {
        let page = [HERE, ("origin", "http://127.0.0.1:8000")];
        let mut headers = HeaderMap::new();
        let cors = origins(LOCAL, &[]).check(&request(&page)).unwrap();
        cors.allow(&mut headers);
        assert!(headers.is_empty());
        let named = origins(LOCAL, &["https://a.example"]);
        let page = [HERE, ("origin", "https://a.example")];
        named.check(&request(&page)).unwrap().allow(&mut headers);
        assert_eq!(headers["access-control-allow-origin"], "https://a.example");
        assert_eq!(headers["vary"], "Origin");
    }
}
