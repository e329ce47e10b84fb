//! The API description lists every status that a route returns.

use std::collections::BTreeSet;

use axum::http::Method;
use retain_core::{ApiKey, Json, KeyScope};
use retain_server::{RouteInfo, Server, openapi_json};

use crate::guards::support::{APP, World, ask, request};

/// Returns the described status codes of a route.
fn described_statuses(document: &Json, route: &RouteInfo) -> BTreeSet<String> {
    let path = route.path.replace("{*", "{");
    let method = route.method.as_str().to_ascii_lowercase();
    let responses = &document["paths"][path.as_str()][method.as_str()]["responses"];
    let responses = responses.as_object().unwrap().keys();
    responses.map(str::to_owned).collect()
}

fn path_of(route: &RouteInfo) -> String {
    let filled = route.path.split('/').map(|part| match part {
        "{app}" => APP,
        "{user}" => "ada",
        "{session}" => "s1",
        part if part.starts_with('{') => "1",
        part => part,
    });
    filled.collect::<Vec<_>>().join("/")
}

#[tokio::test(start_paused = true)]
async fn every_returned_status_is_described_in_openapi() {
    let world = World::new();
    let mut keys = vec![
        String::new(),
        "wrong".to_owned(),
        format!("retain_{}_{}", "0".repeat(16), "0".repeat(64)),
    ];
    keys.push(world.key("ada", Some("ada"), |_| ()).await);
    keys.push(world.key("grace", Some("grace"), |_| ()).await);
    keys.push(world.key("everybody", None, |_| ()).await);
    let reads = |key: &mut ApiKey| key.scopes = vec![KeyScope::SessionsRead];
    keys.push(world.key("reader", None, reads).await);
    let router = world.router(|_| ());
    let document = Json::parse(openapi_json()).unwrap();
    let bodies = [
        None,
        Some("{}"),
        Some("nonsense"),
        Some(r#"{"appName":"__internal","userId":"ada","sessionId":"s1"}"#),
    ];
    for route in Server::routes() {
        let described = described_statuses(&document, &route);
        for key in &keys {
            let bodies = match route.method == Method::GET {
                true => &bodies[..1],
                false => &bodies[..],
            };
            for body in bodies {
                let answer = ask(
                    &router,
                    request(&route.method, &path_of(&route), key, *body),
                );
                let answer = answer.await;
                let shown = format!("{} {} {key} {body:?}", route.method, route.path);
                let status = answer.status.as_str();
                assert!(
                    described.contains(status),
                    "{shown}: {status} {}",
                    answer.body
                );
            }
        }
    }
}
