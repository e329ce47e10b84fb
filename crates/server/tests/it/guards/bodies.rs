//! Every route limits its body, except the one that streams it.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use axum::{
    Router,
    body::{Body, Bytes},
    http::{Method, Request, header},
};
use futures_util::stream;
use retain_server::{Guards, Server, ServerLimits};
use tower::ServiceExt as _;

use crate::guards::support::World;

const LIMIT: usize = 1000;

/// Far above the limit and what may be in transit.
const PIECES: usize = 100;

/// A chunked body without a length, and the number of chunks read.
fn endless() -> (Body, Arc<AtomicUsize>) {
    let taken = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&taken);
    let pieces = (0..PIECES).map(move |_| {
        counted.fetch_add(LIMIT, Ordering::Relaxed);
        Ok::<_, std::io::Error>(Bytes::from(vec![b' '; LIMIT]))
    });
    (Body::from_stream(stream::iter(pieces)), taken)
}

/// A path of the route in which every parameter is `import`.
fn path_of(route: &str) -> String {
    let parts = route.split('/').map(|part| match part.starts_with('{') {
        true => "import",
        false => part,
    });
    parts.collect::<Vec<_>>().join("/")
}

async fn status(router: &Router, request: Request<Body>) -> u16 {
    let answer = router.clone().oneshot(request).await.unwrap();
    answer.status().as_u16()
}

#[tokio::test]
async fn body_size_is_limited_on_every_route_but_import() {
    let world = World::new();
    let limits = ServerLimits {
        body_bytes: LIMIT,
        ..ServerLimits::default()
    };
    let router = world.server.guarded_router(&Arc::new(Guards {
        limits,
        ..Guards::default()
    }));
    let mut without_limit = Vec::new();
    for route in Server::routes() {
        let path = path_of(route.path);
        let request = || {
            let asked = Request::builder().method(&route.method).uri(&path);
            asked.header(header::CONTENT_TYPE, "application/json")
        };
        let said = request().header(header::CONTENT_LENGTH, LIMIT + 1);
        let is_said_refused = status(&router, said.body(Body::empty()).unwrap()).await == 413;
        let (body, taken) = endless();
        status(&router, request().body(body).unwrap()).await;
        let is_cut = taken.load(Ordering::Relaxed) <= 3 * LIMIT;
        match is_said_refused && is_cut {
            true => {}
            false => without_limit.push((route.method, route.path)),
        }
    }
    assert_eq!(without_limit, [(Method::POST, "/api/v1/import")]);
}
