//! Listing of a folder, sorted by name and in pages.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, Mode};
use rustix::io::Errno;

use crate::files::paths::FOLDER;
use crate::files::{entry, errno, not_a_folder, paths};
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_wire::files::guest_file::{EntryType, FolderListQuery, Listing};

/// Default number of entries of a page.
const PAGE: u32 = 1000;
/// Most entries of a page: some 1 MB of JSON.
const MAX_PAGE: u32 = 5000;

/// Lists one page of a folder, sorted by name. Only the page's names are held in memory.
///
/// # Errors
/// `Invalid` (`not_a_folder`, or a limit out of range); `NotFound`; `Forbidden`.
pub fn list(home: &Path, query: &FolderListQuery) -> Result<Listing> {
    let limit = query.limit.unwrap_or(PAGE);
    if !(1..=MAX_PAGE).contains(&limit) {
        let what = format!("limit must be 1 to {MAX_PAGE}");
        return Err(Error::invalid(what).code(ErrorCode::InvalidRequest));
    }
    let limit = limit as usize;
    let after = query.after.as_deref().unwrap_or_default();
    paths::resolve(home, &query.path, |full| {
        let fail = |error: Errno| match error {
            Errno::NOTDIR => not_a_folder(&query.path),
            other => errno(&query.path, other),
        };
        let folder = rustix::fs::open(full, FOLDER, Mode::empty()).map_err(fail)?;
        let (page, more) = read_page(&mut Dir::read_from(&folder).map_err(fail)?, after, limit, fail)?;
        let next = page.last_key_value().filter(|_| more).map(|(name, _)| name.clone());
        let mut entries = Vec::with_capacity(page.len());
        for (name, raw) in page {
            let facts = match rustix::fs::statat(&folder, &raw, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(facts) => facts,
                // It vanished meanwhile.
                Err(Errno::NOENT) => continue,
                Err(error) => return Err(fail(error)),
            };
            let mut described = entry::describe(name, &facts);
            if described.kind == EntryType::Link {
                described.target = entry::target(&folder, Path::new(OsStr::from_bytes(raw.to_bytes())));
            }
            entries.push(described);
        }
        Ok(Listing { path: full.to_string_lossy().into_owned(), entries, next })
    })
}

/// Returns the first `limit` names after `after`, and whether there are more.
fn read_page(
    folder: &mut Dir,
    after: &str,
    limit: usize,
    fail: impl Fn(Errno) -> Error,
) -> Result<(BTreeMap<String, CString>, bool)> {
    let (mut page, mut more) = (BTreeMap::new(), false);
    while let Some(read) = folder.read() {
        let read = read.map_err(&fail)?;
        let raw = read.file_name();
        let name = raw.to_string_lossy();
        if name == "." || name == ".." || name.as_ref() <= after {
            continue;
        }
        page.insert(name.into_owned(), raw.to_owned());
        if page.len() > limit {
            page.pop_last();
            more = true;
        }
    }
    Ok((page, more))
}
