//! HTTP client with an API key for a server under test.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::Value;

/// A response with a JSON body.
#[derive(Debug)]
pub struct HttpAnswer {
    pub status: u16,
    pub body: Value,
    pub took: Duration,
}

/// A server's address and an API key. The running servers of the harness dereference to it.
pub struct Caller {
    pub client: reqwest::Client,
    /// `http://ADDR:PORT`.
    pub base: String,
    pub key: String,
    /// Prefix of every path of a request with a key.
    pub prefix: &'static str,
}

impl Caller {
    pub fn new(base: String, prefix: &'static str, key: String) -> Self {
        Self { client: super::client(), base, key, prefix }
    }

    /// `ADDR:PORT`.
    pub fn address(&self) -> &str {
        self.base.trim_start_matches("http://")
    }

    /// A request builder with the key.
    pub fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.request_with(&self.key, method, path)
    }

    /// A request builder with another key.
    pub fn request_with(&self, key: &str, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.bare(method, &format!("{}{path}", self.prefix)).bearer_auth(key)
    }

    /// A request builder without a key and without the prefix.
    pub fn bare(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.client.request(method, format!("{}{path}", self.base))
    }

    pub async fn get(&self, path: &str) -> HttpAnswer {
        fetch_json(self.request(Method::GET, path)).await
    }

    pub async fn post(&self, path: &str, body: Value) -> HttpAnswer {
        fetch_json(self.request(Method::POST, path).json(&body)).await
    }

    pub async fn patch(&self, path: &str, body: Value) -> HttpAnswer {
        fetch_json(self.request(Method::PATCH, path).json(&body)).await
    }

    pub async fn delete(&self, path: &str) -> HttpAnswer {
        fetch_json(self.request(Method::DELETE, path)).await
    }

    /// Sends a POST that must answer 201, and returns the new record.
    pub async fn create(&self, path: &str, body: Value) -> Value {
        let created = self.post(path, body).await;
        assert_eq!(created.status, 201, "{}", created.body);
        created.body
    }
}

/// The `id` of a record.
pub fn id_of(record: &Value) -> String {
    record["id"].as_str().expect("an id").to_owned()
}

/// Sends a request and parses the JSON body of the response.
pub async fn fetch_json(request: reqwest::RequestBuilder) -> HttpAnswer {
    let started = Instant::now();
    let response = request.send().await.expect("an answer");
    let status = response.status().as_u16();
    let bytes = response.bytes().await.expect("a body");
    let body = serde_json::from_slice(&bytes)
        .unwrap_or_else(|error| panic!("{error} in {:?}", String::from_utf8_lossy(&bytes)));
    HttpAnswer { status, body, took: started.elapsed() }
}
