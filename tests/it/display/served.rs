//! The display room's routes over real connections: what a client can do to them that a call cannot.

use hotdesk::base::tasks::Tasks;
use hotdesk::base::wait;
use hotdesk::http::serve::{Bound, serve};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use super::desk::{Desk, TIMEOUT};
use crate::harness::caller::Caller;

/// A display room and the server before it.
pub struct Served {
    pub desk: Desk,
    address: String,
    tasks: Tasks,
}

impl Served {
    pub async fn of(desk: Desk) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let (tasks, router) = (Tasks::new(), desk.router());
        let group = tasks.clone();
        let _serving = tasks.spawn("agent", async move { serve(Bound::Tcp(listener), router, &group).await });
        Self { desk, address, tasks }
    }

    /// A client with a connection of its own.
    pub fn client(&self) -> Client {
        Client(Caller::new(
            format!("http://{}", self.address),
            "",
            String::from("no token is asked for here"),
        ))
    }

    /// Sends a request whose client hangs up as soon as `begun`.
    pub async fn hang_up(&self, path: &str, body: &Value, mut begun: impl FnMut() -> bool) {
        let mut stream = TcpStream::connect(&self.address).await.expect("a connection");
        let body = body.to_string();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: agent\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await.expect("sent");
        stream.write_all(body.as_bytes()).await.expect("sent");
        let look = || {
            let seen = begun();
            async move { seen.then_some(()) }
        };
        let seen = wait::until(TIMEOUT, look).await;
        assert!(seen.is_some(), "{path} did not begin");
        // Dropped here, with the answer unread.
    }

    pub async fn close(self) {
        self.tasks.drain(TIMEOUT).await;
        self.desk.close().await;
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
        let made = self.0.post("/screens", json!({})).await;
        let text = |name: &str| made.body[name].as_str().expect("a text").to_owned();
        (text("id"), text("display"))
    }
}
