//! A PostgreSQL server for one test, started by `scripts/services`, so that the test can kill it.

use std::process::{Command, Output};

use tempfile::TempDir;

use crate::skip;

/// Exit code of `scripts/services` if PostgreSQL is not installed.
const NOT_INSTALLED: i32 = 77;

/// A server that is deleted on drop.
pub(super) struct Postgres {
    dir: TempDir,
    pub(super) url: String,
}

impl Postgres {
    /// Starts a server, or records why the test is skipped.
    pub(super) fn start(test: &str) -> Option<Postgres> {
        let dir = retain_testkit::scratch::folder();
        let mut postgres = Postgres {
            dir,
            url: String::new(),
        };
        let started = postgres.services(&["start"]);
        if started.status.code() == Some(NOT_INSTALLED) {
            skip(test, String::from_utf8_lossy(&started.stdout).trim());
            return None;
        }
        let stderr = String::from_utf8_lossy(&started.stderr);
        assert!(started.status.success(), "{stderr}");
        let env = std::fs::read_to_string(postgres.dir.path().join("services/env")).unwrap();
        let url = env.trim().split_once("TEST_POSTGRES_URL=");
        postgres.url = url.unwrap().1.to_owned();
        Some(postgres)
    }

    fn services(&self, arguments: &[&str]) -> Output {
        let root = env!("CARGO_MANIFEST_DIR");
        let mut command = Command::new(format!("{root}/../../scripts/services"));
        // The server ends with this process, however the process ends.
        let owner = std::process::id().to_string();
        // The user that runs the server might not have access to the folder in TMPDIR.
        command.env_remove("TMPDIR").env("SVC_WANT", "postgres");
        command.args(["--owner", &owner]);
        command.arg("--dir").arg(self.dir.path().join("services"));
        command.args(arguments).output().unwrap()
    }

    fn run_services(&self, arguments: &[&str]) -> String {
        let done = self.services(arguments);
        let stderr = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{arguments:?}: {stderr}");
        String::from_utf8(done.stdout).unwrap()
    }

    /// Kills the whole server with SIGKILL.
    pub(super) fn kill(&self) {
        self.run_services(&["kill", "postgres"]);
    }

    /// Restarts the server on the same port and data.
    pub(super) fn restart(&self) {
        self.run_services(&["revive", "postgres"]);
    }

    /// Ends all other connections and returns their number.
    pub(super) fn terminate_backends(&self) -> usize {
        let sql = "SELECT count(*) FROM (SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                   WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()) AS ended";
        self.run_services(&["sql", "postgres", sql])
            .trim()
            .parse()
            .unwrap()
    }

    /// Returns the port of the server.
    pub(super) fn port(&self) -> u16 {
        let (_, rest) = self.url.rsplit_once(':').unwrap();
        rest.split('/').next().unwrap().parse().unwrap()
    }

    /// Returns the URI of the server through another port.
    pub(super) fn url_through(&self, port: u16) -> String {
        self.url
            .replace(&format!(":{}/", self.port()), &format!(":{port}/"))
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.services(&["stop"]);
    }
}
