//! A line to the server that can be cut where it hurts.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use retain_testkit::postgres::TestDatabase;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

/// What happens to the next thing that a client says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    /// It never reaches the server.
    Before,
    /// The server hears and does it, but nobody hears the server.
    After,
}

#[derive(Debug, Default)]
struct Plan {
    /// What is cut, and the words that it happens at. Empty words are in everything.
    next: Mutex<Option<(Cut, &'static str)>>,
    commits: AtomicUsize,
    cuts: AtomicUsize,
}

/// A way to a test database.
#[derive(Debug)]
pub(super) struct Proxy {
    plan: Arc<Plan>,
    uri: String,
}

impl Proxy {
    pub(super) async fn new(database: &TestDatabase) -> Proxy {
        let uri = database.uri();
        let (before, rest) = uri.split_once('@').unwrap();
        let (server, database) = rest.split_once('/').unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let here = listener.local_addr().unwrap();
        let plan = Arc::new(Plan::default());
        let (server, for_lines) = (server.to_owned(), Arc::clone(&plan));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(&server).await.unwrap();
                client.set_nodelay(true).unwrap();
                server.set_nodelay(true).unwrap();
                tokio::spawn(line(client, server, Arc::clone(&for_lines)));
            }
        });
        // Encrypted, nobody would see where to cut.
        let uri = format!("{before}@{here}/{database}?sslmode=disable");
        Proxy { plan, uri }
    }

    pub(super) fn uri(&self) -> &str {
        &self.uri
    }

    /// Cuts the line at the next message with these words.
    pub(super) fn cut_next(&self, cut: Cut, words: &'static str) {
        *self.plan.next.lock().unwrap() = Some((cut, words));
    }

    /// How often the line was cut.
    pub(super) fn cuts(&self) -> usize {
        self.plan.cuts.load(Ordering::SeqCst)
    }

    /// How many transactions of more than one statement were committed.
    pub(super) fn commits(&self) -> usize {
        self.plan.commits.load(Ordering::SeqCst)
    }
}

fn has(message: &[u8], words: &str) -> bool {
    words.is_empty() || message.windows(words.len()).any(|w| w == words.as_bytes())
}

/// One connection, both ways.
async fn line(client: TcpStream, server: TcpStream, plan: Arc<Plan>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let answers = tokio::spawn(async move {
        let mut buffer = vec![0; 65536];
        while let Ok(length @ 1..) = from_server.read(&mut buffer).await {
            if to_client.write_all(&buffer[..length]).await.is_err() {
                break;
            }
        }
    });
    let mut buffer = vec![0; 65536];
    while let Ok(length @ 1..) = from_client.read(&mut buffer).await {
        let said = &buffer[..length];
        if has(said, "COMMIT") {
            plan.commits.fetch_add(1, Ordering::SeqCst);
        }
        let cut = {
            let mut next = plan.next.lock().unwrap();
            next.take_if(|(_, words)| has(said, words))
        };
        if cut.is_some() {
            plan.cuts.fetch_add(1, Ordering::SeqCst);
        }
        match cut.map(|(cut, _)| cut) {
            Some(Cut::Before) => break,
            Some(Cut::After) => {
                answers.abort();
                let _ = to_server.write_all(said).await;
                // The server goes on with what it has heard when the line ends, so this only has
                // to be heard.
                tokio::time::sleep(Duration::from_millis(100)).await;
                break;
            }
            None if to_server.write_all(said).await.is_err() => break,
            None => continue,
        }
    }
    answers.abort();
}
