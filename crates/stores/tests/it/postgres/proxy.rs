//! A proxy to the server that can end a connection at a chosen message.

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

/// When the connection ends, relative to the matching message of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    /// The message never reaches the server.
    Before,
    /// The server executes the message, but its answer is dropped.
    After,
}

/// The next cut, and counters of messages.
#[derive(Debug, Default)]
struct CutPlan {
    /// The cut, and the text that triggers it. An empty text matches every message.
    next: Mutex<Option<(Cut, &'static str)>>,
    commits: AtomicUsize,
    cuts: AtomicUsize,
}

/// A proxy to a test database.
#[derive(Debug)]
pub(super) struct Proxy {
    plan: Arc<CutPlan>,
    uri: String,
}

impl Proxy {
    pub(super) async fn new(database: &TestDatabase) -> Proxy {
        let uri = database.uri();
        let (before, rest) = uri.split_once('@').unwrap();
        let (server, database) = rest.split_once('/').unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let plan = Arc::new(CutPlan::default());
        let (server, shared_plan) = (server.to_owned(), Arc::clone(&plan));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(&server).await.unwrap();
                client.set_nodelay(true).unwrap();
                server.set_nodelay(true).unwrap();
                tokio::spawn(forward(client, server, Arc::clone(&shared_plan)));
            }
        });
        // The proxy cannot search encrypted messages for the text.
        let uri = format!("{before}@{address}/{database}?sslmode=disable");
        Proxy { plan, uri }
    }

    pub(super) fn uri(&self) -> &str {
        &self.uri
    }

    /// Cuts the connection at the next message that contains this text.
    pub(super) fn cut_next(&self, cut: Cut, text: &'static str) {
        *self.plan.next.lock().unwrap() = Some((cut, text));
    }

    /// Returns the number of cuts.
    pub(super) fn cuts(&self) -> usize {
        self.plan.cuts.load(Ordering::SeqCst)
    }

    /// Returns the number of messages with a COMMIT. An append in one statement sends none.
    pub(super) fn commits(&self) -> usize {
        self.plan.commits.load(Ordering::SeqCst)
    }
}

fn contains(message: &[u8], text: &str) -> bool {
    text.is_empty() || message.windows(text.len()).any(|w| w == text.as_bytes())
}

/// Forwards one connection in both directions.
async fn forward(client: TcpStream, server: TcpStream, plan: Arc<CutPlan>) {
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
        let message = &buffer[..length];
        if contains(message, "COMMIT") {
            plan.commits.fetch_add(1, Ordering::SeqCst);
        }
        let cut = {
            let mut next = plan.next.lock().unwrap();
            next.take_if(|(_, text)| contains(message, text))
        };
        if cut.is_some() {
            plan.cuts.fetch_add(1, Ordering::SeqCst);
        }
        match cut.map(|(cut, _)| cut) {
            Some(Cut::Before) => break,
            Some(Cut::After) => {
                answers.abort();
                let _ = to_server.write_all(message).await;
                // The server executes a received statement even if the connection ends. Give it
                // the time to receive this one.
                tokio::time::sleep(Duration::from_millis(100)).await;
                break;
            }
            None if to_server.write_all(message).await.is_err() => break,
            None => continue,
        }
    }
    answers.abort();
}
