//! `retain usage`: what a user and an app have stored.

use std::process::Command;

use retain::{Event, SessionService as _, SqliteSessionService};

use crate::program::{RETAIN, uri};

#[tokio::test(flavor = "multi_thread")]
async fn usage_command_prints_the_counts_of_a_user_and_of_an_app() {
    let folder = retain_testkit::scratch::folder();
    let store = uri(&folder.path().join("s.db"));
    let sessions = SqliteSessionService::connect(&store).await.unwrap();
    // The time in an event may be shorter in the next one, so use the size of the last event.
    let mut bytes = 0;
    for user in ["ada", "bob"] {
        let created = sessions.create_session("shop", user, None, Some("s")).await;
        let event = Event::user_text(format!("I am {user}."));
        let stored = sessions.append_event(&mut created.unwrap(), event).await;
        bytes = stored.unwrap().to_json().unwrap().len();
    }
    drop(sessions);
    let usage = |more: &[&str]| {
        let mut command = Command::new(RETAIN);
        command.args(["usage", "--store", &store, "--app", "shop"]);
        let output = command.args(more).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let json = usage(&["--user", "bob", "--json"]);
    let expected = format!(
        r#"{{"sessions":1,"events":1,"eventBytes":{bytes},"artifactBytes":0,"memories":0}}"#
    );
    assert_eq!(json.trim_end(), expected);
    let text = usage(&[]);
    assert!(
        text.contains("sessions        2\nevents          2\n"),
        "{text}"
    );
}
