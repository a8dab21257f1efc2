//! Store of objects in an S3 bucket.
//!
//! `rusty_s3` signs each URL (AWS Signature Version 4, in the query), `reqwest` sends it. A URL allows its
//! request to everyone who knows it, so no error has one.

mod call;
mod failure;
#[cfg(test)]
pub(crate) mod test_server;
mod xml;

use std::time::{Duration, Instant};

use async_trait::async_trait;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use rusty_s3::Credentials;
use sha2::{Digest, Sha256};

use self::call::{CHECKSUM_HEADER, MAX_TEXT_BYTES, S3Call, SignedBucket};
use self::failure::{S3Failure, pause};
use self::xml::{ListPage, list_page};
use crate::store::{ObjectError, ObjectStore};
use hotdesk_base::step_error::StepError;

/// Timeout of a connection: a server that is reachable accepts it in less than a second.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Concurrent removals: a copy of 32 GiB has 8,000 objects, and each removal waits for the server.
const CONCURRENT_REMOVALS: usize = 16;

/// A store in an S3 bucket.
pub(crate) struct S3Store {
    http: reqwest::Client,
    bucket: SignedBucket,
}

impl S3Store {
    /// Uses a bucket below an endpoint, with this timeout of each attempt of a request. Sends nothing.
    ///
    /// # Errors
    /// When the endpoint or the name of the bucket is unusable, or the host has no certificate authorities.
    pub(crate) fn new(
        endpoint: &str,
        bucket: &str,
        region: &str,
        credentials: Credentials,
        timeout: Duration,
    ) -> Result<Self, StepError> {
        let bucket = SignedBucket::new(endpoint, bucket, region, credentials)?;
        // A process has one provider. The call fails when another one is installed, which works as well.
        drop(rustls::crypto::ring::default_provider().install_default());
        let http = reqwest::Client::builder()
            .https_only(!bucket.is_plain())
            // A signature is valid for one host.
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(timeout)
            .user_agent(concat!("hotdesk/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(StepError::at("the HTTP client of the object store"))?;
        Ok(Self { http, bucket })
    }

    /// Sends a call until it succeeds or its retries are used up, and returns the body of the answer.
    async fn send(&self, call: &S3Call<'_>) -> Result<Vec<u8>, ObjectError> {
        let start = Instant::now();
        let mut retries = 0;
        loop {
            let failure = match self.attempt(call).await {
                Ok(body) => return Ok(body),
                Err(failure) => failure,
            };
            let next = pause(retries, start.elapsed(), rand::random()).filter(|_| failure.is_transient);
            let Some(next) = next else { return Err(failure.into_error(call, retries)) };
            tokio::time::sleep(next).await;
            retries += 1;
        }
    }

    async fn attempt(&self, call: &S3Call<'_>) -> Result<Vec<u8>, S3Failure> {
        let mut request = self.http.request(call.method(), self.bucket.url(call));
        if let S3Call::Put { bytes, checksum, .. } = call {
            request = request.header(CHECKSUM_HEADER, checksum.as_str()).body(bytes.clone());
        }
        let response = request.send().await.map_err(S3Failure::transport)?;
        let status = response.status();
        if status.is_success() {
            return read(response, call.most()).await;
        }
        // The status suffices without its document.
        let document = read(response, MAX_TEXT_BYTES).await.unwrap_or_default();
        Err(S3Failure::status(status, &document))
    }

    async fn page(
        &self,
        prefix: &str,
        delimiter: Option<&'static str>,
        token: Option<&str>,
    ) -> Result<ListPage, ObjectError> {
        let document = self.send(&S3Call::List { prefix, delimiter, token }).await?;
        list_page(&document).map_err(|why| ObjectError::Failed(format!("the list of {prefix:?}: {why}")))
    }

    /// Lists all names and common prefixes behind a prefix.
    async fn list(
        &self,
        prefix: &str,
        delimiter: Option<&'static str>,
    ) -> Result<(Vec<String>, Vec<String>), ObjectError> {
        let (mut names, mut prefixes, mut token) = (Vec::new(), Vec::new(), None::<String>);
        loop {
            let page = self.page(prefix, delimiter, token.as_deref()).await?;
            names.extend(page.names);
            prefixes.extend(page.prefixes);
            if page.next.is_none() {
                return Ok((names, prefixes));
            }
            if page.next == token {
                return Err(ObjectError::Failed(format!("the list of {prefix:?} repeats a page")));
            }
            token = page.next;
        }
    }

    async fn delete(&self, name: String) -> Result<(), ObjectError> {
        match self.send(&S3Call::Delete { name: &name }).await {
            Ok(_) | Err(ObjectError::Missing) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

#[async_trait]
impl ObjectStore for S3Store {
    async fn put(&self, name: &str, bytes: Bytes) -> Result<(), ObjectError> {
        let checksum = BASE64_STANDARD.encode(Sha256::digest(&bytes));
        self.send(&S3Call::Put { name, bytes, checksum }).await.map(drop)
    }

    async fn get(&self, name: &str, most: usize) -> Result<Vec<u8>, ObjectError> {
        self.send(&S3Call::Get { name, most }).await
    }

    async fn remove(&self, folder: &str) -> Result<(), ObjectError> {
        let (names, _) = self.list(&format!("{folder}/"), None).await?;
        // One request for many objects needs MD5, and some servers do not know it.
        futures_util::stream::iter(names)
            .map(Ok::<_, ObjectError>)
            .try_for_each_concurrent(CONCURRENT_REMOVALS, |name| self.delete(name))
            .await
    }

    async fn folders(&self, folder: &str) -> Result<Vec<String>, ObjectError> {
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let (_, prefixes) = self.list(&prefix, Some("/")).await?;
        let names = prefixes.iter().filter_map(|found| found.strip_prefix(&prefix)?.strip_suffix('/'));
        Ok(names.map(str::to_owned).collect())
    }
}

/// Reads a body of at most `most` bytes.
async fn read(mut response: reqwest::Response, most: usize) -> Result<Vec<u8>, S3Failure> {
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(S3Failure::transport)? {
        if body.len() + piece.len() > most {
            return Err(S3Failure::too_long(most));
        }
        body.extend_from_slice(&piece);
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::test_server::{PlannedAnswer, TestServer};
    use super::*;

    const SLOW: &str = "<Error><Code>SlowDown</Code><Message>Wait.</Message></Error>";

    fn store_with_timeout(server: &TestServer, timeout: Duration) -> S3Store {
        let credentials = Credentials::new_with_token("an-id", "hunter2", "a/token=");
        S3Store::new(&server.origin, TestServer::BUCKET, "eu-central-1", credentials, timeout).unwrap()
    }

    /// A store whose server answers before the timeout, on a busy machine too.
    fn store_of(server: &TestServer) -> S3Store {
        store_with_timeout(server, crate::TIMEOUT)
    }

    fn failed_text<T>(outcome: Result<T, ObjectError>) -> String {
        match outcome {
            Err(ObjectError::Failed(text)) => text,
            Err(ObjectError::Missing) => panic!("the object is missing"),
            Ok(_) => panic!("the call succeeded"),
        }
    }

    #[tokio::test]
    async fn faults_of_the_server_and_the_connection_are_retried_twice() {
        use PlannedAnswer::{Closed, Cut, Status};
        let server = TestServer::start();
        let store = store_of(&server);
        for faults in [
            vec![Status(503, SLOW)],
            vec![Status(500, ""), Status(429, "")],
            vec![Closed, Closed],
            vec![Cut, Status(408, "")],
        ] {
            let attempts = faults.len() + 1;
            server.plan(faults.clone());
            store.put("a/part-0", Bytes::from_static(b"hello")).await.unwrap();
            assert_eq!(server.take_requests().len(), attempts, "{faults:?}");
            server.plan(faults.clone());
            assert_eq!(store.get("a/part-0", 5).await.unwrap(), b"hello");
            assert_eq!(server.take_requests().len(), attempts, "{faults:?}");
            server.plan(faults.clone());
            assert_eq!(store.folders("").await.unwrap(), ["a"]);
            assert_eq!(server.take_requests().len(), attempts, "{faults:?}");
            server.plan(faults);
            store.delete("a/part-0".to_owned()).await.unwrap();
            assert_eq!(server.take_requests().len(), attempts);
            assert_eq!(server.names(), [""; 0]);
        }
    }

    #[tokio::test]
    async fn the_third_fault_is_the_error_and_has_no_signature() {
        use PlannedAnswer::{Closed, Cut, Status};
        let server = TestServer::start();
        let store = store_of(&server);
        for fault in [Status(503, SLOW), Closed, Cut] {
            server.plan(vec![fault; 3]);
            let text = failed_text(store.get("a/part-0", 5).await);
            assert_eq!(server.take_requests().len(), 3, "{text}");
            assert!(text.starts_with("GET a/part-0: ") && text.ends_with(", after 2 retries"), "{text}");
            assert!(
                !text.contains("Signature") && !text.contains("token") && !text.contains("://"),
                "{text}"
            );
        }
        server.plan(vec![Status(503, SLOW); 3]);
        let text = failed_text(store.put("a", Bytes::new()).await);
        assert_eq!(text, "PUT a: 503 SlowDown: Wait., after 2 retries");
    }

    #[tokio::test]
    async fn refusals_and_redirects_are_not_retried() {
        use PlannedAnswer::Status;
        let server = TestServer::start();
        let store = store_of(&server);
        for status in [301, 307, 400, 403, 409] {
            server.plan(vec![Status(status, "")]);
            let text = failed_text(store.put("a", Bytes::from_static(b"x")).await);
            assert_eq!(text, format!("PUT a: {status}"));
            assert_eq!(server.take_requests().len(), 1);
        }
        assert_eq!(store.get("a", 1).await, Err(ObjectError::Missing));
        assert_eq!(server.take_requests().len(), 1);
    }

    #[tokio::test]
    async fn a_server_that_does_not_answer_is_a_timeout() {
        let server = TestServer::start();
        let store = store_with_timeout(&server, Duration::from_millis(200));
        server.plan(vec![PlannedAnswer::Silence; 3]);
        let text = failed_text(store.get("a", 1).await);
        assert!(text.contains("timed out") && text.ends_with("after 2 retries"), "{text}");
    }

    #[tokio::test]
    async fn a_server_that_is_gone_is_an_error_without_its_url() {
        let credentials = Credentials::new("an-id", "hunter2");
        // Nothing listens on port 1.
        let store = S3Store::new("http://127.0.0.1:1", "bucket", "us-east-1", credentials, crate::TIMEOUT);
        let text = failed_text(store.unwrap().get("a", 1).await);
        assert!(text.contains("refused") && !text.contains("Signature"), "{text}");
    }

    #[tokio::test]
    async fn answers_are_bounded() {
        let server = TestServer::start();
        let store = store_of(&server);
        store.put("a", Bytes::from_static(b"hello")).await.unwrap();
        assert_eq!(store.get("a", 5).await.unwrap(), b"hello");
        server.take_requests();
        assert!(failed_text(store.get("a", 4).await).contains("longer than 4 bytes"));
        assert_eq!(server.take_requests().len(), 1);
    }

    #[tokio::test]
    async fn an_object_is_sent_with_its_checksum() {
        let server = TestServer::start();
        let store = store_of(&server);
        store.put("a", Bytes::from_static(b"hello")).await.unwrap();
        let requests = server.take_requests();
        let [sent] = &requests[..] else { panic!("{requests:?}") };
        let expected = BASE64_STANDARD.encode(Sha256::digest(b"hello"));
        assert_eq!(sent.header(CHECKSUM_HEADER), Some(expected.as_str()));
        assert_eq!(sent.header("content-length"), Some("5"));
        assert_eq!(sent.header("authorization"), None);
    }

    #[tokio::test]
    async fn lists_have_all_pages() {
        let server = TestServer::start();
        let store = store_of(&server);
        for name in ["b/1/x", "b/2/x", "b/2/y", "b/3/x", "b/4/x", "b/5/x", "b2/6/x", "c"] {
            store.put(name, Bytes::from_static(b"x")).await.unwrap();
        }
        server.take_requests();
        assert_eq!(store.folders("b").await.unwrap(), ["1", "2", "3", "4", "5"]);
        assert_eq!(server.take_requests().len(), 3, "two entries are a page");
        assert_eq!(store.folders("").await.unwrap(), ["b", "b2"]);
        assert_eq!(store.folders("d").await.unwrap(), [""; 0]);
        store.remove("b").await.unwrap();
        assert_eq!(server.names(), ["b2/6/x", "c"]);
        store.remove("b").await.unwrap();
    }

    #[tokio::test]
    async fn a_list_that_repeats_a_page_or_is_none_is_an_error() {
        use PlannedAnswer::Status;
        let page = "<ListBucketResult><Contents><Key>a/x</Key></Contents>\
                    <NextContinuationToken>again</NextContinuationToken></ListBucketResult>";
        let server = TestServer::start();
        let store = store_of(&server);
        server.plan(vec![Status(200, page); 2]);
        assert!(failed_text(store.folders("a").await).contains("repeats a page"));
        server.plan(vec![Status(200, "<html></html>")]);
        assert!(failed_text(store.remove("a").await).contains("no list of objects"));
        server.plan(vec![Status(404, "<Error><Code>NoSuchBucket</Code></Error>")]);
        assert_eq!(failed_text(store.folders("a").await), "GET a/: 404 NoSuchBucket");
    }

    #[tokio::test]
    async fn a_removal_that_fails_in_part_is_repeated() {
        use PlannedAnswer::{Pass, Status};
        let server = TestServer::start();
        let store = store_of(&server);
        for number in 0..5 {
            store.put(&format!("a/part-{number}"), Bytes::from_static(b"x")).await.unwrap();
        }
        // The list has three pages; then one removal is refused.
        server.plan(vec![Pass, Pass, Pass, Status(403, "")]);
        let text = failed_text(store.remove("a").await);
        assert!(text.starts_with("DELETE a/part-") && text.ends_with(": 403"), "{text}");
        assert!(!server.names().is_empty());
        store.remove("a").await.unwrap();
        assert_eq!(server.names(), [""; 0]);
    }
}
