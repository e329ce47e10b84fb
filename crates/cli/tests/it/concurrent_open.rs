//! Several processes on one database from its creation: none fails because another one is creating,
//! opening or closing it.

use std::{process::Command, sync::Barrier};

use crate::{
    ledger::{Ledger, compare_all},
    program::{ChildProgram, RETAIN, append_arguments, uri},
    times,
};

const PROCESSES: usize = 6;

#[tokio::test(flavor = "multi_thread")]
async fn new_database_opens_in_many_processes_at_once() {
    for round in 0..times(15, 300) {
        let folder = retain_testkit::scratch::folder();
        let store = uri(&folder.path().join("sessions.db"));
        // In the first round the database is new; in the second, no process has it open.
        let names = (0..PROCESSES).map(|number| format!("client{number}"));
        let mut clients: Vec<Ledger> = names.map(|name| Ledger::new(&name, 1)).collect();
        for _ in 0..2 {
            let start = Barrier::new(PROCESSES);
            std::thread::scope(|scope| {
                for client in &mut clients {
                    scope.spawn(|| {
                        start.wait();
                        append_two(&store, client);
                    });
                }
            });
        }
        assert_eq!(compare_all(&store, &clients).await, [], "round {round}");
    }
}

fn append_two(store: &str, client: &mut Ledger) {
    let mut command = Command::new(RETAIN);
    append_arguments(&mut command, store, client);
    let exit = ChildProgram::start(command, client.outbox(2)).wait();
    assert!(exit.status.success(), "{}", exit.stderr);
    for line in &exit.lines {
        client.acknowledge_line(line);
    }
    assert_eq!(exit.lines.len(), 2);
}
