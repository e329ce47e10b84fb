//! The structure of an app, as data and as a graph.

use retain_runtime::ConfigRegistry;
use retain_server::Dev;

use crate::dev::support::{agents, get, say, server, write};

#[tokio::test]
async fn dev_routes_return_the_structure_and_graph_of_an_app() {
    let folder = agents();
    write(folder.path(), "chat/README.md", "Chat.");
    let server = server(folder.path(), ConfigRegistry::new(), |apps| {
        apps.with_dev(Dev::new())
    });
    let described = get(&server, "/dev/apps/chat/build_graph").await;
    let expected = concat!(
        r#"{"name":"chat","root_agent":{"name":"chat","description":"Chats.","sub_agents":[],"#,
        r#""model":"offline","instruction":"Be brief.","#,
        r#""tools":[{"name":"load_memory","type":"tool"}]},"readme":"Chat."}"#
    );
    assert_eq!(described.text, expected);

    for mode in ["dark_mode=true", "dark_mode=false"] {
        let path = format!("/dev/apps/chat/build_graph_image?{mode}");
        let drawn = get(&server, &path).await.json();
        let dot = drawn[""]["dotSrc"].as_str().expect("a drawing").to_owned();
        assert!(dot.contains("\"chat\" -> \"load_memory\""), "{dot}");
        let is_dark = dot.contains("bgcolor=\"#0F172A\"");
        assert_eq!(is_dark, mode.ends_with("true"));
    }
    let missing = get(&server, "/dev/apps/chat/build_graph_image?node=nobody").await;
    assert_eq!(missing.status, 404);
    assert_eq!(
        get(&server, "/dev/apps/nobody/build_graph").await.status,
        404
    );
}

#[tokio::test]
async fn event_graph_highlights_its_edges() {
    let folder = agents();
    let server = server(folder.path(), ConfigRegistry::new(), |apps| {
        apps.with_dev(Dev::new())
    });
    say(&server, "chat", "What is the name of my cat?", "").await;
    let session = get(&server, "/apps/chat/users/ada/sessions/s").await.json();
    let events = session["events"].as_array().expect("events").to_vec();
    let call = events
        .iter()
        .find(|event| event.to_string().contains("functionCall\""));
    let id = call.expect("a call")["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    for prefix in ["", "/dev"] {
        let path = format!("{prefix}/apps/chat/users/ada/sessions/s/events/{id}/graph");
        let graph = get(&server, &path).await.json();
        let dot = graph["dotSrc"].as_str().expect("a drawing").to_owned();
        let marked = "\"chat\" -> \"load_memory\" [color=\"#69CB87\"]";
        assert!(dot.contains(marked), "{dot}");
    }
    let none = "/dev/apps/chat/users/ada/sessions/s/events/none/graph";
    assert_eq!(get(&server, none).await.text, "{}");
}
