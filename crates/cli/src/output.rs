//! Standard output and standard error, which do not panic when their reader is gone.

use std::{
    fmt,
    io::{self, Write as _},
};

use anyhow::Context as _;

/// The exit code after a closed pipe: what a shell reports for a program that SIGPIPE ended. It is
/// not 0, because a command that was cut off must not count as complete.
pub(crate) const CLOSED_PIPE_CODE: i32 = 141;

/// Prints a line to standard output, and returns from the function if that fails.
macro_rules! say {
    ($($text:tt)*) => {
        $crate::output::print_line(format_args!($($text)*))?
    };
}
pub(crate) use say;

/// Prints a line to standard error. A failure to write is ignored.
macro_rules! note {
    ($($text:tt)*) => {
        $crate::output::note_line(format_args!($($text)*))
    };
}
pub(crate) use note;

/// The error of a command whose reader closed standard output, as `head` does.
#[derive(Debug)]
struct ClosedPipe;

impl fmt::Display for ClosedPipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("standard output was closed")
    }
}

impl std::error::Error for ClosedPipe {}

pub(crate) fn print_line(text: fmt::Arguments<'_>) -> anyhow::Result<()> {
    check(writeln!(io::stdout(), "{text}"))
}

/// Prints a line to standard error. Ignores a failed write, because there is no other output on
/// which to report it.
pub(crate) fn note_line(text: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Converts the result of a write to standard output, with an error of its own for a closed pipe.
pub(crate) fn check(written: io::Result<()>) -> anyhow::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(ClosedPipe.into()),
        written => written.context("cannot write to standard output"),
    }
}

/// Whether a command failed only because its reader closed standard output. Other broken pipes,
/// such as a connection to a database, are errors.
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.is::<ClosedPipe>()
}
