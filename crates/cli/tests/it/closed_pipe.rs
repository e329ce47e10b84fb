//! A command whose reader closes the pipe, as `head` does, exits without an error message and
//! without claiming success.

use std::{
    collections::BTreeSet,
    fs::File,
    io::{BufRead as _, BufReader, Read as _, Seek as _, Write as _, pipe},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    time::Duration,
};

use retain::{Event, GetSessionConfig, SessionService as _, SqliteSessionService};
use rustix::process::{Pid, Signal, kill_process};

use crate::{program::uri, serve::process::retain};

/// The exit code that a shell reports for a program that SIGPIPE ended.
const CLOSED_PIPE: i32 = 141;

/// A database with a session, memories and an API key; each command gets its own copy.
struct Fixture {
    folder: tempfile::TempDir,
    key: String,
    export: Vec<u8>,
}

impl Fixture {
    async fn new() -> Fixture {
        let folder = retain_testkit::scratch::folder();
        let file = folder.path().join("fixture.db");
        let sessions = SqliteSessionService::connect(&uri(&file)).await.unwrap();
        let created = sessions.create_session("app", "ada", None, Some("s1"));
        let mut session = created.await.unwrap();
        for number in 0..20 {
            // Write more than a pipe holds, so that no command finishes before its reader is gone.
            let text = format!("tea {number} {}", "long ".repeat(2_000));
            let event = Event::user_text(text);
            sessions.append_event(&mut session, event).await.unwrap();
        }
        drop(sessions);
        let store = uri(&file);
        let run = |arguments: &str| {
            let mut command = retain(folder.path());
            let ran = command.args(arguments.split(' ')).args(["--store", &store]);
            let ran = ran.output().unwrap();
            assert!(ran.status.success(), "{arguments}: {ran:?}");
            ran.stdout
        };
        run("memory add --app app --user ada");
        let key = String::from_utf8(run("keys create")).unwrap();
        let export = run("export --app app");
        run("backup backup/");
        Fixture {
            key: key.trim().to_owned(),
            export,
            folder,
        }
    }

    /// Copies the database to a folder of its own.
    fn copy(&self) -> (tempfile::TempDir, PathBuf) {
        let folder = retain_testkit::scratch::folder();
        let file = folder.path().join("s.db");
        std::fs::copy(self.folder.path().join("fixture.db"), &file).unwrap();
        std::fs::create_dir(folder.path().join("tmp")).unwrap();
        (folder, file)
    }

    /// Returns every command except `serve`, with arguments that make it print, and its input.
    fn commands(&self) -> Vec<(&'static str, String, &[u8])> {
        let ada = "--store STORE --app app --user ada";
        let event = br#"{"author":"user","content":{"parts":[{"text":"hi"}]}}"#;
        vec![
            ("append", format!("{ada} --session s2"), event),
            ("backup", "--store STORE copy.db".to_owned(), b""),
            ("check", "--store STORE".to_owned(), b""),
            ("demo", String::new(), b""),
            ("erase", format!("{ada} --yes"), b""),
            ("export", "--store STORE --app app".to_owned(), b""),
            ("help", String::new(), b""),
            (
                "import",
                "--store sqlite:///new.db".to_owned(),
                &self.export,
            ),
            ("keys create", "--store STORE".to_owned(), b""),
            ("keys list", "--store STORE".to_owned(), b""),
            ("keys revoke", format!("--store STORE {}", self.key), b""),
            ("memory add", ada.to_owned(), b""),
            ("memory forget", format!("{ada} --session s1 --yes"), b""),
            ("memory list", ada.to_owned(), b""),
            ("memory search", format!("{ada} tea"), b""),
            ("memory stats", ada.to_owned(), b""),
            (
                "migrate",
                "--from STORE --to sqlite:///new.db".to_owned(),
                b"",
            ),
            (
                "restore",
                format!(
                    "--store sqlite:///new.db {}",
                    self.folder.path().join("backup").display()
                ),
                b"",
            ),
            ("sweep", "--store STORE".to_owned(), b""),
            ("upgrade", "--store STORE".to_owned(), b""),
            ("usage", "--store STORE --app app".to_owned(), b""),
        ]
    }
}

fn command(folder: &Path, file: &Path, name: &str, arguments: &str) -> Command {
    let mut command = retain(folder);
    let arguments = arguments.replace("STORE", &uri(file));
    command
        .args(name.split(' '))
        .args(arguments.split_whitespace());
    command.env("TMPDIR", folder.join("tmp"));
    command
}

fn input_file(bytes: &[u8]) -> File {
    let mut file = retain_testkit::scratch::file();
    file.write_all(bytes).unwrap();
    file.rewind().unwrap();
    file
}

/// Runs a command whose reader reads one line or nothing and then closes the pipe. Returns the exit
/// status and standard error.
fn run_with_closed_output(
    mut command: Command,
    input: &[u8],
    reads_a_line: bool,
) -> (ExitStatus, String) {
    let (reader, writer) = pipe().unwrap();
    let mut stderr = retain_testkit::scratch::file();
    command.stdin(input_file(input)).stdout(writer);
    command.stderr(stderr.try_clone().unwrap());
    let mut reader = Some(BufReader::with_capacity(16, reader));
    if !reads_a_line {
        reader = None;
    }
    let mut child = command.spawn().unwrap();
    // The command holds the other end of the pipe, which would keep it open.
    drop(command);
    if let Some(mut reader) = reader {
        let mut line = Vec::new();
        reader.read_until(b'\n', &mut line).unwrap();
        assert!(line.ends_with(b"\n"), "it printed {line:?}");
    }
    let status = child.wait().unwrap();
    let mut message = String::new();
    stderr.rewind().unwrap();
    stderr.read_to_string(&mut message).unwrap();
    (status, message)
}

fn assert_quiet(name: &str, message: &str) {
    for noise in ["panicked", "Broken pipe", "error"] {
        assert!(!message.contains(noise), "{name}: {message}");
    }
}

/// Reads the names of all commands from the help. A nested command has two words: `keys create`.
fn known_commands(parent: &str) -> BTreeSet<String> {
    let folder = retain_testkit::scratch::folder();
    let mut help = retain(folder.path());
    let help = help.arg("help").args(parent.split_whitespace());
    let text = String::from_utf8(help.output().unwrap().stdout).unwrap();
    let listed = text.split("\nCommands:\n").nth(1);
    let Some(listed) = listed.and_then(|rest| rest.split("\n\n").next()) else {
        return BTreeSet::from([parent.to_owned()]);
    };
    let is_name = |line: &&str| line.starts_with("  ") && !line.starts_with("   ");
    let names = listed.lines().filter(is_name);
    let names = names.filter_map(|line| line.split_whitespace().next());
    names
        .flat_map(|name| match (parent, name) {
            ("", "help") => BTreeSet::from([name.to_owned()]),
            (_, "help") => BTreeSet::new(),
            ("", name) => known_commands(name),
            (parent, name) => known_commands(&format!("{parent} {name}")),
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn closed_pipe_test_runs_every_command() {
    let fixture = Fixture::new().await;
    let commands = fixture.commands().into_iter();
    let mut tested: BTreeSet<String> = commands.map(|(name, ..)| name.to_owned()).collect();
    tested.insert("serve".to_owned());
    assert_eq!(tested, known_commands(""));
}

#[tokio::test(flavor = "multi_thread")]
async fn command_exits_quietly_when_its_output_is_closed() {
    let fixture = Fixture::new().await;
    for (name, arguments, input) in fixture.commands() {
        let (folder, file) = fixture.copy();
        let command = command(folder.path(), &file, name, &arguments);
        let (status, message) = run_with_closed_output(command, input, false);
        assert_quiet(name, &message);
        assert_eq!(status.code(), Some(CLOSED_PIPE), "{name}: {message}");
        let left = std::fs::read_dir(folder.path().join("tmp")).unwrap();
        assert_eq!(left.count(), 0, "{name} leaves temporary files");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn command_exits_quietly_when_its_output_is_closed_after_one_line() {
    let fixture = Fixture::new().await;
    for (name, arguments, input) in fixture.commands() {
        let (folder, file) = fixture.copy();
        let command = command(folder.path(), &file, name, &arguments);
        let (status, message) = run_with_closed_output(command, input, true);
        assert_quiet(name, &message);
        let is_cut_off = status.code() == Some(CLOSED_PIPE);
        assert!(is_cut_off || status.success(), "{name}: {message}");
        if matches!(name, "export" | "memory list") {
            assert!(
                is_cut_off,
                "{name} exits with success although its output was cut off"
            );
        }
    }
}

#[test]
fn help_and_version_exit_quietly_when_their_output_is_closed() {
    let folder = retain_testkit::scratch::folder();
    for option in ["--help", "--version", "serve --help", "keys create --help"] {
        let mut command = retain(folder.path());
        command.args(option.split(' '));
        let (status, message) = run_with_closed_output(command, b"", false);
        assert_eq!(message, "", "{option}");
        assert_eq!(status.code(), Some(CLOSED_PIPE), "{option}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn command_does_not_panic_when_both_outputs_are_closed() {
    let fixture = Fixture::new().await;
    for (name, arguments, input) in fixture.commands() {
        let (folder, file) = fixture.copy();
        let mut command = command(folder.path(), &file, name, &arguments);
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        command.stderr(writer.try_clone().unwrap()).stdout(writer);
        let status = command.stdin(input_file(input)).status().unwrap();
        assert_eq!(status.code(), Some(CLOSED_PIPE), "{name}");
    }
}

#[test]
fn command_reports_that_its_output_cannot_be_written() {
    let folder = retain_testkit::scratch::folder();
    for arguments in [&["--help"][..], &["keys", "create"]] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut command = retain(folder.path());
        let ran = command.args(arguments).stdout(full).stderr(Stdio::piped());
        let ran = ran.spawn().unwrap().wait_with_output().unwrap();
        let message = String::from_utf8(ran.stderr).unwrap();
        assert_eq!(ran.status.code(), Some(1), "{message}");
        let expected = "error: cannot write to standard output";
        assert!(message.starts_with(expected), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn append_stops_when_its_output_is_closed_and_keeps_acknowledged_events() {
    let folder = retain_testkit::scratch::folder();
    let store = uri(&folder.path().join("s.db"));
    let mut append = retain(folder.path());
    append.args(["append", "--store", &store, "--app", "app"]);
    append.args(["--user", "ada", "--session", "s1"]);
    append.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = append.stderr(Stdio::piped()).spawn().unwrap();
    let (mut input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut send = |id: &str| writeln!(input, r#"{{"author":"user","id":"{id}"}}"#);
    send("read").unwrap();
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).unwrap();
    assert!(line.contains("\"read\""), "{line}");
    send("unread").unwrap();
    // Standard input stays open: the program must not wait for its end.
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(CLOSED_PIPE));
    assert_eq!(String::from_utf8(ended.stderr).unwrap(), "");
    let sessions = SqliteSessionService::connect(&store).await.unwrap();
    let read = sessions.get_session("app", "ada", "s1", GetSessionConfig::default());
    let events = read.await.unwrap().unwrap().events;
    assert_eq!(events.first().unwrap().id, "read");
}

/// A server answers requests even if its startup lines and its log have no reader.
#[test]
fn server_keeps_serving_when_its_outputs_are_closed() {
    let folder = retain_testkit::scratch::folder();
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let mut command = retain(folder.path());
    command.args(["serve", "--port", &port.to_string()]);
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    command.stderr(writer.try_clone().unwrap()).stdout(writer);
    let mut child = command.spawn().unwrap();
    let ask = || {
        let mut socket = TcpStream::connect(("127.0.0.1", port))?;
        // The log has a line for each of these requests.
        socket.write_all(b"GET /list-apps HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer).map(|_| answer)
    };
    let mut answers = 0;
    for _ in 0..600 {
        if ask().is_ok_and(|answer| answer.contains("200 OK")) {
            answers += 1;
        }
        if answers == 3 || child.try_wait().unwrap().is_some() {
            break;
        }
        #[allow(clippy::disallowed_methods, reason = "no executor runs here")]
        std::thread::sleep(Duration::from_millis(50));
    }
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    let _ = kill_process(pid, Signal::TERM);
    let status = child.wait().unwrap();
    assert_eq!(answers, 3, "{status}");
    assert!(status.success(), "{status}");
}
