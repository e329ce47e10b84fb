//! An API key that is bound to a user cannot access data of another user on any route.

use axum::{Router, http::Method};
use retain_core::{ArtifactKey, Event, Part, SessionKey, State};
use retain_server::{Access, RouteInfo, Scope, Server, Services};

use crate::guards::support::{APP, World, ask, request};

/// Returns a text that is stored in every service and that only this user may see.
fn secret(user: &str) -> String {
    format!("canary-of-{user}")
}

/// Stores the user's secret in every service.
async fn seed(services: &Services, user: &str) {
    let secret = secret(user);
    let state = State::from([("mine", secret.as_str()), ("user:mine", secret.as_str())]);
    let sessions = services.session_service();
    let session = sessions.create_session(APP, user, Some(state), Some("s1"));
    let mut session = session.await.unwrap();
    let mut event = Event::user_text(format!("My word is {secret}."));
    event.id = format!("event-of-{user}");
    event.invocation_id = "turn-1".to_owned();
    sessions.append_event(&mut session, event).await.unwrap();
    services
        .memory
        .add_session_to_memory(&session)
        .await
        .unwrap();
    let key = ArtifactKey::in_session(&SessionKey::new(APP, user, "s1"), "note.txt");
    let saved = services
        .artifacts
        .save_artifact(&key, Part::text(secret), None);
    saved.await.unwrap();
}

/// Returns all data of a user, as text.
async fn data_of(services: &Services, user: &str) -> String {
    let sessions = services.session_service();
    let listed = sessions.list_sessions(APP, Some(user)).await.unwrap();
    let session = sessions
        .get_session(APP, user, "s1", Default::default())
        .await
        .unwrap();
    let memories = services
        .memory
        .search_memory(APP, user, "word canary")
        .await
        .unwrap();
    let key = ArtifactKey::in_session(&SessionKey::new(APP, user, "s1"), "note.txt");
    let versions = services.artifacts.list_versions(&key).await.unwrap();
    let shared = sessions.get_user_state(APP, user).await.unwrap();
    let ids: Vec<_> = listed.sessions.iter().map(|session| &session.id).collect();
    format!("{ids:?} {session:?} {memories:?} {versions:?} {shared:?}")
}

/// Returns the path of a route for data of `user`, whose name may be percent-encoded.
fn path_for(route: &RouteInfo, user: &str) -> String {
    let filled = route.path.split('/').map(|part| match part {
        "{app}" | "{app_name}" => APP.to_owned(),
        "{user}" | "{user_id}" => user.to_owned(),
        "{session}" | "{session_id}" => "s1".to_owned(),
        "{*artifact}" | "{artifact}" => "note.txt".to_owned(),
        "{event}" | "{event_id}" => format!("event-of-{user}"),
        part if part.starts_with('{') => "1".to_owned(),
        part => part.to_owned(),
    });
    filled.collect::<Vec<_>>().join("/")
}

/// Returns queries that name the user. A route may reject unknown parameters.
fn queries(user: &str) -> [String; 4] {
    [
        String::new(),
        "?name=note.txt".to_owned(),
        format!("?user={user}"),
        format!("?user={user}&user_id={user}&app_name={APP}&session_id=s1"),
    ]
}

/// Returns bodies; some of them name the user.
fn bodies(user: &str) -> [String; 5] {
    let message = r#"{"role":"user","parts":[{"text":"What is my word?"}]}"#;
    [
        "{}".to_owned(),
        r#"{"query":"word"}"#.to_owned(),
        r#"{"sessionId":"s1"}"#.to_owned(),
        format!(
            r#"{{"appName":"{APP}","userId":"{user}","sessionId":"s1","newMessage":{message}}}"#
        ),
        r#"{"events":[{"author":"user","content":{"parts":[{"text":"forged"}]}}]}"#.to_owned(),
    ]
}

/// A request with an API key, and the user that it names in its path, query and body.
#[derive(Debug, Clone, Copy)]
struct UserRequest<'a> {
    key: &'a str,
    /// The user in the path.
    in_path: &'a str,
    /// The user in the query and body.
    named: &'a str,
    /// Whether to omit the app where possible.
    lacks_app: bool,
}

/// Requests data of a user from a route with each query and each body. Returns statuses and bodies.
async fn ask_for(
    router: &Router,
    route: &RouteInfo,
    user_request: UserRequest<'_>,
) -> Vec<(u16, String)> {
    let mut path = path_for(route, user_request.in_path);
    if user_request.lacks_app {
        let rest = path.strip_prefix(&format!("/apps/{APP}"));
        match rest.filter(|rest| rest.starts_with("/users/")) {
            Some(rest) => path = rest.to_owned(),
            None if matches!(route.access, Access::Body(_)) => {}
            None => return Vec::new(),
        }
    }
    let bodies = match route.method == Method::GET {
        true => vec![None],
        false => bodies(user_request.named).into_iter().map(Some).collect(),
    };
    let without_app = |text: String| match user_request.lacks_app {
        true => text
            .replace(&format!(r#""appName":"{APP}","#), "")
            .replace(&format!("&app_name={APP}"), ""),
        false => text,
    };
    let mut answers = Vec::new();
    for query in queries(user_request.named) {
        for body in &bodies {
            let uri = format!("{path}{}", without_app(query.clone()));
            let body = body.clone().map(without_app);
            let request = request(&route.method, &uri, user_request.key, body.as_deref());
            let answer = ask(router, request).await;
            answers.push((answer.status.as_u16(), answer.body));
        }
    }
    answers
}

/// Like [`ask_for`], with the same user in path, query and body.
async fn ask_for_user(
    world: &World,
    route: &RouteInfo,
    user: &str,
    key: &str,
) -> Vec<(u16, String)> {
    let user_request = UserRequest {
        key,
        in_path: user,
        named: user,
        lacks_app: false,
    };
    ask_for(&world.router(|_| ()), route, user_request).await
}

/// Requests data of `other` from every route with the key of `own`, and checks that none is
/// returned.
async fn assert_cannot_access(world: &World, own: &str, key: &str, other: &str) {
    // The name as it is, and percent-encoded as it may be in a path.
    let escaped = other.replace('a', "%61");
    let paths_of_other = [(other, other), (&escaped, other), (other, own)];
    let own_path = [(own, other)];
    let router = world.router(|_| ());
    let has_default = world.server.apps.default_app().is_some();
    for route in Server::routes() {
        let users = paths_of_other.iter().chain(&own_path);
        for (in_path, named) in users {
            for lacks_app in [false, true] {
                let user_request = UserRequest {
                    key,
                    in_path,
                    named,
                    lacks_app,
                };
                if lacks_app && !has_default {
                    continue;
                }
                for (status, body) in ask_for(&router, &route, user_request).await {
                    let shown = format!(
                        "{} {} {user_request:?}: {status} {body}",
                        route.method, route.path
                    );
                    assert!(!body.contains(&secret(other)), "{shown}");
                    let asks_own = *in_path == own || *named == own;
                    match route.access {
                        Access::Path(_) if *in_path != own => assert_eq!(status, 403, "{shown}"),
                        // An invalid request is rejected before its owner is checked.
                        Access::Body(_) if !asks_own => {
                            assert!((400..500).contains(&status), "{shown}");
                        }
                        _ => {}
                    }
                }
            }
        }
    }
}

// Some responses never end; with a paused clock, their timeout costs no time.
#[tokio::test(start_paused = true)]
async fn user_key_cannot_reach_data_of_another_user_on_any_route() {
    for default_app in [None, Some(APP)] {
        for (own, other) in [("ada", "grace"), ("grace", "ada")] {
            let world = World::with_default_app(default_app);
            let services = &world.server.services;
            seed(services, "ada").await;
            seed(services, "grace").await;
            let key = world.key(own, Some(own), |_| ()).await;
            let before = data_of(services, other).await;
            assert!(before.contains(&secret(other)), "{before}");
            assert_cannot_access(&world, own, &key, other).await;
            assert_eq!(data_of(services, other).await, before);
        }
    }
}

#[tokio::test]
async fn request_without_a_key_reaches_only_public_routes() {
    let world = World::new();
    seed(&world.server.services, "ada").await;
    for route in Server::routes() {
        for (status, body) in ask_for_user(&world, &route, "ada", "").await {
            let shown = format!("{} {}: {status} {body}", route.method, route.path);
            assert!(!body.contains(&secret("ada")), "{shown}");
            match route.access {
                Access::Public => assert_ne!(status, 401, "{shown}"),
                _ => assert_eq!(status, 401, "{shown}"),
            }
        }
    }
}

/// Without this test, the two above would also pass on a server that rejects everything.
#[tokio::test(start_paused = true)]
async fn user_key_reaches_its_own_data_on_every_route() {
    let mut shown = 0;
    let mut routes = 0;
    for route in Server::routes() {
        if !matches!(route.access, Access::Path(_) | Access::Body(_)) {
            continue;
        }
        // A server for each route, because some requests delete data that others read.
        let world = World::new();
        seed(&world.server.services, "grace").await;
        let key = world.key("grace", Some("grace"), |_| ()).await;
        let is_for_users = route.path.contains("{user}") || matches!(route.access, Access::Body(_));
        let needs_admin = matches!(route.access, Access::Path(Scope::Admin));
        if !is_for_users || needs_admin {
            continue;
        }
        let answers = ask_for_user(&world, &route, "grace", &key).await;
        // For a route without a user in its path, `ask_for_user` also sends requests that omit the
        // user, which the server rejects. So one authorized answer is enough.
        let is_authorized = |(status, _): &(u16, String)| *status != 401 && *status != 403;
        let requests_of_route = format!("{} {}: {answers:?}", route.method, route.path);
        assert!(answers.iter().any(is_authorized), "{requests_of_route}");
        routes += 1;
        let has_secret = |(_, body): &(u16, String)| body.contains(&secret("grace"));
        shown += usize::from(answers.iter().any(has_secret));
    }
    assert!(routes >= 40, "only {routes} routes were asked");
    assert!(
        shown >= 15,
        "only {shown} of {routes} routes showed anything"
    );
}
