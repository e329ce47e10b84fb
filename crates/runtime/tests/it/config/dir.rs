//! A folder of agents: which folders are apps, and when an agent is reloaded.

use std::sync::Arc;

use retain_runtime::AgentsDir;

use crate::config::support::{error_text, folder, registry, write};

const A: &str = "name: a\nmodel: scripted\ninstruction: x\ndescription: First.\n";

#[test]
fn folders_with_a_root_agent_are_listed_as_apps() {
    let folder = folder(&[
        ("b/root_agent.yaml", A),
        ("a/root_agent.yaml", A),
        ("other/agent.py", ""),
        (".git/root_agent.yaml", A),
        ("__pycache__/root_agent.yaml", A),
        ("a-b/root_agent.yaml", A),
        ("root_agent.yaml", A),
    ]);
    let agents = AgentsDir::open(folder.path(), registry()).unwrap();
    assert_eq!(agents.apps().unwrap(), ["a", "b"]);
    assert_eq!(agents.load("a").unwrap().name(), "a");
    for missing in ["c", "..", "a/../b", "", ".git", "other"] {
        let error = agents.load(missing).unwrap_err();
        let expected = format!("app {missing:?} not found; ");
        assert!(error.problem().starts_with(&expected), "{error}");
    }
    let missing = AgentsDir::open(folder.path().join("missing"), registry());
    let error = missing.unwrap_err();
    assert_eq!(error_text(&folder, &error), "missing: does not exist");
}

#[test]
fn agent_reloads_when_one_of_its_files_changes() {
    let folder = folder(&[
        (
            "a/root_agent.yaml",
            &format!("{A}sub_agents:\n  - config_path: b.yaml\n"),
        ),
        ("a/b.yaml", "name: b\ninstruction: x\n"),
    ]);
    let agents = AgentsDir::open(folder.path(), registry()).unwrap();
    let first = agents.load("a").unwrap();
    let again = agents.reload("a").unwrap();
    assert!(!again.changed);
    assert!(Arc::ptr_eq(&first, &again.agent));

    write(&folder, "a/b.yaml", "name: below\ninstruction: x\n");
    assert!(
        Arc::ptr_eq(&first, &agents.load("a").unwrap()),
        "a changed file is loaded only by `reload`"
    );
    let changed = agents.reload("a").unwrap();
    assert!(changed.changed);
    assert_eq!(changed.agent.sub_agents()[0].name(), "below");
    assert!(!agents.reload("a").unwrap().changed);

    write(&folder, "a/b.yaml", "name: below\ninstruction: x\nnam: y\n");
    let error = agents.reload("a").unwrap_err();
    assert_eq!(
        error_text(&folder, &error),
        "a/b.yaml:3: nam: is not a key of an LlmAgent; did you mean `name`?"
    );
    assert!(
        Arc::ptr_eq(&changed.agent, &agents.load("a").unwrap()),
        "the previous agent stays loaded"
    );

    write(&folder, "a/b.yaml", "name: repaired\ninstruction: x\n");
    let repaired = agents.reload("a").unwrap();
    assert_eq!(repaired.agent.sub_agents()[0].name(), "repaired");
}

/// An editor writes a file in several steps, or deletes it and creates a new one.
#[test]
fn previous_agent_stays_loaded_while_a_file_is_half_written() {
    let root = format!(
        "{A}tools:\n  - name: AgentTool\n    args:\n      agent: {{config_path: t/b.yaml}}\n"
    );
    let folder = folder(&[
        ("a/root_agent.yaml", &root),
        (
            "a/t/b.yaml",
            "name: b\nmodel: scripted\ninstruction: x\nsub_agents:\n  - config_path: c.yaml\n",
        ),
        ("a/t/c.yaml", "name: c\ninstruction: x\n"),
    ]);
    let agents = AgentsDir::open(folder.path(), registry()).unwrap();
    let first = agents.load("a").unwrap();
    let assert_not_reloaded = |expected: &str| {
        let error = agents.reload("a").unwrap_err();
        let text = error_text(&folder, &error);
        assert!(text.starts_with(expected), "{text}");
        assert!(Arc::ptr_eq(&first, &agents.load("a").unwrap()), "{text}");
    };
    write(&folder, "a/t/c.yaml", "name: c\ninstruction: [x");
    assert_not_reloaded("a/t/c.yaml:");
    write(&folder, "a/t/c.yaml", "");
    assert_not_reloaded("a/t/c.yaml");
    std::fs::remove_file(folder.path().join("a/t/c.yaml")).unwrap();
    assert_not_reloaded("a/t/b.yaml:5: sub_agents[0].config_path: \"c.yaml\" does not exist");
    std::fs::remove_file(folder.path().join("a/root_agent.yaml")).unwrap();
    assert_not_reloaded("");

    write(&folder, "a/root_agent.yaml", &root);
    write(&folder, "a/t/c.yaml", "name: c\ninstruction: another\n");
    let now = agents.reload("a").unwrap();
    assert!(now.changed);
    assert!(!Arc::ptr_eq(&first, &now.agent));
    assert!(!agents.reload("a").unwrap().changed);
}
