//! How does a test ask? HTTP with a key against a server that it has booted.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::Value;

/// What a server answered.
#[derive(Debug)]
pub struct Answered {
    pub status: u16,
    pub body: Value,
    pub took: Duration,
}

/// A server's address and the key to it; what the harness boots is one too.
pub struct Caller {
    pub client: reqwest::Client,
    /// `http://ADDR:PORT`.
    pub base: String,
    pub key: String,
    /// What stands before every path that is asked with the key.
    pub prefix: &'static str,
}

impl Caller {
    /// A caller that speaks `ADDR:PORT`'s API below `prefix`.
    pub fn new(base: String, prefix: &'static str, key: String) -> Self {
        Self { client: super::client(), base, key, prefix }
    }

    /// `ADDR:PORT`.
    pub fn address(&self) -> &str {
        self.base.trim_start_matches("http://")
    }

    /// A request with the key, to be completed.
    pub fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.request_with(&self.key, method, path)
    }

    /// A request with another key.
    pub fn request_with(&self, key: &str, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.bare(method, &format!("{}{path}", self.prefix)).bearer_auth(key)
    }

    /// A request without a key, from the root.
    pub fn bare(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.client.request(method, format!("{}{path}", self.base))
    }

    pub async fn get(&self, path: &str) -> Answered {
        answered(self.request(Method::GET, path)).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answered {
        answered(self.request(Method::POST, path).json(&body)).await
    }

    pub async fn patch(&self, path: &str, body: Value) -> Answered {
        answered(self.request(Method::PATCH, path).json(&body)).await
    }

    pub async fn delete(&self, path: &str) -> Answered {
        answered(self.request(Method::DELETE, path)).await
    }

    /// What a POST made: its record.
    pub async fn made(&self, path: &str, body: Value) -> Value {
        let made = self.post(path, body).await;
        assert_eq!(made.status, 201, "{}", made.body);
        made.body
    }
}

/// The id in a record.
pub fn id_of(record: &Value) -> String {
    record["id"].as_str().expect("an id").to_owned()
}

pub async fn answered(request: reqwest::RequestBuilder) -> Answered {
    let started = Instant::now();
    let response = request.send().await.expect("an answer");
    let status = response.status().as_u16();
    let bytes = response.bytes().await.expect("a body");
    let body = serde_json::from_slice(&bytes)
        .unwrap_or_else(|error| panic!("{error} in {:?}", String::from_utf8_lossy(&bytes)));
    Answered { status, body, took: started.elapsed() }
}
