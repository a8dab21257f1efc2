//! Backends of the object store: a local folder or an S3 bucket, with its credentials.
//!
//! Credentials come from a file or the environment, never from the configuration, because `hotdesk config`
//! prints it.

use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use object_store::RetryConfig;
use object_store::aws::{AmazonS3Builder, Checksum};
use object_store::local::LocalFileSystem;
use serde::Deserialize;

use super::client::BucketConnector;
use super::{Objects, TIMEOUT};
use hotdesk_base::secret::Secret;
use hotdesk_base::step_error::StepError;

/// Retries of one request, and their timeout in total. Both are small, because callers retry too.
const RETRIES: usize = 2;
const RETRY_TIMEOUT: Duration = Duration::from_secs(30);
/// Region in the signature when none is set. S3 servers other than Amazon's accept it.
const DEFAULT_REGION: &str = "us-east-1";

/// Location of the object store.
#[derive(Clone, Debug, Default)]
pub struct ObjectStoreSettings {
    /// Absolute path of a folder, or `s3://BUCKET/PREFIX`.
    pub url: String,
    /// Origin of an S3 server other than Amazon's; empty for Amazon.
    pub endpoint: String,
    /// Region of the server; empty means `us-east-1`.
    pub region: String,
}

/// Access key of an S3 bucket.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct S3Credentials {
    /// Access key id.
    pub access_key_id: Secret,
    /// Secret access key.
    pub secret_access_key: Secret,
    /// Session token, for temporary keys only.
    #[serde(default)]
    pub session_token: Option<Secret>,
}

impl S3Credentials {
    /// Reads a TOML file with mode 0600. Without a file, reads the `AWS_*` variables of the environment.
    ///
    /// # Errors
    /// With the file's path and the reason, without the contents.
    pub fn find(file: Option<&Path>) -> Result<Self, StepError> {
        let Some(file) = file else { return Self::from_environment() };
        let name = format!("credentials file {}", file.display());
        let mode = file.metadata().map_err(StepError::at(&name))?.permissions().mode();
        if mode & 0o077 != 0 {
            return Err(StepError::new(format!("{name}: others may read it: run chmod 0600 on it")));
        }
        let text = std::fs::read_to_string(file).map_err(StepError::at(&name))?;
        // The parser's error would quote the line, which may hold the key.
        toml::from_str(&text).map_err(|_| {
            StepError::new(format!("{name}: it must be TOML with access_key_id and secret_access_key"))
        })
    }

    fn from_environment() -> Result<Self, StepError> {
        let read = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty()).map(Secret::new);
        let (Some(access_key_id), Some(secret_access_key)) =
            (read("AWS_ACCESS_KEY_ID"), read("AWS_SECRET_ACCESS_KEY"))
        else {
            return Err(StepError::new(
                "no S3 credentials: set a credentials file, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
            ));
        };
        Ok(Self { access_key_id, secret_access_key, session_token: read("AWS_SESSION_TOKEN") })
    }
}

impl Objects {
    /// Opens a store. A missing folder is created with mode 0700. A bucket must exist; it is contacted at its
    /// first use, so that a controller starts while its store is down.
    ///
    /// # Errors
    /// When the URL, the credentials or the folder is unusable.
    pub fn open(settings: &ObjectStoreSettings, credentials_file: Option<&Path>) -> Result<Self, StepError> {
        match settings.url.strip_prefix("s3://") {
            Some(bucket) => open_bucket(settings, bucket, &S3Credentials::find(credentials_file)?),
            None => open_folder(settings),
        }
    }
}

fn open_folder(settings: &ObjectStoreSettings) -> Result<Objects, StepError> {
    let folder = PathBuf::from(&settings.url);
    if !folder.is_absolute() {
        return Err(StepError::new(format!(
            "the URL of the object store {:?} is neither an absolute path nor s3://BUCKET",
            settings.url
        )));
    }
    // Mode 0700: the objects hold the memory of computers.
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
    made.map_err(StepError::at(folder.display().to_string()))?;
    let store = LocalFileSystem::new_with_prefix(&folder).map_err(unusable)?;
    let mut objects = Objects::over(Arc::new(store.with_fsync(true)), TIMEOUT);
    objects.folder = Some(folder);
    Ok(objects)
}

/// The text of the store's library names the store and the cause.
fn unusable(error: object_store::Error) -> StepError {
    StepError::new(error.to_string())
}

fn open_bucket(
    settings: &ObjectStoreSettings,
    bucket: &str,
    credentials: &S3Credentials,
) -> Result<Objects, StepError> {
    let (bucket, prefix) = bucket.split_once('/').unwrap_or((bucket, ""));
    // A process has one provider. The call fails when another one is installed, which works as well.
    drop(rustls::crypto::ring::default_provider().install_default());
    let retry = RetryConfig { max_retries: RETRIES, retry_timeout: RETRY_TIMEOUT, ..RetryConfig::default() };
    let region = if settings.region.is_empty() { DEFAULT_REGION } else { &settings.region };
    let mut builder = AmazonS3Builder::new()
        .with_bucket_name(bucket)
        .with_region(region)
        .with_access_key_id(credentials.access_key_id.reveal())
        .with_secret_access_key(credentials.secret_access_key.reveal())
        .with_checksum_algorithm(Checksum::SHA256)
        .with_http_connector(BucketConnector { allows_http: settings.endpoint.starts_with("http://") })
        .with_retry(retry);
    if !settings.endpoint.is_empty() {
        builder = builder.with_endpoint(&settings.endpoint);
    }
    if let Some(token) = &credentials.session_token {
        builder = builder.with_token(token.reveal());
    }
    let store = builder.build().map_err(unusable)?;
    let mut objects = Objects::over(Arc::new(store), TIMEOUT);
    objects.secrets = [Some(&credentials.access_key_id), Some(&credentials.secret_access_key)]
        .into_iter()
        .chain([credentials.session_token.as_ref()])
        .flatten()
        .cloned()
        .collect();
    Ok(prefix.split('/').filter(|part| !part.is_empty()).fold(objects, |objects, part| objects.within(part)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(url: &str) -> ObjectStoreSettings {
        ObjectStoreSettings { url: url.to_owned(), ..ObjectStoreSettings::default() }
    }

    #[test]
    fn a_folder_is_private_and_a_bucket_needs_credentials_that_others_cannot_read() {
        let temp = tempfile::tempdir().unwrap();
        let folder = temp.path().join("copies");
        Objects::open(&settings(&folder.display().to_string()), None).unwrap();
        assert_eq!(folder.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        assert!(Objects::open(&settings("copies"), None).unwrap_err().to_string().contains("absolute"));

        let file = temp.path().join("credentials");
        let open = || Objects::open(&settings("s3://bucket/a/b"), Some(&file));
        assert!(open().unwrap_err().to_string().contains("credentials"));
        let mode = |mode| std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        std::fs::write(&file, "access_key_id = \"one\"\nsecret_access_key = \"hunter2\"\n").unwrap();
        mode(0o644);
        assert!(open().unwrap_err().to_string().contains("0600"));
        mode(0o600);
        let opened = open().unwrap();
        assert_eq!(opened.root.as_ref(), "a/b");
        assert!(!format!("{opened:?}").contains("hunter2"));
        std::fs::write(&file, "secret_access_key = hunter2").unwrap();
        let refused = format!("{:#}", open().unwrap_err());
        assert!(refused.contains("TOML") && !refused.contains("hunter2"), "{refused}");
    }
}
