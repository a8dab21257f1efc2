//! Publication of the guest image: one upload, then a fetch by each member that lacks the image.
//!
//! ```text
//!   lock -- remove leftovers -- find, or archive and upload -- mark, alias -- each member: temporary instance, removed again
//!                                          with gVisor: volume on the first member ----^ volume, copied from another member
//! ```
//! A member fetches and unpacks an image when it makes its first instance of it; Incus has no other call for that. Each step
//! looks first what is there, so a publication that was interrupted continues when it is run again. The image comes before its
//! volumes: its properties keep them from removals by other installations.

use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream;
use hyper::Method;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::base::BaseVolumes;
use super::members::{MemberImage, list_members};
use super::{AgentFile, GuestImage, PUBLISH, mark, property};
use crate::driver::layers::remove_tree;
use crate::host::command::host_error;
use crate::host::files::{private_folder, remove_if_there};
use crate::incus::client::{Client, ClientError};
use crate::incus::documents::{
    self, IMAGE_AGENT, IMAGE_BASE, IMAGE_BYTES, IMAGE_ID, ImageRecord, PUBLICATION,
};
use crate::{EngineError, EngineResult};
use hotdesk_base::hex::hex;
use hotdesk_base::tasks::spawn_blocking;

/// Members that fetch at once. Most fetch from the same member, whose link they share.
const FETCHES_AT_ONCE: usize = 4;
/// Attempts of one member. A failure that lasts is the operator's.
const FETCH_ATTEMPTS: usize = 3;
/// Timeout of one member's fetch: some gigabytes over a slow link, and the time to unpack them.
const FETCH_TIMEOUT: Duration = Duration::from_secs(1800);
/// Timeout of a call that changes records only.
const RECORD_TIMEOUT: Duration = Duration::from_secs(60);
/// Timeout of the removal of a temporary instance.
const REMOVE_TIMEOUT: Duration = Duration::from_secs(120);
const BUSY_PAUSE: Duration = Duration::from_secs(1);
/// Hexadecimal digits of a member's digest in the name of its temporary instance.
const MEMBER_DIGITS: usize = 12;

/// Outcome of a publication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedImage {
    /// Alias of the image in Incus.
    pub alias: String,
    /// Its fingerprint.
    pub fingerprint: String,
    /// Whether it was published before.
    pub existed: bool,
    /// The members and whether they have the image now, in ascending order of their names.
    pub members: Vec<(String, ImagePresence)>,
}

/// Whether a member has the image after a publication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImagePresence {
    /// It had the image before, with its volume.
    Existing,
    /// It fetched the image.
    Fetched,
    /// It takes no new instances now; the text is its status. It fetches the image later, at its first instance.
    Unavailable(String),
    /// It could not fetch the image, for this reason.
    Failed(String),
}

impl fmt::Display for ImagePresence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Existing => f.write_str("has the image"),
            Self::Fetched => f.write_str("fetched the image"),
            Self::Unavailable(status) => write!(f, "skipped, its status is {status}"),
            Self::Failed(why) => write!(f, "could not fetch the image: {why}"),
        }
    }
}

/// A step of a publication, for people who wait for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PublicationStep {
    /// The image is being packed, or its volume.
    Pack,
    /// Its archive of this many bytes is being uploaded.
    Upload(u64),
    /// A member fetches and unpacks the image.
    Fetch(String),
    /// Nothing more happens on a member.
    Member(String, ImagePresence),
}

impl fmt::Display for PublicationStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pack => f.write_str("packing the guest image"),
            Self::Upload(bytes) => write!(f, "uploading {} MB", bytes.div_ceil(1_000_000)),
            Self::Fetch(member) => write!(f, "{member}: fetching the image"),
            Self::Member(member, presence) => write!(f, "{member}: {presence}"),
        }
    }
}

/// Publications and removals of images for one installation.
pub(in crate::incus) struct Publisher<'a> {
    pub(super) client: &'a Client,
    pool: &'a str,
    /// Id of the state folder.
    pub(super) owner: &'a str,
    scratch: PathBuf,
    /// Lock of the scratch folder: another process of this installation neither publishes nor removes meanwhile.
    _lock: File,
}

impl<'a> Publisher<'a> {
    /// Takes the lock of a scratch folder, which is made when it is missing, and removes what an interrupted publication left
    /// there and in Incus.
    ///
    /// # Errors
    /// `Failed` when another process has the lock, or the server refuses.
    pub(in crate::incus) async fn begin(
        client: &'a Client,
        pool: &'a str,
        owner: &'a str,
        scratch: PathBuf,
    ) -> EngineResult<Self> {
        let folder = scratch.clone();
        let locked = spawn_blocking(move || lock(&folder)).await;
        let lock = locked.map_err(|_| EngineError::failed(PUBLISH, "the thread of the lock panicked"))??;
        let this = Self { client, pool, owner, scratch, _lock: lock };
        this.remove_instances().await.map_err(|error| error.at(PUBLISH))?;
        Ok(this)
    }

    /// Publishes an image with an agent unless it is published, and lets each member fetch it with its volume. `report` hears of
    /// each step.
    ///
    /// # Errors
    /// `NoCapacity` or `Failed`; a later call continues. A member that cannot fetch is no error.
    pub(in crate::incus) async fn publish(
        &self,
        image: &GuestImage,
        agent: AgentFile,
        report: &(dyn Fn(&PublicationStep) + Sync),
    ) -> EngineResult<PublishedImage> {
        let at = |error: ClientError| error.at(PUBLISH);
        let alias = image.alias();
        let named = image.find_alias(self.client).await.map_err(at)?;
        let existed = named.is_some();
        // An interrupted publication may have uploaded it without an alias.
        let found = match named {
            Some(fingerprint) => Some(fingerprint),
            None => self.find_uploaded(image).await.map_err(at)?,
        };
        let fingerprint = match found {
            Some(fingerprint) => fingerprint,
            None => self.upload(image, agent, report).await?,
        };
        self.mark(&fingerprint).await.map_err(at)?;
        if !existed {
            let named =
                json!({ "name": alias, "target": fingerprint, "description": "guest image of hotdesk" });
            let path = "/1.0/images/aliases";
            self.client.run(Method::POST, path, Some(&named), RECORD_TIMEOUT).await.map_err(at)?;
        }
        let record = image.find(self.client).await?;
        self.provide_base(image, &record, report).await?;
        let members = self.distribute(image, &record, report).await.map_err(at)?;
        // An interrupted publication's request may have reached its member after the removal at the beginning.
        self.remove_instances().await.map_err(at)?;
        Ok(PublishedImage { alias, fingerprint: record.fingerprint, existed, members })
    }

    async fn find_uploaded(&self, image: &GuestImage) -> Result<Option<String>, ClientError> {
        let images = self.client.get("/1.0/images?recursion=1").await?;
        let key = image.key();
        let own =
            images.as_array().into_iter().flatten().find(|it| property(it, IMAGE_ID) == Some(key.as_str()));
        Ok(own.and_then(|image| image["fingerprint"].as_str()).map(str::to_owned))
    }

    async fn upload(
        &self,
        image: &GuestImage,
        agent: AgentFile,
        report: &(dyn Fn(&PublicationStep) + Sync),
    ) -> EngineResult<String> {
        report(&PublicationStep::Pack);
        let (packed, digest, scratch) = (image.clone(), agent.digest.clone(), self.scratch.clone());
        let made = spawn_blocking(move || packed.archive(&agent, &scratch));
        let (archive, bytes) =
            made.await.map_err(|_| EngineError::failed(PUBLISH, "the archive's thread panicked"))??;
        let failed = host_error(PUBLISH, archive.path());
        let file = tokio::fs::File::open(archive.path()).await.map_err(&failed)?;
        report(&PublicationStep::Upload(file.metadata().await.map_err(&failed)?.len()));
        let mut properties = format!(
            "description=hotdesk&{IMAGE_ID}={}&{IMAGE_AGENT}={digest}&{IMAGE_BYTES}={bytes}&{}=1",
            image.key(),
            mark(self.owner)
        );
        if let Some(base) = image.base() {
            properties.push_str(&format!("&{IMAGE_BASE}={base}"));
        }
        self.client.upload_image(file, &properties).await.map_err(|error| error.at(PUBLISH))
    }

    /// Marks an image as one that this installation needs, so that the removal of old ones by another keeps it.
    async fn mark(&self, fingerprint: &str) -> Result<(), ClientError> {
        let path = format!("/1.0/images/{fingerprint}");
        let mark = mark(self.owner);
        if property(&self.client.get(&path).await?, &mark).is_some() {
            return Ok(());
        }
        // The other properties stay.
        self.client.patch(&path, &json!({ "properties": { mark: "1" } }), None).await
    }

    pub(super) fn volumes(&self) -> BaseVolumes<'_> {
        BaseVolumes::new(self.client, self.pool)
    }

    /// Makes the volume of an image on the first member that takes new instances, unless one of those has it.
    async fn provide_base(
        &self,
        image: &GuestImage,
        record: &ImageRecord,
        report: &(dyn Fn(&PublicationStep) + Sync),
    ) -> EngineResult<()> {
        let at = |error: ClientError| error.at(PUBLISH);
        let Some(name) = &record.base else { return Ok(()) };
        let found = list_members(self.client, self.pool, record).await.map_err(at)?;
        if found.members.iter().any(|member| member.has_base && member.is_online()) {
            return Ok(());
        }
        let first = found.members.iter().find(|member| member.is_online());
        let first = first.ok_or_else(|| EngineError::failed(PUBLISH, "no member takes new instances"))?;
        report(&PublicationStep::Pack);
        let (packed, pool, scratch) = (image.clone(), self.pool.to_owned(), self.scratch.clone());
        let made = spawn_blocking(move || packed.base_archive(&pool, &scratch)).await;
        let archive = made.map_err(|_| EngineError::failed(PUBLISH, "the archive's thread panicked"))??;
        let failed = host_error(PUBLISH, archive.path());
        let file = tokio::fs::File::open(archive.path()).await.map_err(&failed)?;
        report(&PublicationStep::Upload(file.metadata().await.map_err(&failed)?.len()));
        let target = found.is_clustered.then_some(first.name.as_str());
        self.volumes().import(name, target, file).await.map_err(at)
    }

    /// Lets the members that lack an image fetch it, with its volume.
    async fn distribute(
        &self,
        image: &GuestImage,
        record: &ImageRecord,
        report: &(dyn Fn(&PublicationStep) + Sync),
    ) -> Result<Vec<(String, ImagePresence)>, ClientError> {
        let found = list_members(self.client, self.pool, record).await?;
        let is_clustered = found.is_clustered;
        let fetches: Vec<_> = found
            .members
            .into_iter()
            .map(|member| async move {
                let presence = if member.is_ready() {
                    ImagePresence::Existing
                } else if member.is_online() {
                    report(&PublicationStep::Fetch(member.name.clone()));
                    let target = is_clustered.then_some(member.name.as_str());
                    match self.bring_again(image, record, &member, target).await {
                        Ok(()) => ImagePresence::Fetched,
                        Err(error) => ImagePresence::Failed(error.to_string()),
                    }
                } else {
                    ImagePresence::Unavailable(member.status)
                };
                report(&PublicationStep::Member(member.name.clone(), presence.clone()));
                (member.name, presence)
            })
            .collect();
        let mut members: Vec<_> = stream::iter(fetches).buffer_unordered(FETCHES_AT_ONCE).collect().await;
        members.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(members)
    }

    /// [`Self::bring`], and again where the server failed: with a busy disk its database exceeds its own time limits.
    async fn bring_again(
        &self,
        image: &GuestImage,
        record: &ImageRecord,
        member: &MemberImage,
        target: Option<&str>,
    ) -> Result<(), ClientError> {
        for _ in 1..FETCH_ATTEMPTS {
            match self.bring(image, record, member, target).await {
                // 400 is that of an operation that failed.
                Err(ClientError::Refused { status: 400 | 500, message }) => {
                    tracing::warn!(member = member.name, %message, "a fetch failed, and is repeated");
                    tokio::time::sleep(BUSY_PAUSE).await;
                }
                done => return done,
            }
        }
        self.bring(image, record, member, target).await
    }

    /// Brings to a member what it lacks; `target` is its name, where there is a cluster.
    async fn bring(
        &self,
        image: &GuestImage,
        record: &ImageRecord,
        member: &MemberImage,
        target: Option<&str>,
    ) -> Result<(), ClientError> {
        if let Some(base) = record.base.as_deref().filter(|_| !member.has_base)
            && !self.volumes().bring(base, target).await?
        {
            // Somebody has removed it meanwhile.
            return Err(ClientError::Refused { status: 404, message: format!("no member has {base}") });
        }
        if member.has_image { Ok(()) } else { self.fetch(image, &record.fingerprint, target).await }
    }

    /// Makes and removes an instance of an image, which is never started; `target` is the member, where there is a cluster.
    async fn fetch(
        &self,
        image: &GuestImage,
        fingerprint: &str,
        target: Option<&str>,
    ) -> Result<(), ClientError> {
        let name = temporary_name(image, self.owner, target.unwrap_or_default());
        let document = documents::temporary(self.pool, &name, self.owner, fingerprint);
        let path = match target {
            Some(member) => format!("/1.0/instances?target={member}"),
            None => "/1.0/instances".to_owned(),
        };
        let own = format!("/1.0/instances/{name}");
        let make = || self.client.run(Method::POST, &path, Some(&document), FETCH_TIMEOUT);
        let mut made = make().await;
        if made.as_ref().is_err_and(ClientError::is_taken) {
            // An interrupted publication began to make it in this moment.
            self.remove_instance(&own, FETCH_TIMEOUT).await?;
            made = make().await;
        }
        // Incus may go on with a creation whose answer was lost. The next publication removes what stays.
        let removed = self.remove_instance(&own, REMOVE_TIMEOUT).await;
        made.map(drop).and(removed)
    }

    /// Removes the temporary instances of this installation. Incus may still make one of them: then its member fetches the
    /// image, and the removal waits for it. One that cannot be removed, because its member does not answer, stays until the next
    /// time and delays no other member.
    async fn remove_instances(&self) -> Result<(), ClientError> {
        let path = format!("/1.0/instances?filter=config.{PUBLICATION}%20eq%20{}", self.owner);
        let listed = self.client.get(&path).await?;
        for path in listed.as_array().into_iter().flatten().filter_map(Value::as_str) {
            let path = path.split('?').next().unwrap_or(path);
            if let Err(error) = self.remove_instance(path, FETCH_TIMEOUT).await {
                tracing::warn!(%error, instance = path, "could not remove an instance of an interrupted publication");
            }
        }
        Ok(())
    }

    async fn remove_instance(&self, path: &str, busy_timeout: Duration) -> Result<(), ClientError> {
        let deadline = Instant::now() + busy_timeout;
        loop {
            match self.client.run(Method::DELETE, path, None, REMOVE_TIMEOUT).await {
                Ok(_) => return Ok(()),
                Err(error) if error.is_missing() => return Ok(()),
                Err(error) if error.is_busy() && Instant::now() < deadline => {
                    tokio::time::sleep(BUSY_PAUSE).await;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Name of the instance by which a member fetches an image.
fn temporary_name(image: &GuestImage, owner: &str, member: &str) -> String {
    let digest = hex(&Sha256::digest(format!("{} {owner} {member}", image.key())));
    let digits: String = digest.chars().take(MEMBER_DIGITS).collect();
    format!("hotdesk-image-{digits}")
}

/// Makes and locks a folder, and removes its entries. Blocks.
fn lock(folder: &Path) -> EngineResult<File> {
    let failed = host_error(PUBLISH, folder);
    private_folder(folder).map_err(&failed)?;
    let lock = File::open(folder).map_err(&failed)?;
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            let detail = "another `hotdesk image publish` or `hotdesk image prune` of this data folder runs";
            return Err(EngineError::failed(PUBLISH, detail));
        }
        Err(error) => return Err(failed(error.into())),
    }
    for entry in fs::read_dir(folder).map_err(&failed)? {
        let entry = entry.map_err(&failed)?;
        if entry.file_type().map_err(&failed)?.is_dir() {
            remove_tree(PUBLISH, &entry.path())?;
        } else {
            remove_if_there(&entry.path()).map_err(&failed)?;
        }
    }
    Ok(lock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_publication_runs_at_a_time_and_begins_in_an_empty_folder() {
        let temp = tempfile::tempdir().unwrap();
        let folder = temp.path().join("publication");
        let first = lock(&folder).unwrap();
        fs::create_dir(folder.join("staged")).unwrap();
        fs::write(folder.join("staged/file"), "x").unwrap();
        fs::write(folder.join("archive"), "x").unwrap();
        let refused = lock(&folder).unwrap_err();
        assert!(format!("{refused:#}").contains("another"), "{refused:#}");
        drop(first);
        let _second = lock(&folder).unwrap();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }

    #[test]
    fn temporary_instances_are_no_computers_and_differ_by_member() {
        let temp = tempfile::tempdir().unwrap();
        fs::write(temp.path().join("image.json"), r#"{"size_bytes":1}"#).unwrap();
        let image = GuestImage::read(temp.path()).unwrap();
        let name = |member| temporary_name(&image, "own", member);
        assert_ne!(name("m1"), name("m2"));
        assert!(name("m1").len() < 64, "the longest name of an instance has 63 characters");
        assert_eq!(documents::id_of(&name("m1")), None);
    }

    #[test]
    fn steps_are_lines() {
        let member = |presence| PublicationStep::Member("m2".to_owned(), presence).to_string();
        assert_eq!(PublicationStep::Upload(1_500_000).to_string(), "uploading 2 MB");
        assert_eq!(member(ImagePresence::Fetched), "m2: fetched the image");
        let offline = ImagePresence::Unavailable("Offline".to_owned());
        assert_eq!(member(offline), "m2: skipped, its status is Offline");
    }
}
