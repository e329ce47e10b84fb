//! Runs the real program under strace, one process after another on one database, and simulates a
//! power failure at any recorded moment.

use std::{
    collections::HashMap,
    fs::File,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
};

use retain::{Event, SessionLog as _, SessionService as _, SqliteSessionService};
use retain_testkit::{
    crash::{Action, Disk, Image, Moment, Recorder, Stage, Survival},
    random::Random,
    scratch,
};
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::{
    ledger::{Fault, Ledger, compare_open, error_chain},
    program::{ChildProgram, RETAIN, append_arguments, uri, write_lines},
};

/// Number of images checked concurrently.
const AT_ONCE: usize = 4;

/// The results of all simulated power failures.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Number of failures after which acknowledged events were lost and nothing else was wrong.
    pub(crate) lossy: usize,
    /// Other faults, each with its moment.
    pub(crate) bad: Vec<String>,
}

/// A database, the clients that have written it, and the recorded system calls.
pub(crate) struct PowerSimulation {
    folder: TempDir,
    /// The folder that has only the database.
    database_folder: PathBuf,
    options: String,
    ledgers: Vec<Ledger>,
    moments: Vec<Moment>,
}

impl PowerSimulation {
    pub(crate) fn new(options: &str) -> PowerSimulation {
        let folder = scratch::folder();
        // The canonical path: a symbolic link would hide every file from the trace.
        let database_folder = folder.path().canonicalize().unwrap().join("database");
        std::fs::create_dir(&database_folder).unwrap();
        PowerSimulation {
            folder,
            database_folder,
            options: options.to_owned(),
            ledgers: Vec::new(),
            moments: Vec::new(),
        }
    }

    fn uri(&self) -> String {
        let path = uri(&self.database_folder.join("sessions.db"));
        format!("{path}{}", self.options)
    }

    /// Appends `count` events and records the acknowledgements. Returns whether all succeeded.
    pub(crate) fn append(
        &mut self,
        client: &mut Ledger,
        count: usize,
        fault: Option<&str>,
    ) -> bool {
        let recorder = self.recorder(fault);
        let mut command = recorder.command(RETAIN);
        append_arguments(&mut command, &self.uri(), client);
        let succeeded = self.run(&recorder, command, client, count);
        assert!(
            succeeded || fault.is_some(),
            "the program failed without an injected fault"
        );
        succeeded
    }

    /// Like [`append`](Self::append), with another program; `configure` sets its arguments.
    pub(crate) fn append_with(
        &mut self,
        client: &mut Ledger,
        count: usize,
        fault: &str,
        program: &Path,
        configure: impl FnOnce(&mut Command, &str),
    ) -> bool {
        let recorder = self.recorder(Some(fault));
        let mut command = recorder.command(program);
        configure(&mut command, &self.uri());
        self.run(&recorder, command, client, count)
    }

    fn recorder(&self, fault: Option<&str>) -> Recorder {
        let recorder = Recorder::new(&self.database_folder, self.folder.path().join("trace"));
        match fault {
            Some(fault) => recorder.with_fault(fault),
            None => recorder,
        }
    }

    fn run(
        &mut self,
        recorder: &Recorder,
        command: Command,
        client: &mut Ledger,
        count: usize,
    ) -> bool {
        let before = client.acknowledged();
        let ended = ChildProgram::start(command, client.outbox(count)).wait();
        for line in ended.lines.iter().filter(|line| is_acknowledgement(line)) {
            client.acknowledge_line(line);
        }
        self.ledgers.retain(|ledger| ledger.key != client.key);
        self.ledgers.push(client.clone());
        self.record(recorder);
        let succeeded = ended.status.success();
        // The program reports an error if and only if it has not acknowledged all events.
        let all = client.acknowledged() == before + count;
        assert_eq!(succeeded, all, "{}", ended.stderr);
        succeeded
    }

    /// Compares the current database with what was sent. Opens a copy, because opening the database
    /// itself would change its files without a recording.
    pub(crate) async fn compare(&self) -> Vec<Fault> {
        let mut image = Image::new();
        for entry in std::fs::read_dir(&self.database_folder).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            if !name.ends_with("-shm") {
                image.insert(name, std::fs::read(entry.path()).unwrap());
            }
        }
        compare(&image, &self.ledgers).await
    }

    /// Returns the recorded moments.
    pub(crate) fn moments(&self) -> &[Moment] {
        &self.moments
    }

    /// Runs two concurrent processes, each with files for input and output.
    pub(crate) fn append_concurrently(&mut self, clients: [Ledger; 2], count: usize) {
        const SCRIPT: &str = r#"
            "$0" append --store "$1" --app crash --user ada --in-flight 2 --session "$2" <"$3" >"$4" &
            "$0" append --store "$1" --app crash --user ada --in-flight 2 --session "$5" <"$6" >"$7" &
            wait
        "#;
        let recorder = Recorder::new(&self.database_folder, self.folder.path().join("trace"));
        let mut shell = recorder.command("sh");
        shell.args(["-c", SCRIPT, RETAIN, &self.uri()]);
        let folder = self.folder.path().to_owned();
        let file = |client: &Ledger, end: &str| folder.join(format!("{}.{end}", client.key.id));
        for mut client in clients {
            let (input, output) = (file(&client, "in"), file(&client, "out"));
            write_lines(&mut File::create(&input).unwrap(), client.outbox(count));
            shell.arg(&client.key.id).args([input, output]);
            self.ledgers.push(client);
        }
        assert!(shell.status().unwrap().success());
        for client in self.ledgers.iter_mut().rev().take(2) {
            let lines = std::fs::read_to_string(file(client, "out")).unwrap();
            lines.lines().for_each(|line| client.acknowledge_line(line));
            assert_eq!(client.acknowledged(), count);
        }
        self.record(&recorder);
    }

    fn record(&mut self, recorder: &Recorder) {
        // The last moment may belong to an earlier call.
        let calls = self.moments.iter().map(|moment| moment.call + 1);
        let calls = calls.max().unwrap_or(0);
        for mut moment in recorder.moments().unwrap() {
            moment.call += calls;
            self.moments.push(moment);
        }
    }

    /// Simulates power loss at `points` moments and checks what is left.
    pub(crate) async fn crash(&self, seed: u64, points: usize) -> Outcome {
        let mut random = Random::new(seed);
        let moments = self.moments.len() as u64;
        let mut when: Vec<usize> = (0..points)
            .map(|_| random.below(moments) as usize)
            .collect();
        when.sort_unstable();
        let mut replay = Replay::new(&self.ledgers);
        let (mut applied, mut outcome) = (0, Outcome::default());
        let mut comparisons = JoinSet::new();
        for point in when {
            for moment in &self.moments[applied..point + 1] {
                replay.apply(moment);
            }
            applied = point + 1;
            let survival = Survival::any(&mut random);
            let image = replay.disk.crash(survival, &mut random);
            let ledgers = replay.ledgers.clone();
            if comparisons.len() >= AT_ONCE {
                outcome.add(comparisons.join_next().await.unwrap().unwrap());
            }
            let place = format!("seed {seed}, moment {point} of {moments}, {survival:?}");
            comparisons.spawn(async move { (place, compare(&image, &ledgers).await) });
        }
        while let Some(compare) = comparisons.join_next().await {
            outcome.add(compare.unwrap());
        }
        outcome
    }
}

impl Outcome {
    fn add(&mut self, (place, faults): (String, Vec<Fault>)) {
        let is_loss = |fault: &Fault| matches!(fault, Fault::Lost(_));
        match faults.iter().all(is_loss) {
            true => self.lossy += usize::from(!faults.is_empty()),
            false => self.bad.push(format!("{place}: {faults:?}")),
        }
    }
}

/// Whether a line is an acknowledgement and not output of the test runner.
fn is_acknowledgement(line: &str) -> bool {
    line.starts_with("{\"position\":")
}

/// The content of the disk and the acknowledgements that the clients have received at one moment.
struct Replay {
    disk: Disk,
    ledgers: Vec<Ledger>,
    /// Output that is not yet a complete line, by the file that the program writes it to.
    pending: HashMap<String, Vec<u8>>,
}

impl Replay {
    /// Starts before any acknowledgement.
    fn new(ledgers: &[Ledger]) -> Replay {
        Replay {
            disk: Disk::default(),
            ledgers: ledgers
                .iter()
                .map(Ledger::without_acknowledgements)
                .collect(),
            pending: HashMap::new(),
        }
    }

    fn apply(&mut self, moment: &Moment) {
        self.disk.apply(moment).unwrap();
        if let (Action::Tell { to, bytes }, Stage::Begin) = (&*moment.action, moment.stage) {
            let pending = self.pending.entry(to.clone()).or_default();
            pending.extend_from_slice(bytes);
            while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = pending.drain(..=end).collect();
                let line = String::from_utf8(line).unwrap();
                if is_acknowledgement(&line) {
                    let client = self.ledgers.iter_mut().find(|ledger| ledger.is_for(&line));
                    client.unwrap().acknowledge_line(&line);
                }
            }
        }
    }
}

/// Opens an image, appends to it and compares it with what was acknowledged.
async fn compare(image: &Image, ledgers: &[Ledger]) -> Vec<Fault> {
    let folder = fast_folder();
    for (name, bytes) in image {
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    let opened = SqliteSessionService::connect(&uri(&folder.path().join("sessions.db"))).await;
    let sessions = match opened {
        Ok(sessions) => sessions,
        Err(error) => return vec![Fault::Corrupt(error_chain(&error))],
    };
    let appended = append_after_crash(&sessions).await;
    let mut faults = compare_open(&sessions, ledgers).await;
    if let Err(error) = appended {
        faults.push(Fault::Corrupt(format!(
            "an append after the crash failed: {}",
            error_chain(&error)
        )));
    }
    faults
}

/// Appends as the first user after the crash would.
async fn append_after_crash(sessions: &SqliteSessionService) -> retain::Result<()> {
    let created = sessions.create_session("crash", "ada", None, Some("after"));
    let session = created.await?;
    let event = Event::user_text("still here");
    sessions
        .append(&session.key(), event.into())
        .await
        .map(drop)
}

/// Number of images kept for the scan for API keys. There may be thousands of images, but all
/// consist of the same writes.
const KEPT: usize = 50;
/// Number of images created in this process, if images are kept.
static IMAGES: AtomicUsize = AtomicUsize::new(0);

/// Creates a folder for one image, in memory if possible, because the image is needed only once.
fn fast_folder() -> TempDir {
    if scratch::is_kept() && IMAGES.fetch_add(1, Ordering::Relaxed) < KEPT {
        return scratch::folder();
    }
    let memory = Path::new("/dev/shm");
    let folder = memory.is_dir().then(|| tempfile::tempdir_in(memory).ok());
    folder.flatten().unwrap_or_else(scratch::folder)
}
