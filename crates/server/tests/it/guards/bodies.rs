//! Every route limits the size of its body, except the one that streams it.

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

/// Number of chunks of a long body, many more than fit into the limit and into buffers.
const PIECES: usize = 100;

/// Creates a long body without a `Content-Length`, and a count of the bytes that were read from it.
fn long_body() -> (Body, Arc<AtomicUsize>) {
    let read_bytes = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&read_bytes);
    let pieces = (0..PIECES).map(move |_| {
        counted.fetch_add(LIMIT, Ordering::Relaxed);
        Ok::<_, std::io::Error>(Bytes::from(vec![b' '; LIMIT]))
    });
    (Body::from_stream(stream::iter(pieces)), read_bytes)
}

/// Returns a path of the route in which every parameter is `import`.
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
    let limits = ServerLimits::default().with_body_bytes(LIMIT);
    let router = world
        .server
        .guarded_router(&Arc::new(Guards::default().with_limits(limits)));
    let mut without_limit = Vec::new();
    for route in Server::routes() {
        let path = path_of(route.path);
        let request = || {
            let builder = Request::builder().method(&route.method).uri(&path);
            builder.header(header::CONTENT_TYPE, "application/json")
        };
        let announced = request().header(header::CONTENT_LENGTH, LIMIT + 1);
        let is_announced_rejected =
            status(&router, announced.body(Body::empty()).unwrap()).await == 413;
        let (body, read_bytes) = long_body();
        status(&router, request().body(body).unwrap()).await;
        let is_cut = read_bytes.load(Ordering::Relaxed) <= 3 * LIMIT;
        match is_announced_rejected && is_cut {
            true => {}
            false => without_limit.push((route.method, route.path)),
        }
    }
    assert_eq!(without_limit, [(Method::POST, "/api/v1/import")]);
}
