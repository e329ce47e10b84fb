//! Two keys that are bound to two users cannot see one another, on any route there is.

use axum::http::Method;
use retain_core::{ArtifactKey, Event, Part, SessionKey, State};
use retain_server::{Access, RouteInfo, Scope, Server, Services};

use crate::support::{APP, World, ask, request};

/// What only its user may see: in every place where something can be.
fn secret(user: &str) -> String {
    format!("canary-of-{user}")
}

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

/// Everything that there is of a user, as text.
async fn world_of(services: &Services, user: &str) -> String {
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

/// The route's path, for data of `user` (as it may be written in a path).
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

/// Ways to name the user beside the path: what a route does not know it may refuse.
fn queries(user: &str) -> [String; 4] {
    [
        String::new(),
        "?name=note.txt".to_owned(),
        format!("?user={user}"),
        format!("?user={user}&user_id={user}&app_name={APP}&session_id=s1"),
    ]
}

/// Likewise in a body.
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

/// Asks a route for data of `user`, with a key, in all ways. Gives statuses and bodies.
async fn ask_for(world: &World, route: &RouteInfo, user: &str, key: &str) -> Vec<(u16, String)> {
    let router = world.router(|_| ());
    let path = path_for(route, user);
    let bodies = match route.method == Method::GET {
        true => vec![None],
        false => bodies(&user.replace("%61", "a"))
            .into_iter()
            .map(Some)
            .collect(),
    };
    let mut answers = Vec::new();
    for query in queries(user) {
        for body in &bodies {
            let uri = format!("{path}{query}");
            let request = request(&route.method, &uri, key, body.as_deref());
            let answer = ask(&router, request).await;
            answers.push((answer.status.as_u16(), answer.body));
        }
    }
    answers
}

#[tokio::test]
async fn users_cannot_see_one_another_on_any_route() {
    let world = World::new();
    let services = &world.server.services;
    seed(services, "ada").await;
    seed(services, "grace").await;
    let adas = world.key("ada", Some("ada"), |_| ()).await;
    let before = world_of(services, "grace").await;
    assert!(before.contains(&secret("grace")), "{before}");
    for route in Server::routes() {
        // As it is, and as a path may write it too.
        for user in ["grace", "gr%61ce"] {
            for (status, body) in ask_for(&world, &route, user, &adas).await {
                let shown = format!("{} {} ({user}): {status} {body}", route.method, route.path);
                assert!(!body.contains(&secret("grace")), "{shown}");
                match route.access {
                    Access::Path(_) => assert_eq!(status, 403, "{shown}"),
                    // What is refused before its owner is asked is refused as well.
                    Access::Body(_) => assert!((400..500).contains(&status), "{shown}"),
                    Access::Public | Access::Anybody(_) => {}
                }
            }
        }
    }
    assert_eq!(world_of(services, "grace").await, before);
}

#[tokio::test]
async fn without_a_key_only_what_is_public_is_answered() {
    let world = World::new();
    seed(&world.server.services, "ada").await;
    for route in Server::routes() {
        for (status, body) in ask_for(&world, &route, "ada", "").await {
            let shown = format!("{} {}: {status} {body}", route.method, route.path);
            assert!(!body.contains(&secret("ada")), "{shown}");
            match route.access {
                Access::Public => assert_ne!(status, 401, "{shown}"),
                _ => assert_eq!(status, 401, "{shown}"),
            }
        }
    }
}

/// Without this the two above would also hold for a server that answers nobody.
#[tokio::test]
async fn with_the_right_key_the_same_requests_show_what_is_there() {
    let mut shown = 0;
    let mut routes = 0;
    for route in Server::routes() {
        if !matches!(route.access, Access::Path(_) | Access::Body(_)) {
            continue;
        }
        // Some of them remove what others look for.
        let world = World::new();
        seed(&world.server.services, "grace").await;
        let graces = world.key("grace", Some("grace"), |_| ()).await;
        let is_for_users = route.path.contains("{user}") || matches!(route.access, Access::Body(_));
        let needs_admin = matches!(route.access, Access::Path(Scope::Admin));
        if !is_for_users || needs_admin {
            continue;
        }
        let answers = ask_for(&world, &route, "grace", &graces).await;
        // Where the owner stands beside the path, a request without it is nobody's.
        let is_let_in = |(status, _): &(u16, String)| *status != 401 && *status != 403;
        let shows_it = format!("{} {}: {answers:?}", route.method, route.path);
        assert!(answers.iter().any(is_let_in), "{shows_it}");
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
