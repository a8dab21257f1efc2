//! How is a file put on the desktop? Whole or not at all, and never over one that is there (threats.md T7).
//!
//! The folder is opened once, below the home folder and without following links; everything else is relative to that
//! descriptor, so nothing that is renamed or linked meanwhile can lead the write elsewhere.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::body::Body;
use futures_util::StreamExt;
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, ResolveFlags};
use tokio::io::AsyncWriteExt;

use super::file_error;
use crate::domain::error::{Error, Result};
use crate::domain::filename::FileName;
use crate::wire::agent::{PutOutcome, PutResult};

/// Largest file (interface.md "Files": 10 MB; a client that means 10 MiB is let in).
pub const MAX_BYTES: u64 = 10 * 1024 * 1024;
/// Longest time between two pieces of the body; a slower sender holds a temporary file for nothing (threats.md T13).
const BODY_PATIENCE: Duration = Duration::from_secs(30);
/// The desktop's folder in the home folder.
const DESKTOP: &str = "Desktop";
/// What the name of an unfinished file begins with.
const TEMPORARY: &str = ".hotdesk-upload-";

/// Streams a body into `home`'s `Desktop` under a name. A file, folder or link of that name is left alone.
///
/// # Errors
/// `TooLarge` past [`MAX_BYTES`]; `Invalid` when the body breaks off; `Conflict` when `Desktop` is not a plain
/// folder; `Unavailable` (`disk_full`) when the disk is full. Nothing is left behind.
pub async fn put(home: PathBuf, name: FileName, body: Body) -> Result<PutResult> {
    let path = home.join(DESKTOP).join(name.as_str()).to_string_lossy().into_owned();
    let (unfinished, file) = blocking(move || Unfinished::create(&home)).await?;
    let mut file = tokio::fs::File::from_std(file);
    receive(body, &mut file, &path).await?;
    let file = file.into_std().await;
    let shown = path.clone();
    let outcome = blocking(move || unfinished.finish(&file, &name, &shown)).await?;
    Ok(PutResult { path, outcome })
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Error::internal(format!("file work broke down: {error}")))?
}

async fn receive(body: Body, file: &mut tokio::fs::File, path: &str) -> Result<()> {
    let mut pieces = body.into_data_stream();
    let mut total = 0;
    let mut written = Ok(());
    loop {
        let piece = match tokio::time::timeout(BODY_PATIENCE, pieces.next()).await {
            Err(_) => return Err(Error::invalid("the request body did not arrive in time")),
            Ok(None) => break,
            Ok(Some(Err(error))) => return Err(Error::invalid("the request body broke off").context(error)),
            Ok(Some(Ok(piece))) => piece,
        };
        total += piece.len() as u64;
        if total > MAX_BYTES {
            return Err(Error::too_large(format!("the file is larger than {MAX_BYTES} bytes")));
        }
        // After a failure the rest is read all the same: a client that is still sending would not see the answer.
        if written.is_ok() {
            written = file.write_all(&piece).await;
        }
    }
    written.map_err(|error| file_error(path, &error))?;
    // tokio's file reports the error of its last write only here.
    file.flush().await.map_err(|error| file_error(path, &error))
}

/// A file under a temporary name, removed when dropped.
struct Unfinished {
    folder: OwnedFd,
    name: String,
}

impl Unfinished {
    fn create(home: &Path) -> Result<(Self, File)> {
        let folder = open_desktop(home)?;
        let name = format!("{TEMPORARY}{}", uuid::Uuid::new_v4().simple());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&folder, &name, flags, Mode::RUSR | Mode::WUSR)
            .map_err(|error| file_error(DESKTOP, &error.into()))?;
        Ok((Self { folder, name }, File::from(file)))
    }

    fn finish(self, file: &File, name: &FileName, path: &str) -> Result<PutOutcome> {
        let fail = |error: io::Error| file_error(path, &error);
        rustix::fs::fchmod(file, Mode::from_raw_mode(0o644)).map_err(|error| fail(error.into()))?;
        file.sync_all().map_err(fail)?;
        let (folder, flags) = (&self.folder, RenameFlags::NOREPLACE);
        match rustix::fs::renameat_with(folder, &self.name, folder, name.as_str(), flags) {
            Ok(()) => {}
            Err(rustix::io::Errno::EXIST) => return Ok(PutOutcome::Exists),
            Err(error) => return Err(fail(error.into())),
        }
        rustix::fs::fsync(folder).map_err(|error| fail(error.into()))?;
        Ok(PutOutcome::Created)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        match rustix::fs::unlinkat(&self.folder, &self.name, AtFlags::empty()) {
            // No such file: it has its own name now.
            Ok(()) | Err(rustix::io::Errno::NOENT) => {}
            Err(error) => tracing::warn!(name = self.name, %error, "could not remove an unfinished upload"),
        }
    }
}

/// Opens the desktop's folder, made when it is missing.
fn open_desktop(home: &Path) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let home_folder = rustix::fs::open(home, flags, Mode::empty())
        .map_err(|error| Error::conflict(format!("the home folder {}: {error}", home.display())))?;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let open = || rustix::fs::openat2(&home_folder, DESKTOP, flags, Mode::empty(), resolve);
    let opened = match open() {
        Err(rustix::io::Errno::NOENT) => {
            match rustix::fs::mkdirat(&home_folder, DESKTOP, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => open(),
                Err(error) => Err(error),
            }
        }
        other => other,
    };
    opened.map_err(|error| match error {
        rustix::io::Errno::LOOP | rustix::io::Errno::NOTDIR | rustix::io::Errno::XDEV => {
            let shown = home.join(DESKTOP);
            Error::conflict(format!("{} is not a plain folder", shown.display())).code("desktop_not_a_folder")
        }
        other => file_error(DESKTOP, &other.into()),
    })
}
