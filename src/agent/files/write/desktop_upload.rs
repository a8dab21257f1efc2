//! Upload of a file to the desktop: completely or not at all, and never over an existing file (T7,
//! docs/security.md).
//!
//! The folder is opened once, inside the home folder and not through a link. All other paths are relative to
//! its descriptor, so concurrent renames and links cannot redirect the write.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use hotdesk_http::extract::Body;
use rustix::fs::Mode;
use tokio_util::sync::CancellationToken;

use crate::files::paths::{FOLDER, enter};
use crate::files::write::receive::receive;
use crate::files::write::temp_file::{TempFile, WriteOptions};
use crate::files::{Files, errno, file_error};
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::filename::FileName;
use hotdesk_domain::limits::MAX_UPLOAD;
use hotdesk_wire::agent::{PutOutcome, PutResult};

/// Desktop folder in the home folder.
pub const DESKTOP: &str = "Desktop";

/// Writes a body to a file in the desktop folder. An existing entry of that name is unchanged.
///
/// # Errors
/// `TooLarge` above [`MAX_UPLOAD`]; `Invalid` when the body ends early; `Conflict` (`desktop_not_a_folder`);
/// `Unavailable` (`disk_full`, `too_many_transfers`). Nothing is changed then.
pub async fn put(files: &Files, home: PathBuf, name: FileName, body: Body) -> Result<PutResult> {
    let path = home.join(DESKTOP).join(name.as_str()).to_string_lossy().into_owned();
    let slot = files.slot()?;
    receive(body, CancellationToken::new(), move |mut pieces| {
        let _slot = slot;
        let folder = open_desktop(&home)?;
        let (unfinished, mut file) = TempFile::create(&folder, DESKTOP)?;
        let mut total = 0;
        while let Some(piece) = pieces.piece()? {
            total += piece.len() as u64;
            if total > MAX_UPLOAD {
                return Err(Error::too_large(format!("the file is larger than {MAX_UPLOAD} bytes")));
            }
            file.write_all(&piece).map_err(|error| file_error(&path, &error))?;
        }
        let outcome = match unfinished.finish(&file, name.as_str(), WriteOptions::default(), &path) {
            Ok(_) => PutOutcome::Created,
            Err(error) if error.code == Some(ErrorCode::AlreadyExists) => PutOutcome::Exists,
            Err(error) => return Err(error),
        };
        Ok(PutResult { path, outcome })
    })
    .await
}

/// Opens the desktop folder; creates it when missing.
///
/// # Errors
/// `Conflict` (`desktop_not_a_folder`); those of the file system.
pub fn open_desktop(home: &Path) -> Result<OwnedFd> {
    let home_folder = rustix::fs::open(home, FOLDER, Mode::empty())
        .map_err(|error| Error::conflict(format!("the home folder {}: {error}", home.display())))?;
    let open = || enter(&home_folder, DESKTOP);
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
        rustix::io::Errno::LOOP | rustix::io::Errno::NOTDIR => {
            let shown = home.join(DESKTOP);
            Error::conflict(format!("{} is not a plain folder", shown.display()))
                .code(ErrorCode::DesktopNotAFolder)
        }
        other => errno(DESKTOP, other),
    })
}
