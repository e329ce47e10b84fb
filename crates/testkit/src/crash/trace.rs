//! Parses the output of strace: what a program did to the files of one folder, and its output.
//!
//! Parsing is strict, because a partly parsed trace would prove nothing: an unknown line is an
//! error, and so is a call on a file of the folder that the model does not cover.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

/// Every call that can change a file, including those that are traced only to be rejected.
const CALLS: &str = "?open,openat,?openat2,?creat,write,pwrite64,writev,pwritev,pwritev2,\
    ftruncate,truncate,fallocate,fsync,fdatasync,?sync_file_range,sync,syncfs,msync,mmap,?unlink,\
    unlinkat,?rename,?renameat,renameat2,?link,linkat,?symlink,symlinkat,?mkdir,mkdirat,?rmdir,\
    ?mknod,mknodat,sendfile,splice,copy_file_range,?io_submit,?io_uring_enter,ioctl";

/// The effect of a call that a disk or a client can observe.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// A file was opened and possibly created or truncated.
    Open {
        /// The file's name in the folder.
        file: String,
        /// Create the file if it does not exist.
        create: bool,
        /// Truncate the file to zero bytes.
        truncate: bool,
    },
    /// Bytes were written.
    Write {
        /// The file's name in the folder.
        file: String,
        /// The offset of the first byte.
        offset: u64,
        /// The bytes.
        bytes: Arc<[u8]>,
    },
    /// A file was truncated or extended.
    Resize {
        /// The file's name in the folder.
        file: String,
        /// Its length afterwards.
        length: u64,
    },
    /// A file was synced.
    Sync {
        /// The file's name in the folder.
        file: String,
    },
    /// The folder was synced.
    SyncFolder,
    /// A file was removed.
    Remove {
        /// The file's name in the folder.
        file: String,
    },
    /// Something was written to standard output.
    Tell {
        /// The target of standard output.
        to: String,
        /// The bytes written.
        bytes: Arc<[u8]>,
    },
}

/// Whether a call begins or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The call begins.
    Begin,
    /// The call ends with this result; -1 is a failure.
    End(i64),
}

/// The beginning or the end of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Moment {
    /// The index of the call, in the order in which calls begin.
    pub call: usize,
    /// What the call does.
    pub action: Arc<Action>,
    /// Whether it begins or ends.
    pub stage: Stage,
}

/// Whether strace is installed and allowed to trace.
pub fn have_strace() -> bool {
    let mut probe = Command::new("strace");
    probe.args(["-f", "-o", "/dev/null", "true"]);
    probe.output().is_ok_and(|output| output.status.success())
}

/// Records one execution of a program.
#[derive(Debug)]
pub struct Recorder {
    folder: PathBuf,
    trace: PathBuf,
    faults: Vec<String>,
}

impl Recorder {
    /// Records what happens to the files of `folder` and writes the strace output to the file
    /// `trace`, which must be outside the folder.
    pub fn new(folder: impl Into<PathBuf>, trace: impl Into<PathBuf>) -> Recorder {
        Recorder {
            folder: folder.into(),
            trace: trace.into(),
            faults: Vec::new(),
        }
    }

    /// Injects `fault` with strace, such as `fdatasync:error=EIO:when=3`. strace counts calls per
    /// thread.
    pub fn with_fault(mut self, fault: impl Into<String>) -> Recorder {
        self.faults.push(format!("inject={}", fault.into()));
        self
    }

    /// Returns the command that runs `program` under strace; the caller adds arguments.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new("strace");
        command.args([
            "-f",
            "-y",
            "-xx",
            "-a",
            "1",
            "-s",
            "10000000",
            "-e",
            "signal=none",
        ]);
        command.arg("-e").arg(format!("trace={CALLS}"));
        if self.faults.is_empty() {
            // Stop only at the traced calls, which is faster but prevents fault injection.
            command.arg("--seccomp-bpf");
        }
        for fault in &self.faults {
            command.arg("-e").arg(fault);
        }
        command.arg("-o").arg(&self.trace).arg("--");
        command.arg(program.as_ref());
        command
    }

    /// Returns the recorded moments, once the program has ended.
    pub fn moments(&self) -> Result<Vec<Moment>, String> {
        let text = std::fs::read_to_string(&self.trace)
            .map_err(|error| format!("cannot read the trace {:?}: {error}", self.trace))?;
        parse(&text, &self.folder)
    }
}

/// Parses a trace into the changes to the files of `folder` and the output to the client.
pub fn parse(text: &str, folder: &Path) -> Result<Vec<Moment>, String> {
    let mut reader = Reader {
        folder: folder.to_string_lossy().into_owned(),
        moments: Vec::new(),
        calls: 0,
        open: HashMap::new(),
    };
    for (number, line) in (1..).zip(text.lines()) {
        reader.line(line).map_err(|error| {
            let start: String = line.chars().take(200).collect();
            format!("line {number} of the trace: {error}: {start}")
        })?;
    }
    Ok(reader.moments)
}

struct Reader {
    folder: String,
    moments: Vec<Moment>,
    calls: usize,
    /// Calls that have begun, by thread; without an action if the model ignores them.
    open: HashMap<String, Option<(usize, Arc<Action>)>>,
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<(), String> {
        let (thread, rest) = line.split_once(' ').ok_or("missing thread id")?;
        let rest = rest.trim_start();
        if rest.starts_with("+++ ") || rest.starts_with("--- ") {
            let call = self.open.remove(thread).flatten();
            return self.end(call, None);
        }
        if let Some(resumed) = rest.strip_prefix("<... ") {
            let call = self
                .open
                .remove(thread)
                .ok_or("a call resumes but has not begun")?;
            let (_, rest) = resumed.split_once(" resumed>").ok_or("unknown format")?;
            return self.end(call, result_of(rest)?);
        }
        let (name, arguments) = rest.split_once('(').ok_or("unknown format")?;
        if let Some((arguments, _)) = arguments.split_once(" <unfinished ...>") {
            let call = self.begin(name, arguments)?;
            self.open.insert(thread.to_owned(), call);
            return Ok(());
        }
        let end = arguments.rfind(") = ").ok_or("missing result")?;
        let result = result_of(&arguments[end..])?;
        let call = self.begin(name, &arguments[..end])?;
        self.end(call, result)
    }

    fn begin(
        &mut self,
        name: &str,
        arguments: &str,
    ) -> Result<Option<(usize, Arc<Action>)>, String> {
        let arguments = split(arguments)?;
        let Some(action) = action(&self.folder, name, &arguments)? else {
            return Ok(None);
        };
        let (call, action) = (self.calls, Arc::new(action));
        self.calls += 1;
        self.push(call, &action, Stage::Begin);
        Ok(Some((call, action)))
    }

    fn end(
        &mut self,
        call: Option<(usize, Arc<Action>)>,
        result: Option<i64>,
    ) -> Result<(), String> {
        match (call, result) {
            (None, _) => Ok(()),
            (Some((call, action)), Some(result)) => {
                self.push(call, &action, Stage::End(result));
                Ok(())
            }
            // The program ended or was killed inside the call.
            (Some((call, action)), None) => match &*action {
                Action::Sync { .. } | Action::SyncFolder | Action::Tell { .. } => Ok(()),
                // A new file is empty; the next open creates it again.
                Action::Open {
                    truncate: false, ..
                } => Ok(()),
                _ => match self.infer_result(&action) {
                    Some(result) => {
                        self.push(call, &action, Stage::End(result));
                        Ok(())
                    }
                    None => Err(
                        "the program was killed while it changed a file; the outcome is unknown"
                            .to_owned(),
                    ),
                },
            },
        }
    }

    /// Infers from the present files the result of a call that did not return.
    fn infer_result(&self, action: &Action) -> Option<i64> {
        let path = |file: &str| Path::new(&self.folder).join(file);
        match action {
            Action::Remove { file } => Some(if path(file).exists() { -1 } else { 0 }),
            Action::Write {
                file,
                offset,
                bytes,
            } => {
                let stored = std::fs::read(path(file)).ok()?;
                let stored = stored.get(usize::try_from(*offset).ok()?..)?;
                let is_whole = stored.starts_with(bytes);
                is_whole.then(|| i64::try_from(bytes.len()).ok()).flatten()
            }
            _ => None,
        }
    }

    fn push(&mut self, call: usize, action: &Arc<Action>, stage: Stage) {
        self.moments.push(Moment {
            call,
            action: Arc::clone(action),
            stage,
        });
    }
}

/// Returns the number after `) = `; `None` for `?`, a call that did not return.
fn result_of(text: &str) -> Result<Option<i64>, String> {
    let (_, result) = text.rsplit_once(") = ").ok_or("missing result")?;
    let digits = result.split([' ', '<']).next().unwrap_or_default();
    match digits {
        "?" => Ok(None),
        // An address: mapping the file succeeded.
        _ if digits.starts_with("0x") => Ok(Some(0)),
        _ => digits
            .parse()
            .map(Some)
            .map_err(|_| format!("invalid result {digits:?}")),
    }
}

/// One argument of a call.
#[derive(Debug, PartialEq)]
enum Argument {
    /// A file descriptor and what it is open on.
    File { number: String, path: String },
    /// A complete string.
    Text(Vec<u8>),
    /// Anything else, unparsed.
    Word(String),
}

/// Splits the arguments of a call. With `-xx` no string contains a comma or a bracket.
fn split(arguments: &str) -> Result<Vec<Argument>, String> {
    let mut found = Vec::new();
    let (mut depth, mut start) = (0, 0);
    for (index, byte) in arguments.bytes().enumerate() {
        match byte {
            b'{' | b'[' | b'(' => depth += 1,
            b'}' | b']' | b')' => depth -= 1,
            b',' if depth == 0 => {
                found.push(argument(&arguments[start..index])?);
                start = index + 1;
            }
            _ => {}
        }
    }
    found.push(argument(&arguments[start..])?);
    Ok(found)
}

fn argument(text: &str) -> Result<Argument, String> {
    let text = text.trim();
    if let Some(quoted) = text.strip_prefix('"') {
        let inner = quoted.strip_suffix('"').ok_or("a string was cut off")?;
        return Ok(Argument::Text(unhex(inner)?));
    }
    let Some((number, rest)) = text.split_once('<') else {
        return Ok(Argument::Word(text.to_owned()));
    };
    let is_file = number == "AT_FDCWD" || number.bytes().all(|byte| byte.is_ascii_digit());
    match rest.split_once('>') {
        // `(deleted)` may follow: the name is gone or already belongs to another file.
        Some((path, "")) if is_file => Ok(Argument::File {
            number: number.to_owned(),
            path: lossy(&unhex(path)?),
        }),
        _ => Ok(Argument::Word(text.to_owned())),
    }
}

/// Decodes `\x41\x42`.
fn unhex(text: &str) -> Result<Vec<u8>, String> {
    let (chunks, rest) = text.as_bytes().as_chunks::<4>();
    if !rest.is_empty() {
        return Err("a string is not hexadecimal".to_owned());
    }
    chunks.iter().map(|chunk| byte(*chunk)).collect()
}

fn byte(chunk: [u8; 4]) -> Result<u8, String> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    match (chunk, digit(chunk[2]), digit(chunk[3])) {
        ([b'\\', b'x', ..], Some(high), Some(low)) => Ok((high * 16 + low) as u8),
        _ => Err("a string is not hexadecimal".to_owned()),
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the effect of a call; `None` if the model ignores it.
fn action(folder: &str, name: &str, arguments: &[Argument]) -> Result<Option<Action>, String> {
    if name == "write"
        && let [Argument::File { number, path }, Argument::Text(bytes), ..] = arguments
        && number == "1"
    {
        let (to, bytes) = (path.clone(), bytes.as_slice().into());
        return Ok(Some(Action::Tell { to, bytes }));
    }
    if matches!(name, "sync" | "io_submit" | "io_uring_enter") {
        return Err(format!("the model does not support {name}"));
    }
    let mut inside = arguments.iter().filter_map(|argument| match argument {
        Argument::File { number, path } if number != "AT_FDCWD" => classify_path(folder, path),
        Argument::Text(bytes) if has_path_argument(name) => classify_path(folder, &lossy(bytes)),
        _ => None,
    });
    match (inside.next(), inside.next()) {
        (None, _) => Ok(None),
        (Some(TracedPath::File(file)), None) if file.ends_with("-shm") => Ok(None),
        (Some(TracedPath::File(file)), None) => file_action(name, file, arguments),
        (Some(TracedPath::Folder), None) => folder_action(name, arguments),
        (Some(_), Some(_)) => Err(format!("the model does not support {name} on two files")),
    }
}

enum TracedPath {
    Folder,
    File(String),
}

fn classify_path(folder: &str, path: &str) -> Option<TracedPath> {
    let rest = path.strip_prefix(folder)?;
    match rest.strip_prefix('/') {
        None if rest.is_empty() => Some(TracedPath::Folder),
        Some(file) => Some(TracedPath::File(file.to_owned())),
        None => None,
    }
}

fn has_path_argument(name: &str) -> bool {
    !matches!(name, "write" | "pwrite64")
}

fn folder_action(name: &str, arguments: &[Argument]) -> Result<Option<Action>, String> {
    match name {
        "fsync" | "fdatasync" => Ok(Some(Action::SyncFolder)),
        // Opening the folder itself changes nothing. A path relative to its descriptor is rejected
        // below, because the model would not see the file.
        "open" | "openat" if !has_flag(arguments, "O_TMPFILE") && !is_relative(arguments) => {
            Ok(None)
        }
        _ => Err(format!("the model does not support {name} on the folder")),
    }
}

fn is_relative(arguments: &[Argument]) -> bool {
    matches!(arguments, [Argument::File { number, .. }, ..] if number != "AT_FDCWD")
}

fn file_action(name: &str, file: String, arguments: &[Argument]) -> Result<Option<Action>, String> {
    let action = match (name, arguments) {
        ("open" | "openat", _) => open(file, arguments),
        ("pwrite64", [_, Argument::Text(bytes), _, Argument::Word(offset)]) => Action::Write {
            file,
            offset: number(offset)?,
            bytes: bytes.as_slice().into(),
        },
        ("ftruncate", [_, Argument::Word(length)]) => Action::Resize {
            file,
            length: number(length)?,
        },
        ("fsync" | "fdatasync", [_]) => Action::Sync { file },
        ("unlink", _) => Action::Remove { file },
        ("unlinkat", _) if !has_flag(arguments, "AT_REMOVEDIR") => Action::Remove { file },
        ("mmap", _) if !has_flag(arguments, "PROT_WRITE") => return Ok(None),
        ("mmap", _) if has_flag(arguments, "MAP_PRIVATE") => return Ok(None),
        _ => return Err(format!("the model does not support {name} on a file")),
    };
    // Opening an existing file without truncating it changes nothing.
    let nothing = matches!(
        action,
        Action::Open {
            create: false,
            truncate: false,
            ..
        }
    );
    Ok(Some(action).filter(|_| !nothing))
}

fn open(file: String, arguments: &[Argument]) -> Action {
    Action::Open {
        file,
        create: has_flag(arguments, "O_CREAT"),
        truncate: has_flag(arguments, "O_TRUNC"),
    }
}

fn has_flag(arguments: &[Argument], flag: &str) -> bool {
    arguments.iter().any(|argument| match argument {
        Argument::Word(word) => word.split('|').any(|part| part == flag),
        _ => false,
    })
}

fn number(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| format!("{text:?} is not a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a trace as strace writes it: the text between ⟨ and ⟩ becomes hexadecimal.
    fn trace(text: &str) -> String {
        let hex =
            |text: &str| -> String { text.bytes().map(|byte| format!("\\x{byte:02x}")).collect() };
        let mut out = String::new();
        for (turn, piece) in text.split(['⟨', '⟩']).enumerate() {
            match turn % 2 {
                0 => out.push_str(piece),
                _ => out.push_str(&hex(piece)),
            }
        }
        out
    }

    fn read(text: &str) -> Result<Vec<Moment>, String> {
        parse(&trace(text), Path::new("/d"))
    }

    fn moments(text: &str) -> Vec<(Action, Stage)> {
        let moments = read(text).unwrap().into_iter();
        moments.map(|m| ((*m.action).clone(), m.stage)).collect()
    }

    #[test]
    fn interleaved_system_calls_of_two_threads_are_parsed() {
        let found = moments(
            "7 openat(AT_FDCWD<⟨/⟩>, \"⟨/d/x⟩\", O_RDWR|O_CREAT, 0644) = 3<⟨/d/x⟩>\n\
             7 pwrite64(3<⟨/d/x⟩>, \"⟨ab⟩\", 2, 512 <unfinished ...>\n\
             8 write(1<⟨pipe:[9]⟩>, \"⟨hi⟩\", 2) = 2\n\
             7 <... pwrite64 resumed>) = 2\n\
             8 fdatasync(3<⟨/d/x⟩>) = -1 EIO (Input/output error) (INJECTED)\n\
             8 fsync(4<⟨/d⟩>) = 0\n\
             8 unlink(\"⟨/d/x⟩\") = 0\n\
             8 +++ exited with 0 +++\n",
        );
        let file = || "x".to_owned();
        let open = Action::Open {
            file: file(),
            create: true,
            truncate: false,
        };
        let write = Action::Write {
            file: file(),
            offset: 512,
            bytes: b"ab"[..].into(),
        };
        let tell = Action::Tell {
            to: "pipe:[9]".into(),
            bytes: b"hi"[..].into(),
        };
        let remove = Action::Remove { file: file() };
        let sync = Action::Sync { file: file() };
        let expected = [
            (open.clone(), Stage::Begin),
            (open, Stage::End(3)),
            (write.clone(), Stage::Begin),
            (tell.clone(), Stage::Begin),
            (tell, Stage::End(2)),
            (write, Stage::End(2)),
            (sync.clone(), Stage::Begin),
            (sync, Stage::End(-1)),
            (Action::SyncFolder, Stage::Begin),
            (Action::SyncFolder, Stage::End(0)),
            (remove.clone(), Stage::Begin),
            (remove, Stage::End(0)),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn outcome_of_an_unfinished_system_call_is_inferred_from_its_effect() {
        let folder = crate::scratch::folder();
        let path = folder.path().to_str().unwrap();
        std::fs::write(folder.path().join("kept"), "..ab").unwrap();
        let ends = |call: &str| -> Result<Vec<Stage>, String> {
            let text = format!("7 {call} = ?\n").replace("/d", path);
            let moments = parse(&trace(&text), folder.path())?.into_iter();
            Ok(moments.map(|moment| moment.stage).collect())
        };
        let (begin, done) = (Stage::Begin, Stage::End(0));
        assert_eq!(ends("unlink(\"⟨/d/gone⟩\")"), Ok(vec![begin, done]));
        let failed = Stage::End(-1);
        assert_eq!(ends("unlink(\"⟨/d/kept⟩\")"), Ok(vec![begin, failed]));
        let written = ends("pwrite64(3<⟨/d/kept⟩>, \"⟨ab⟩\", 2, 2)");
        assert_eq!(written, Ok(vec![begin, Stage::End(2)]));
        assert!(ends("pwrite64(3<⟨/d/kept⟩>, \"⟨xy⟩\", 2, 2)").is_err());
    }

    #[test]
    fn system_calls_on_other_folders_and_shared_memory_are_ignored() {
        let found = read(
            "7 pwrite64(3<⟨/dx/x⟩>, \"⟨ab⟩\", 2, 0) = 2\n\
             7 pwrite64(3<⟨/d/x-shm⟩>, \"⟨ab⟩\", 2, 0) = 2\n\
             7 mmap(NULL, 32768, PROT_READ|PROT_WRITE, MAP_SHARED, 3<⟨/d/x-shm⟩>, 0) = 0x7f00\n\
             7 openat(AT_FDCWD<⟨/d⟩>, \"⟨/lib/z⟩\", O_RDONLY) = 3<⟨/lib/z⟩>\n\
             7 write(2<⟨/d2⟩>, \"⟨/d/x⟩\", 4) = 4\n\
             7 pwrite64(3<⟨/d/x⟩>(deleted), \"⟨ab⟩\", 2, 0) = 2\n",
        );
        assert_eq!(found, Ok(Vec::new()));
    }

    #[test]
    fn unsupported_system_call_is_rejected() {
        for line in [
            "7 write(3<⟨/d/x⟩>, \"⟨ab⟩\", 2) = 2",
            "7 pwritev(3<⟨/d/x⟩>, [{iov_base=\"⟨ab⟩\", iov_len=2}], 1, 0) = 2",
            "7 rename(\"⟨/d/x⟩\", \"⟨/d/y⟩\") = 0",
            "7 rename(\"⟨/elsewhere/x⟩\", \"⟨/d/y⟩\") = 0",
            "7 fallocate(3<⟨/d/x⟩>, 0, 0, 10) = 0",
            "7 mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_SHARED, 3<⟨/d/x⟩>, 0) = 0x7f00",
            "7 copy_file_range(3<⟨/d/x⟩>, NULL, 4<⟨/d/y⟩>, NULL, 10, 0) = 10",
            "7 pwrite64(3<⟨/d/x⟩>, \"⟨ab⟩\"..., 2000, 0) = 2000",
            "7 openat(3<⟨/d⟩>, \"⟨x⟩\", O_RDWR|O_CREAT, 0644) = 4<⟨/d/x⟩>",
            "7 io_uring_enter(5, 1, 0, 0, NULL, 8) = 1",
            "7 <... pwrite64 resumed>) = 2",
            "7 pwrite64(3<⟨/d/x⟩>",
            "nonsense",
        ] {
            assert!(read(line).is_err(), "{line}");
        }
    }

    #[test]
    fn unfinished_sync_has_no_end_and_unfinished_write_is_rejected() {
        let ends = [
            " <unfinished ...>\n7 +++ killed by SIGKILL +++",
            " <unfinished ...>) = ?\n7 +++ killed by SIGKILL +++",
            ") = ?\n7 +++ killed by SIGKILL +++",
            " <unfinished ...>\n7 <... x resumed>) = ?\n7 +++ exited with 0 +++",
        ];
        for end in ends {
            let found = moments(&format!("7 fdatasync(3<⟨/d/x⟩>{end}"));
            assert_eq!(found, [(Action::Sync { file: "x".into() }, Stage::Begin)]);
            let write = format!("7 pwrite64(3<⟨/d/x⟩>, \"⟨ab⟩\", 2, 0{end}");
            assert!(read(&write).is_err(), "{write}");
        }
    }
}
