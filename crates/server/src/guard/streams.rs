//! Limits on long requests (streams and runs): per API key, per user and in total. A part of the
//! connections is reserved for short requests, so that `/health` and `/ready` always answer.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

use axum::{
    RequestExt as _,
    body::{Body, Bytes},
    extract::{MatchedPath, RawPathParams, Request},
    http::{HeaderValue, header},
    response::Response,
};
use http_body::{Body as HttpBody, Frame, SizeHint};

use super::{Caller, Guards, fault, keys::KeyId};

/// All clients together, an API key or a user: each has its own limit on long requests.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum StreamOwner {
    All,
    Key(String),
    User(String, String),
}

/// Open long requests by owner.
#[derive(Debug, Default)]
pub struct Streams {
    open: Arc<Mutex<HashMap<StreamOwner, usize>>>,
}

/// A permit for a long request, released on drop.
#[derive(Debug)]
pub(super) struct StreamPermit {
    open: Arc<Mutex<HashMap<StreamOwner, usize>>>,
    owners: Vec<StreamOwner>,
}

fn lock(open: &Mutex<HashMap<StreamOwner, usize>>) -> MutexGuard<'_, HashMap<StreamOwner, usize>> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Streams {
    /// Counts a request for each of its owners, unless one of them has reached its limit.
    fn acquire(&self, owners: Vec<(StreamOwner, usize)>) -> Result<StreamPermit, StreamOwner> {
        let mut open = lock(&self.open);
        let is_full = |(owner, most): &&(StreamOwner, usize)| {
            open.get(owner).is_some_and(|count| count >= most) || *most == 0
        };
        if let Some((owner, _)) = owners.iter().find(is_full) {
            return Err(owner.clone());
        }
        let owners: Vec<StreamOwner> = owners.into_iter().map(|(owner, _)| owner).collect();
        for owner in &owners {
            *open.entry(owner.clone()).or_default() += 1;
        }
        Ok(StreamPermit {
            open: Arc::clone(&self.open),
            owners,
        })
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let mut open = lock(&self.open);
        for owner in &self.owners {
            if let Some(count) = open.get_mut(owner) {
                *count -= 1;
                if *count == 0 {
                    open.remove(owner);
                }
            }
        }
    }
}

/// Admits a long request unless a limit is reached; short requests pass.
pub(super) async fn admit(
    guards: &Guards,
    request: &mut Request,
) -> Result<Option<StreamPermit>, Box<Response>> {
    let route = request.extensions().get::<MatchedPath>();
    let is_long = |route: &str| route.starts_with("/run") || route.ends_with("/tail");
    if !route.is_some_and(|route| is_long(route.as_str())) {
        return Ok(None);
    }
    let limits = &guards.limits;
    let connections = limits.connections;
    // Reserve at least one connection, unless there is only one.
    let of_all = connections - (connections / 10).max(1);
    let mut owners = vec![(StreamOwner::All, of_all.max(1))];
    if let Some(KeyId(key)) = request.extensions().get::<KeyId>() {
        owners.push((StreamOwner::Key(key.clone()), limits.streams_per_key));
    }
    if let Some((app, user)) = user_of(request).await {
        owners.push((StreamOwner::User(app, user), limits.streams_per_user));
    }
    let permit = guards.streams.acquire(owners);
    permit.map(Some).map_err(|owner| {
        let (status, detail) = match owner {
            StreamOwner::All => (503, "too many open streams and runs; see Retry-After"),
            StreamOwner::Key(_) => (
                429,
                "this API key has too many open streams; see Retry-After",
            ),
            StreamOwner::User(..) => (429, "this user has too many open streams; see Retry-After"),
        };
        let mut response = fault(request.uri().path(), status, detail);
        let seconds = HeaderValue::from_static("5");
        response.headers_mut().insert(header::RETRY_AFTER, seconds);
        Box::new(response)
    })
}

/// Returns the user whose data a request uses: the user of the path, or else of the API key.
async fn user_of(request: &mut Request) -> Option<(String, String)> {
    let params = request.extract_parts::<RawPathParams>().await.ok()?;
    let param = |name: &str| {
        let found = params.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| value.to_owned())
    };
    if let (Some(app), Some(user)) = (param("app"), param("user")) {
        return Some((app, user));
    }
    let caller = request.extensions().get::<Caller>()?;
    Some((caller.app.clone()?, caller.user.clone()?))
}

/// Holds the permit until the body of the response ends.
pub(super) fn hold_until_end(response: Response, permit: Option<StreamPermit>) -> Response {
    match permit {
        Some(permit) => response.map(|body| {
            Body::new(PermitBody {
                body,
                _permit: permit,
            })
        }),
        None => response,
    }
}

/// A body that holds a permit.
struct PermitBody {
    body: Body,
    _permit: StreamPermit,
}

impl HttpBody for PermitBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_stream_permit_is_available_again() {
        let streams = Streams::default();
        let ada = StreamOwner::User("shop".to_owned(), "ada".to_owned());
        let acquire = || streams.acquire(vec![(StreamOwner::All, 2), (ada.clone(), 1)]);
        let first = acquire().unwrap();
        assert_eq!(acquire().unwrap_err(), ada);
        let other = streams.acquire(vec![(StreamOwner::All, 2)]).unwrap();
        drop(first);
        let first = acquire().unwrap();
        assert_eq!(
            streams.acquire(vec![(StreamOwner::All, 2)]).unwrap_err(),
            StreamOwner::All
        );
        drop((first, other));
        assert!(lock(&streams.open).is_empty());
    }
}
