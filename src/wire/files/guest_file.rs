//! Files inside of a computer, the same for the agent (`/files/...`) and the controller
//! (`/computers/{id}/files/...`).

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// The query of reads.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct PathQuery {
    /// Path: relative to the home folder, `~/...`, or absolute.
    #[serde(default)]
    #[param(required = true, example = "Desktop")]
    pub path: String,
}

/// The query of `PUT content`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct PutQuery {
    /// Path: relative to the home folder, `~/...`, or absolute. No folder of the path may be a symbolic link.
    #[serde(default)]
    #[param(required = true, example = "Desktop/report.pdf")]
    pub path: String,
    /// Replace an existing file; otherwise the answer is 409 `already_exists`.
    #[serde(default)]
    #[param(required = false)]
    pub overwrite: bool,
    /// Create missing parent folders.
    #[serde(default)]
    #[param(required = false)]
    pub parents: bool,
    /// Permissions in octal, at most `777`. When absent, those of the replaced file, or `644`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(pattern = "^[0-7]{1,4}$")]
    pub mode: Option<String>,
}

/// Outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Outcome)]
pub enum WriteOutcome {
    /// The object is new.
    Created,
    /// It replaced an existing object.
    Replaced,
    /// It existed already; nothing changed.
    Exists,
}

/// The answer to `PUT content`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct FileWritten {
    /// Absolute path of the file.
    pub path: String,
    /// Size in bytes.
    pub size: u64,
    /// SHA-256 of the received bytes, in hexadecimal.
    pub sha256: String,
    /// Outcome of the write.
    pub outcome: WriteOutcome,
}

/// The query of `GET list`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct FolderListQuery {
    /// Path of the folder: relative to the home folder, `~`, `~/...`, or absolute.
    #[serde(default)]
    #[param(required = true, example = "Desktop")]
    pub path: String,
    /// Largest number of entries; 1,000 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 5000)]
    pub limit: Option<u32>,
    /// Only names that sort after this one: `next` of the previous page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// Type of a folder entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EntryType {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// A FIFO, a socket or a device.
    Special,
}

/// An entry of a folder. For a symbolic link it describes the link, not its target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Entry)]
pub struct FolderEntry {
    /// Base name; bytes that are not UTF-8 are replaced with U+FFFD.
    pub name: String,
    /// Type of the entry.
    #[serde(rename = "type")]
    pub kind: EntryType,
    /// Size in bytes.
    pub size: u64,
    /// Permissions in octal, for example `0644`.
    pub mode: String,
    /// Time of the last modification, ISO 8601.
    pub modified_at: String,
    /// Target of a symbolic link, unresolved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

/// The answer to `GET list`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Listing {
    /// Absolute path of the folder.
    pub path: String,
    /// Entries, sorted by name.
    pub entries: Vec<FolderEntry>,
    /// Value of `after` for the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// The answer to `GET stat`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Stat {
    /// Absolute path of the entry.
    pub path: String,
    /// The object at that path.
    #[serde(flatten)]
    pub entry: FolderEntry,
}

/// `POST mkdir`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"path": "/root/Desktop/reports", "parents": true}))]
#[serde(deny_unknown_fields)]
pub struct Mkdir {
    /// Path of the new folder.
    pub path: String,
    /// Create missing parent folders, and accept an existing folder.
    #[serde(default)]
    pub parents: bool,
}

/// The answer to `POST mkdir`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Made)]
pub struct FolderCreated {
    /// Absolute path of the folder.
    pub path: String,
    /// `created`, or `exists` with `parents`.
    pub outcome: WriteOutcome,
}

/// `POST move`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"from": "/root/Desktop/a.txt", "to": "/root/Desktop/b.txt"}))]
#[serde(deny_unknown_fields)]
pub struct MoveFile {
    /// Path of the object; for a symbolic link the link is moved.
    pub from: String,
    /// New path of the entry.
    pub to: String,
    /// Replace an existing file; otherwise the answer is 409 `already_exists`.
    #[serde(default)]
    pub overwrite: bool,
}

/// The answer to `POST move`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Moved)]
pub struct FileMoved {
    /// Absolute old path.
    pub from: String,
    /// Absolute new path.
    pub to: String,
    /// `created` or `replaced`.
    pub outcome: WriteOutcome,
}

/// The query of `DELETE`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct DeleteQuery {
    /// Path of the object; for a symbolic link the link is removed.
    #[serde(default)]
    #[param(required = true, example = "Downloads/old.zip")]
    pub path: String,
    /// Remove a folder with its content.
    #[serde(default)]
    #[param(required = false)]
    pub recursive: bool,
}

/// The answer to `DELETE`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Deleted)]
pub struct DeleteResult {
    /// Absolute path of the entry that was deleted.
    pub path: String,
    /// Number of removed objects that are not folders.
    pub files: u64,
    /// Number of removed folders.
    pub folders: u64,
    /// Size of the removed files in bytes.
    pub bytes: u64,
}

/// The query of `GET hash`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct HashQuery {
    /// Path of the file.
    #[serde(default)]
    #[param(required = true, example = "Desktop/report.pdf")]
    pub path: String,
    /// `sha256` (default) or `sha512`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(pattern = "^(sha256|sha512)$")]
    pub algorithm: Option<String>,
}

/// The answer to `GET hash`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Hashed)]
pub struct FileHash {
    /// Absolute path of the file.
    pub path: String,
    /// `sha256` or `sha512`.
    pub algorithm: String,
    /// Digest in hexadecimal.
    pub hash: String,
    /// Number of bytes that were read.
    pub size: u64,
}

/// The query of `GET archive`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ArchiveQuery {
    /// Path of the folder: relative to the home folder, `~/...`, or absolute.
    #[serde(default)]
    #[param(required = true, example = "Desktop/project")]
    pub path: String,
    /// Path of an entry, relative to the folder, to continue an archive after it. The archive begins with the entry
    /// that follows.
    #[serde(default)]
    #[param(required = false, example = "src/main.rs")]
    pub after: String,
}

/// The query of `PUT archive`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct UnpackQuery {
    /// Path of the target folder, which is created if it is missing.
    #[serde(default)]
    #[param(required = true, example = "Desktop/project")]
    pub path: String,
    /// Replace existing files; otherwise the answer is 409 `already_exists`, and nothing is unpacked.
    #[serde(default)]
    #[param(required = false)]
    pub overwrite: bool,
    /// Create missing parent folders.
    #[serde(default)]
    #[param(required = false)]
    pub parents: bool,
}

/// The answer to `PUT archive`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Unpacked)]
pub struct UnpackResult {
    /// Absolute path of the folder.
    pub path: String,
    /// Number of regular files.
    pub files: u64,
    /// Number of folders.
    pub folders: u64,
    /// Number of symbolic links.
    pub links: u64,
    /// Size of the files in bytes.
    pub bytes: u64,
}
