//! Calls of the S3 API and their signed URLs.

use std::time::Duration;

use bytes::Bytes;
use reqwest::{Method, Url};
use rusty_s3::{Bucket, Credentials, S3Action, UrlStyle};

use hotdesk_base::step_error::StepError;

/// Validity of a signed URL. Amazon allows clocks to differ by as much (`RequestTimeTooSkewed`).
const SIGNATURE_LIFETIME: Duration = Duration::from_secs(15 * 60);
/// Header with the SHA-256 of an object, which the server compares with what it received.
pub(super) const CHECKSUM_HEADER: &str = "x-amz-checksum-sha256";

/// Longest answer to a list, in bytes: 1,000 names of at most 1 KiB, escaped, and their attributes.
const MAX_LIST_BYTES: usize = 8 << 20;
/// Longest answer that only confirms, and longest text of an error that is read, in bytes.
pub(super) const MAX_TEXT_BYTES: usize = 64 << 10;

/// A call of the S3 API.
#[derive(Debug)]
pub(super) enum S3Call<'a> {
    /// Stores an object, with its SHA-256 in base64.
    Put { name: &'a str, bytes: Bytes, checksum: String },
    /// Reads an object of at most `most` bytes.
    Get { name: &'a str, most: usize },
    /// Removes an object.
    Delete { name: &'a str },
    /// Lists objects whose names begin with a prefix. Those with the delimiter behind it are combined.
    List { prefix: &'a str, delimiter: Option<&'static str>, token: Option<&'a str> },
}

impl S3Call<'_> {
    pub(super) fn method(&self) -> Method {
        match self {
            Self::Put { .. } => Method::PUT,
            Self::Get { .. } | Self::List { .. } => Method::GET,
            Self::Delete { .. } => Method::DELETE,
        }
    }

    /// Object or prefix, for errors.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Put { name, .. } | Self::Get { name, .. } | Self::Delete { name } => name,
            Self::List { prefix, .. } => prefix,
        }
    }

    /// Length of the longest answer in bytes.
    pub(super) fn most(&self) -> usize {
        match self {
            Self::Get { most, .. } => *most,
            Self::List { .. } => MAX_LIST_BYTES,
            Self::Put { .. } | Self::Delete { .. } => MAX_TEXT_BYTES,
        }
    }
}

/// A bucket and the key that signs its URLs.
pub(super) struct SignedBucket {
    bucket: Bucket,
    credentials: Credentials,
}

impl SignedBucket {
    /// Uses a bucket by the path below its endpoint, as every S3 server knows it.
    ///
    /// # Errors
    /// When the endpoint is no address of HTTP, or the name cannot be that of a bucket.
    pub(super) fn new(
        endpoint: &str,
        bucket: &str,
        region: &str,
        credentials: Credentials,
    ) -> Result<Self, StepError> {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if bucket.trim_matches('.').is_empty() || !bucket.chars().all(is_allowed) {
            return Err(StepError::new(format!(
                "the URL of the object store: {bucket:?} is no name of a bucket: use letters, digits, points \
                 and hyphens"
            )));
        }
        let step = format!("the endpoint of the object store {endpoint:?}");
        let mut address = Url::parse(endpoint).map_err(StepError::at(&step))?;
        // The bucket is appended to the whole path.
        if !address.path().ends_with('/') {
            address.set_path(&format!("{}/", address.path()));
        }
        let bucket = Bucket::new(address, UrlStyle::Path, bucket.to_owned(), region.to_owned())
            .map_err(StepError::at(&step))?;
        Ok(Self { bucket, credentials })
    }

    /// Whether requests are not encrypted.
    pub(super) fn is_plain(&self) -> bool {
        self.bucket.base_url().scheme() == "http"
    }

    /// Returns the signed URL of a call.
    pub(super) fn url(&self, call: &S3Call<'_>) -> Url {
        let credentials = Some(&self.credentials);
        match call {
            S3Call::Put { name, checksum, .. } => {
                let mut action = self.bucket.put_object(credentials, name);
                action.headers_mut().insert(CHECKSUM_HEADER, checksum.as_str());
                action.sign(SIGNATURE_LIFETIME)
            }
            S3Call::Get { name, .. } => self.bucket.get_object(credentials, name).sign(SIGNATURE_LIFETIME),
            S3Call::Delete { name } => self.bucket.delete_object(credentials, name).sign(SIGNATURE_LIFETIME),
            S3Call::List { prefix, delimiter, token } => {
                // The list of `rusty_s3` comes with a parser that refuses other XML namespaces than Amazon's.
                // Without a name, a read is a request to the bucket, and its query makes it a list.
                let mut action = self.bucket.get_object(credentials, "");
                let query = action.query_mut();
                query.insert("list-type", "2");
                query.insert("prefix", *prefix);
                if let Some(delimiter) = delimiter {
                    query.insert("delimiter", *delimiter);
                }
                if let Some(token) = token {
                    query.insert("continuation-token", *token);
                }
                action.sign(SIGNATURE_LIFETIME)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(endpoint: &str) -> SignedBucket {
        let credentials = Credentials::new_with_token("an-id", "hunter2", "a/token=");
        SignedBucket::new(endpoint, "bucket", "eu-central-1", credentials).unwrap()
    }

    /// A URL without its query, and the query.
    fn parts(mut url: Url) -> (String, Vec<(String, String)>) {
        let query = url.query_pairs().into_owned().collect();
        url.set_query(None);
        (url.to_string(), query)
    }

    fn value<'a>(query: &'a [(String, String)], name: &str) -> Option<&'a str> {
        query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    #[test]
    fn objects_are_below_the_bucket_and_the_bucket_below_the_endpoint() {
        for (endpoint, name, expected) in [
            ("https://s3.example.org", "a/b-1/part-0", "https://s3.example.org/bucket/a/b-1/part-0"),
            ("https://s3.example.org/", "a", "https://s3.example.org/bucket/a"),
            ("https://example.org/s3", "a", "https://example.org/s3/bucket/a"),
            ("https://example.org/s3/", "a", "https://example.org/s3/bucket/a"),
            ("http://127.0.0.1:9000", "a", "http://127.0.0.1:9000/bucket/a"),
            // The key itself has a percent sign.
            ("https://s3.example.org", "a%23/b c", "https://s3.example.org/bucket/a%2523/b%20c"),
            ("https://s3.example.org", "%2E%2E/b", "https://s3.example.org/bucket/%252E%252E/b"),
        ] {
            let bucket = bucket(endpoint);
            assert_eq!(bucket.is_plain(), endpoint.starts_with("http://"));
            for call in [
                S3Call::Put { name, bytes: Bytes::new(), checksum: String::new() },
                S3Call::Get { name, most: 1 },
                S3Call::Delete { name },
            ] {
                assert_eq!(parts(bucket.url(&call)).0, expected, "{call:?}");
            }
        }
    }

    #[test]
    fn unusable_addresses_and_names_are_refused() {
        for (endpoint, name) in [
            ("s3.example.org", "bucket"),
            ("ftp://s3.example.org", "bucket"),
            ("", "bucket"),
            ("https://s3.example.org", ""),
            ("https://s3.example.org", ".."),
            ("https://s3.example.org", "a:b"),
            ("https://s3.example.org", "a?b"),
        ] {
            let made = SignedBucket::new(endpoint, name, "us-east-1", Credentials::new("an-id", "hunter2"));
            let Err(error) = made else { panic!("{endpoint} {name}") };
            assert!(format!("{error:#}").starts_with("the "), "{error:#}");
        }
    }

    #[test]
    fn every_url_is_signed_for_the_region_with_the_session_and_without_the_secret() {
        let bucket = bucket("https://s3.example.org");
        let checksum = "c2hh+/8=".to_owned();
        for (call, headers) in [
            (S3Call::Put { name: "a", bytes: Bytes::new(), checksum }, "host;x-amz-checksum-sha256"),
            (S3Call::Get { name: "a", most: 1 }, "host"),
            (S3Call::Delete { name: "a" }, "host"),
            (S3Call::List { prefix: "a/", delimiter: None, token: None }, "host"),
        ] {
            let url = bucket.url(&call);
            assert!(!url.as_str().contains("hunter2"), "{call:?}");
            let (_, query) = parts(url);
            let credential = value(&query, "X-Amz-Credential").unwrap();
            assert!(credential.starts_with("an-id/"), "{credential}");
            assert!(credential.ends_with("/eu-central-1/s3/aws4_request"), "{credential}");
            assert_eq!(value(&query, "X-Amz-Security-Token"), Some("a/token="));
            assert_eq!(value(&query, "X-Amz-SignedHeaders"), Some(headers));
            assert_eq!(value(&query, "X-Amz-Expires"), Some("900"));
            assert!(value(&query, "X-Amz-Signature").is_some_and(|text| text.len() == 64), "{query:?}");
        }
    }

    #[test]
    fn a_list_is_a_query_of_the_bucket() {
        let bucket = bucket("https://s3.example.org");
        for (prefix, delimiter, token) in
            [("a/", None, None), ("", Some("/"), None), ("a b/", Some("/"), Some("t+/="))]
        {
            let (address, query) = parts(bucket.url(&S3Call::List { prefix, delimiter, token }));
            assert_eq!(address, "https://s3.example.org/bucket/");
            assert_eq!(value(&query, "list-type"), Some("2"));
            assert_eq!(value(&query, "prefix"), Some(prefix));
            assert_eq!(value(&query, "delimiter"), delimiter);
            assert_eq!(value(&query, "continuation-token"), token);
        }
    }
}
