//! The files of the web UI and of agents: which files are served, and to which clients.

use retain_runtime::ConfigRegistry;
use retain_server::Dev;

use crate::dev::support::{ELSEWHERE, HERE, agents, ask_from, get, server, write};

#[tokio::test]
async fn production_server_has_no_developer_routes() {
    let folder = agents();
    let server = server(folder.path(), ConfigRegistry::new(), |apps| apps);
    for path in [
        "/",
        "/dev-ui",
        "/dev-ui/",
        "/dev-ui/index.html",
        "/dev-ui/assets/config/runtime-config.json",
        "/config/telemetry",
        "/dev/apps/chat/build_graph",
        "/dev/apps/chat/build_graph_image",
        "/dev/apps/chat/graph",
        "/dev/apps/chat/builder",
        "/dev/apps/chat/eval_sets",
        "/dev/apps/chat/debug/trace/session/s",
        "/debug/trace/session/s",
        "/builder/app/chat",
    ] {
        let answer = get(&server, path).await;
        assert_eq!(answer.status, 404, "{path}");
        assert_eq!(answer.text, r#"{"detail":"Not Found"}"#, "{path}");
    }
}

#[tokio::test]
async fn only_files_of_the_ui_are_served() {
    let folder = agents();
    write(folder.path(), "ui/index.html", "<html>ui</html>");
    write(folder.path(), "ui/main-1.js", "let x;");
    write(folder.path(), "ui/.hidden", "secret");
    write(folder.path(), "secret.txt", "secret");
    let stale = "ui/assets/config/runtime-config.json";
    write(folder.path(), stale, "{\"backendUrl\":\"stale\"}");
    let ui = folder.path().join("ui");
    let server = server(folder.path(), ConfigRegistry::new(), |apps| {
        apps.with_dev(Dev::new().with_ui_dir(ui))
    });

    for path in ["/", "/dev-ui"] {
        let answer = get(&server, path).await;
        assert_eq!(
            (answer.status, answer.header("location")),
            (307, "/dev-ui/")
        );
    }
    let page = get(&server, "/dev-ui/?app=chat").await;
    assert_eq!((page.status, page.text.as_str()), (200, "<html>ui</html>"));
    assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
    assert_eq!(page.header("x-content-type-options"), "nosniff");
    let policy = page.header("content-security-policy");
    assert!(policy.contains("object-src 'none'"), "{policy}");
    let script = get(&server, "/dev-ui/main-1.js").await;
    assert_eq!(
        script.header("content-type"),
        "text/javascript; charset=utf-8"
    );

    let known = [("if-none-match", script.header("etag"))];
    let again = ("GET", "/dev-ui/main-1.js", "");
    let again = ask_from(&server, Some(HERE), &known, again).await;
    assert_eq!((again.status, again.text.as_str()), (304, ""));

    let config = get(&server, "/dev-ui/assets/config/runtime-config.json").await;
    assert_eq!(config.text, r#"{"backendUrl":"","telemetry":false}"#);
    assert_eq!(config.header("cache-control"), "no-store");

    for path in [
        "/dev-ui/nothing.css",
        "/dev-ui/assets",
        "/dev-ui/.hidden",
        "/dev-ui/../secret.txt",
        "/dev-ui/%2e%2e/secret.txt",
        "/dev-ui/..%2fsecret.txt",
        "/dev-ui/assets/..%2f..%2f..%2fsecret.txt",
        "/dev-ui/%2e%2e%5csecret.txt",
        "/dev-ui/index.html%00.txt",
        "/dev-ui//etc/passwd",
    ] {
        let answer = get(&server, path).await;
        assert_eq!(answer.status, 404, "{path}: {}", answer.text);
        assert!(!answer.text.contains("secret"), "{path}: {}", answer.text);
    }
    // The content type is that of the file, so that the browser reports a missing file and not a
    // wrong type.
    let style = get(&server, "/dev-ui/nothing.css").await;
    assert_eq!(style.header("content-type"), "text/css; charset=utf-8");
}

#[tokio::test]
async fn agent_files_are_served_only_to_loopback_clients() {
    let folder = agents();
    write(folder.path(), "chat/.env", "KEY=secret");
    write(folder.path(), "chat/sub.yaml", "name: sub\n");
    write(folder.path(), "secret.yaml", "secret");
    let server = server(folder.path(), ConfigRegistry::new(), |apps| {
        apps.with_dev(Dev::new())
    });
    for path in ["/dev/apps/chat/builder?ts=1", "/builder/app/chat?ts=1"] {
        let shown = get(&server, path).await;
        assert_eq!(shown.status, 200);
        assert!(shown.text.starts_with("name: chat"), "{}", shown.text);
        let request = ("GET", path, "");
        let proxied = [("x-forwarded-for", "192.0.2.7")];
        for (from, headers) in [
            (Some(ELSEWHERE), &[][..]),
            (None, &[][..]),
            (Some(HERE), &proxied[..]),
        ] {
            let answer = ask_from(&server, from, headers, request).await;
            assert_eq!(answer.status, 403, "{from:?} {headers:?}");
        }
    }
    let sub = get(&server, "/dev/apps/chat/builder?file_path=sub.yaml").await;
    assert_eq!(sub.text, "name: sub\n");
    for path in [
        "/dev/apps/chat/builder?file_path=../secret.yaml",
        "/dev/apps/chat/builder?file_path=%2e%2e%2fsecret.yaml",
        "/dev/apps/chat/builder?file_path=.env",
        "/dev/apps/chat/builder?file_path=/etc/passwd",
        "/dev/apps/..%2fchat/builder",
        "/dev/apps/nothing/builder",
    ] {
        let answer = get(&server, path).await;
        assert_eq!((answer.status, answer.text.as_str()), (200, ""), "{path}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn symlink_out_of_the_ui_or_agent_folder_is_not_followed() {
    use std::os::unix::fs::symlink;

    let folder = agents();
    let at = |name: &str| folder.path().join(name);
    write(folder.path(), "outside/secret.txt", "secret");
    write(folder.path(), "outside/secret.yaml", "secret");
    write(folder.path(), "ui-2/main.js", "let x;");
    write(folder.path(), "ui-2/.env.txt", "secret");
    write(folder.path(), "chat/sub.yaml", "name: sub\n");
    write(folder.path(), "chat/.env.yaml", "secret");
    for (from, to) in [
        ("outside/secret.txt", "ui-2/link.txt"),
        ("outside", "ui-2/folder"),
        ("ui-2/.env.txt", "ui-2/shown.txt"),
        ("ui-2/main.js", "ui-2/again.js"),
        // The folder itself may be a symbolic link.
        ("ui-2", "ui"),
        ("outside/secret.yaml", "chat/link.yaml"),
        ("outside", "chat/folder"),
        ("chat/.env.yaml", "chat/shown.yaml"),
        ("chat/sub.yaml", "chat/again.yaml"),
    ] {
        symlink(at(from), at(to)).expect("a link");
    }
    let server = server(folder.path(), ConfigRegistry::new(), |apps| {
        apps.with_dev(Dev::new().with_ui_dir(at("ui")))
    });
    for name in ["link.txt", "folder/secret.txt", "shown.txt"] {
        let answer = get(&server, &format!("/dev-ui/{name}")).await;
        assert_eq!((answer.status, answer.text.as_str()), (404, ""), "{name}");
    }
    let again = get(&server, "/dev-ui/again.js").await;
    assert_eq!((again.status, again.text.as_str()), (200, "let x;"));
    let shown = async |name: &str| {
        let path = format!("/dev/apps/chat/builder?file_path={name}");
        get(&server, &path).await.text
    };
    for name in ["link.yaml", "folder/secret.yaml", "shown.yaml"] {
        assert_eq!(shown(name).await, "", "{name}");
    }
    assert_eq!(shown("again.yaml").await, "name: sub\n");
}

#[tokio::test]
async fn builder_and_eval_writes_are_rejected() {
    let folder = agents();
    let server = server(folder.path(), ConfigRegistry::new(), |apps| {
        apps.with_dev(Dev::new())
    });
    for path in [
        "/dev/apps/chat/builder/save",
        "/builder/save",
        "/dev/apps/chat/eval-sets",
        "/dev/apps/chat/eval_sets/x/run_eval",
        "/apps/chat/eval_sets/x/add_session",
    ] {
        let request = ("POST", path, "{}");
        let here = ask_from(&server, Some(HERE), &[], request).await;
        assert_eq!(here.status, 501, "{path}: {}", here.text);
        let elsewhere = ask_from(&server, Some(ELSEWHERE), &[], request).await;
        assert_eq!(elsewhere.status, 403, "{path}: {}", elsewhere.text);
    }
    for (path, expected) in [
        ("/dev/apps/chat/eval_sets", "[]"),
        ("/apps/chat/eval_sets", "[]"),
        ("/dev/apps/chat/eval-sets", r#"{"evalSetIds":[]}"#),
        ("/dev/apps/chat/eval_results", "[]"),
        ("/dev/apps/chat/eval-results", r#"{"evalResultIds":[]}"#),
        ("/dev/apps/chat/metrics-info", r#"{"metricsInfo":[]}"#),
        ("/dev/apps/chat/tests", "[]"),
        ("/config/telemetry", r#"{"telemetry":false}"#),
    ] {
        assert_eq!(get(&server, path).await.text, expected, "{path}");
    }
}
