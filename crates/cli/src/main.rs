//! The program `retain`: arguments, then composition. A command, a file under `commands/`.

mod commands;

use std::ffi::OsStr;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use commands::{append, backup, check, demo, erase, export, import, keys, memory, migrate, serve};

/// Durable sessions, scoped state and long-term memory for AI agents.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve agents over HTTP: ADK's API, and Retain's own.
    Serve(Box<serve::Serve>),
    /// Make, list and revoke the keys of a server.
    Keys(keys::Keys),
    /// Tell a story in the terminal: memory across sessions, state, rewind, fork, crash.
    Demo(demo::Demo),
    /// Append events (JSON Lines on standard input) to a session; each is acknowledged when durable.
    Append(append::Append),
    /// Write sessions as JSON Lines to standard output, without loss.
    Export(export::Export),
    /// Read sessions (JSON Lines of an export) from standard input.
    Import(import::Import),
    /// Look for damage in a database.
    Check(check::Check),
    /// Copy a database, as it is at one moment, to a new file while it is in use.
    Backup(backup::Backup),
    /// Copy everything of one store to another, and compare both.
    Migrate(migrate::Migrate),
    /// Remove everything of a user, leaving no byte of it behind.
    Erase(erase::Erase),
    /// See, search and forget what is remembered of a user.
    Memory(memory::Memory),
}

/// What the program was told. A variable that is set to nothing is not set: whoever writes
/// `RETAIN_PORT=` wants what is usual.
fn arguments() -> Arguments {
    let command = without_empty_variables(Arguments::command());
    let read = Arguments::from_arg_matches(&command.get_matches());
    read.unwrap_or_else(|error| error.exit())
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
    if let Err(error) = run(arguments().command).await {
        eprintln!("error: {error}");
        for cause in error.chain().skip(1) {
            eprintln!("  because: {cause}");
        }
        // Not by returning: the runtime would wait for a read of standard input to end.
        std::process::exit(1);
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
        Command::Migrate(migrate) => migrate.run().await,
        Command::Erase(erase) => erase.run().await,
        Command::Memory(memory) => memory.run().await,
    }
}
