//! HTTP server for the display fixture, for tests of client connections.

use hotdesk::base::tasks::Tasks;
use hotdesk::base::wait;
use hotdesk::http::serve::{BoundListener, serve};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use super::fixture::{DisplayFixture, TIMEOUT};
use crate::harness::caller::Caller;

/// A display fixture behind a server.
pub struct DisplayServer {
    pub fixture: DisplayFixture,
    address: String,
    tasks: Tasks,
}

impl DisplayServer {
    pub async fn start(fixture: DisplayFixture) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let (tasks, router) = (Tasks::new(), fixture.router());
        let group = tasks.clone();
        let _serving =
            tasks.spawn("agent", async move { serve(BoundListener::Tcp(listener), router, &group).await });
        Self { fixture, address, tasks }
    }

    /// A client with its own connection.
    pub fn client(&self) -> Client {
        Client(Caller::new(
            format!("http://{}", self.address),
            "",
            String::from("this server needs no token"),
        ))
    }

    /// Sends a request and disconnects as soon as `begun` returns true.
    pub async fn hang_up(&self, path: &str, body: &Value, mut begun: impl FnMut() -> bool) {
        let mut stream = TcpStream::connect(&self.address).await.expect("a connection");
        let body = body.to_string();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: agent\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await.expect("sent");
        stream.write_all(body.as_bytes()).await.expect("sent");
        let poll = || {
            let started = begun();
            async move { started.then_some(()) }
        };
        let started = wait::until(TIMEOUT, poll).await;
        assert!(started.is_some(), "{path} must begin");
        // Dropping the stream disconnects with the answer unread.
    }

    pub async fn close(self) {
        self.tasks.drain(TIMEOUT).await;
        self.fixture.close().await;
    }
}

/// One of several clients.
pub struct Client(Caller);

impl Client {
    /// A request that must succeed.
    pub async fn ok(&self, path: &str, body: Value) -> Value {
        let answer = self.0.post(path, body).await;
        assert_eq!((answer.status, &answer.body["success"]), (200, &json!(true)), "{path}: {}", answer.body);
        answer.body
    }

    pub async fn get(&self, path: &str) -> Value {
        self.0.get(path).await.body
    }

    /// A new screen's id and display.
    pub async fn new_screen(&self) -> (String, String) {
        let created = self.0.post("/screens", json!({})).await;
        let text = |name: &str| created.body[name].as_str().expect("a text").to_owned();
        (text("id"), text("display"))
    }
}
