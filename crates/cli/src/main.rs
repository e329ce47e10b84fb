//! The program `retain` parses its arguments and runs one command. `commands/` has a module for
//! each.
#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "these macros panic when a pipe is closed; use `output`"
)]

mod commands;
mod output;

use std::ffi::OsStr;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use commands::{
    append, backup, check, demo, erase, export, import, keys, memory, migrate, restore, serve,
    sweep, upgrade, usage,
};
use output::note;

/// Durable sessions, scoped state and long-term memory for AI agents.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve agents over HTTP, with ADK's API and Retain's own.
    Serve(Box<serve::Serve>),
    /// Create, list and revoke a server's API keys.
    Keys(keys::Keys),
    /// Show memory across sessions, state, rewind, fork and a crash in the terminal.
    Demo(demo::Demo),
    /// Append events (JSON Lines on standard input) to a session; print an acknowledgement when each is durable.
    Append(append::Append),
    /// Export sessions, memories and artifacts as lossless JSON Lines to standard output.
    Export(export::Export),
    /// Import the JSON Lines of an export from standard input.
    Import(import::Import),
    /// Check the stores for corruption, and repair them.
    Check(check::Check),
    /// Copy all stores while they are in use.
    Backup(backup::Backup),
    /// Print what a user or an app has stored.
    Usage(usage::Usage),
    /// Restore a backup of all stores to an empty place.
    Restore(restore::Restore),
    /// Upgrade the schema of a database; with --finish, complete the upgrade.
    Upgrade(upgrade::Upgrade),
    /// Copy everything from one store to another, then compare both.
    Migrate(migrate::Migrate),
    /// Erase all data of a user irrecoverably.
    Erase(erase::Erase),
    /// Delete expired sessions with their artifacts and memories, and expired memories.
    Sweep(sweep::Sweep),
    /// List, search, add and forget a user's memories.
    Memory(memory::Memory),
}

/// Parses the arguments. An empty environment variable counts as unset, so `RETAIN_PORT=` selects
/// the default.
fn arguments() -> Result<Arguments, clap::Error> {
    let command = without_empty_variables(Arguments::command());
    Arguments::from_arg_matches(&command.try_get_matches()?)
}

fn without_empty_variables(command: clap::Command) -> clap::Command {
    let is_empty = |name: &OsStr| std::env::var_os(name).is_some_and(|value| value.is_empty());
    let command = command.mut_args(|arg| match arg.get_env() {
        Some(name) if is_empty(name) => arg.env(None::<&'static str>),
        _ => arg,
    });
    command.mut_subcommands(without_empty_variables)
}

#[tokio::main]
async fn main() {
    let ended = match arguments() {
        Ok(arguments) => run(arguments.command).await,
        Err(error) if error.use_stderr() => error.exit(),
        Err(help) => output::check(help.print()),
    };
    if let Err(error) = ended {
        // Exit here. Returning would drop the runtime, which waits until a read of standard input
        // ends.
        std::process::exit(report(&error));
    }
}

/// Prints an error and returns the exit code for it.
fn report(error: &anyhow::Error) -> i32 {
    if output::is_closed_pipe(error) {
        return output::CLOSED_PIPE_CODE;
    }
    note!("error: {error}");
    for cause in error.chain().skip(1) {
        note!("  because: {cause}");
    }
    match error.is::<check::CheckIncomplete>() {
        true => check::INCOMPLETE_CODE,
        false => 1,
    }
}

async fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Serve(serve) => serve.run().await,
        Command::Keys(keys) => keys.run().await,
        Command::Demo(demo) => demo.run().await,
        Command::Append(append) => append.run().await,
        Command::Export(export) => export.run().await,
        Command::Import(import) => import.run().await,
        Command::Check(check) => check.run().await,
        Command::Backup(backup) => backup.run().await,
        Command::Usage(usage) => usage.run().await,
        Command::Restore(restore) => restore.run().await,
        Command::Upgrade(upgrade) => upgrade.run().await,
        Command::Migrate(migrate) => migrate.run().await,
        Command::Erase(erase) => erase.run().await,
        Command::Sweep(sweep) => sweep.run().await,
        Command::Memory(memory) => memory.run().await,
    }
}
