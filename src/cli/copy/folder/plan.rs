//! Parts in which a folder is sent, so that an interrupted copy continues after the last part that arrived.
//!
//! The order is fixed: first the folders, links and small files in batches, depth first and sorted by the bytes of
//! their names, then the large files.

use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::copy::resumable::RESUMABLE_SIZE;
use crate::copy::upload_record;
use hotdesk_base::hex::hex;
use hotdesk_domain::filename::FileName;
use hotdesk_wire::files::guest_file::UnpackResult;

/// Bytes of a header in a tar archive, to which contents are filled up.
const BLOCK: u64 = 512;
/// Most bytes of a batch, with headers: as much as a large file has at least, because an interruption costs a batch.
const BATCH_SIZE: u64 = RESUMABLE_SIZE;
/// Deepest folder level: that of the server (docs/api/limits.md#files).
const MAX_DEPTH: usize = 200;

/// A folder to send.
#[derive(Debug)]
pub struct UploadPlan {
    /// The parts in their order.
    pub parts: Vec<UploadPart>,
    /// What the folder contains.
    pub totals: UnpackResult,
}

/// A part of a folder.
#[derive(Debug)]
pub struct UploadPart {
    pub content: PartContent,
    /// Nearly the number of bytes that are sent: long names need more.
    pub size: u64,
    /// Digest of the names and metadata of this part and all before it.
    pub state: String,
    /// Path of the last entry; empty when it is not UTF-8.
    pub last: String,
}

/// PartContent of a part, as paths relative to the folder.
#[derive(Debug)]
pub enum PartContent {
    /// Entries of one archive. It begins with the folders that contain the first of them.
    Batch(Vec<PathBuf>),
    /// A large file.
    File(PathBuf),
}

/// Lists what is to be sent of a folder. Links are not followed, and mounted file systems are not entered.
///
/// # Errors
/// When a folder cannot be read or is too deep.
pub fn of(folder: &Path) -> io::Result<UploadPlan> {
    let mut planner = UploadPlanner {
        device: fs::metadata(folder)?.dev(),
        digest: Sha256::new(),
        batch: Vec::new(),
        batch_size: 0,
        large: Vec::new(),
        plan: UploadPlan { parts: Vec::new(), totals: UnpackResult::default() },
    };
    planner.add_folder(folder, Path::new(""), 0)?;
    planner.end_batch();
    for (path, facts, size) in std::mem::take(&mut planner.large) {
        planner.digest.update(facts);
        planner.end_part(PartContent::File(path.clone()), size, &path);
    }
    Ok(planner.plan)
}

struct UploadPlanner {
    device: u64,
    digest: Sha256,
    batch: Vec<PathBuf>,
    batch_size: u64,
    /// Path, input of the digest, and size.
    large: Vec<(PathBuf, Vec<u8>, u64)>,
    plan: UploadPlan,
}

impl UploadPlanner {
    fn add_folder(&mut self, folder: &Path, prefix: &Path, depth: usize) -> io::Result<()> {
        if depth >= MAX_DEPTH {
            return Err(io::Error::other(format!("{}: folders deeper than {MAX_DEPTH}", prefix.display())));
        }
        let names: io::Result<Vec<OsString>> =
            fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.file_name())).collect();
        let mut names = names?;
        names.sort_unstable();
        for name in names {
            let (full, path) = (folder.join(&name), prefix.join(&name));
            let metadata = match fs::symlink_metadata(&full) {
                Ok(metadata) => metadata,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            self.add_entry(&path, &metadata);
            if metadata.is_dir() && metadata.dev() == self.device {
                self.add_folder(&full, &path, depth + 1)?;
            }
        }
        Ok(())
    }

    fn add_entry(&mut self, path: &Path, metadata: &Metadata) {
        let totals = &mut self.plan.totals;
        let mut size = 0;
        if metadata.is_dir() {
            totals.folders += 1;
        } else if metadata.is_symlink() {
            totals.links += 1;
        } else if metadata.is_file() {
            totals.files += 1;
            size = metadata.len();
            totals.bytes += size;
        } else {
            return;
        }
        let mut facts = [path.as_os_str().as_encoded_bytes(), &[0], &metadata.mode().to_le_bytes()].concat();
        // The metadata of a folder change with its entries, which are facts themselves.
        if !metadata.is_dir() {
            facts.extend(upload_record::facts(metadata));
        }
        if size >= RESUMABLE_SIZE && has_plain_path(path) {
            self.large.push((path.to_owned(), facts, size));
            return;
        }
        let size = BLOCK + size.next_multiple_of(BLOCK);
        if self.batch_size + size > BATCH_SIZE {
            self.end_batch();
        }
        if self.batch.is_empty() {
            // The server creates a folder of any name only for its entry.
            let mut holders: Vec<_> = path.ancestors().skip(1).map(Path::to_owned).collect();
            holders.pop();
            holders.reverse();
            self.batch = holders;
        }
        self.digest.update(facts);
        self.batch.push(path.to_owned());
        self.batch_size += size;
    }

    fn end_batch(&mut self) {
        if let Some(last) = self.batch.last().cloned() {
            let (batch, size) = (std::mem::take(&mut self.batch), std::mem::take(&mut self.batch_size));
            self.end_part(PartContent::Batch(batch), size, &last);
        }
    }

    fn end_part(&mut self, content: PartContent, size: u64, last: &Path) {
        let state = hex(&self.digest.clone().finalize());
        let last = last.to_str().unwrap_or_default().to_owned();
        self.plan.parts.push(UploadPart { content, size, state, last });
    }
}

/// Whether a resumable upload can name a path.
fn has_plain_path(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    path.to_str().is_some() && name.is_some_and(|name| FileName::parse(name).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn sparse(path: &Path, size: u64) {
        fs::File::create(path).and_then(|file| file.set_len(size)).unwrap();
    }

    fn paths(part: &UploadPart) -> Vec<&str> {
        match &part.content {
            PartContent::Batch(paths) => paths.iter().map(|path| path.to_str().unwrap()).collect(),
            PartContent::File(path) => vec!["large", path.to_str().unwrap()],
        }
    }

    #[test]
    fn a_folder_is_sent_in_batches_and_then_its_large_files() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("a/deep/empty")).unwrap();
        sparse(&at("a/deep/large"), RESUMABLE_SIZE);
        sparse(&at("a/deep/large\\"), RESUMABLE_SIZE);
        sparse(&at("a/deep/x"), 1);
        sparse(&at("b"), RESUMABLE_SIZE - 1);
        symlink("/", at("link")).unwrap();
        drop(std::os::unix::net::UnixListener::bind(at("socket")).unwrap());
        let plan = of(folder.path()).unwrap();
        let expected: [&[&str]; 5] = [
            &["a", "a/deep", "a/deep/empty"],
            // A name that no upload can have, and which is too large for a batch with others.
            &["a", "a/deep", "a/deep/large\\"],
            &["a", "a/deep", "a/deep/x"],
            &["b"],
            &["link"],
        ];
        let sent: Vec<_> = plan.parts.iter().map(paths).collect();
        assert_eq!(sent[..5], expected);
        assert_eq!(sent[5..], [["large", "a/deep/large"]]);
        let totals = &plan.totals;
        assert_eq!((totals.files, totals.folders, totals.links), (4, 3, 1));
        assert_eq!(totals.bytes, 3 * RESUMABLE_SIZE);
        assert_eq!(plan.parts[2].last, "a/deep/x");
    }

    #[test]
    fn a_change_changes_the_state_of_its_part_and_those_after_it() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["a", "b", "c"] {
            sparse(&at(name), RESUMABLE_SIZE - 1);
        }
        let states = || -> Vec<String> {
            of(folder.path()).unwrap().parts.into_iter().map(|part| part.state).collect()
        };
        let before = states();
        assert_eq!(before, states());
        sparse(&at("b"), RESUMABLE_SIZE - 2);
        let after = states();
        let same: Vec<bool> = before.iter().zip(&after).map(|(before, after)| before == after).collect();
        assert_eq!(same, [true, false, false]);
        fs::remove_file(at("a")).unwrap();
        assert!(!after.contains(&states()[0]));
    }
}
