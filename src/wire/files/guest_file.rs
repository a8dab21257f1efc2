//! What is a file inside a computer on the wire? The same for the agent (`/files/...`) and the controller
//! (`/computers/{id}/files/...`).

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// `?path=` of what is read.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct PathQuery {
    /// Relative to the home folder, `~/...`, or absolute.
    #[serde(default)]
    #[param(required = true, example = "Desktop")]
    pub path: String,
}

/// The query of `PUT content`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct PutQuery {
    /// Relative to the home folder, `~/...`, or absolute. No folder on the way may be a symbolic link.
    #[serde(default)]
    #[param(required = true, example = "Desktop/report.pdf")]
    pub path: String,
    /// Replace what is there; else 409 `already_exists`.
    #[serde(default)]
    #[param(required = false)]
    pub overwrite: bool,
    /// Make the folders on the way that are missing.
    #[serde(default)]
    #[param(required = false)]
    pub parents: bool,
    /// Permissions in octal, at most `777`; `644`, or those of the replaced file, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(pattern = "^[0-7]{1,4}$")]
    pub mode: Option<String>,
}

/// What became of something written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It is new.
    Created,
    /// It took the place of what was there.
    Replaced,
    /// It was there already, as asked for; nothing changed.
    Exists,
}

/// The answer of `PUT content`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Written {
    /// Where the file is, absolute.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// SHA-256 of the bytes as they were received, in hex.
    pub sha256: String,
    /// What became of it.
    pub outcome: Outcome,
}

/// The query of `GET list`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ListQuery {
    /// The folder: relative to the home folder, `~`, `~/...`, or absolute.
    #[serde(default)]
    #[param(required = true, example = "Desktop")]
    pub path: String,
    /// Most entries in the answer; 1,000 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 5000)]
    pub limit: Option<u32>,
    /// Only names that sort after this one: the `next` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// What something in a folder is.
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

/// Something in a folder. Links are described themselves, not what they lead to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Entry {
    /// Its base name; bytes that are not UTF-8 are shown as U+FFFD.
    pub name: String,
    /// What it is.
    #[serde(rename = "type")]
    pub kind: EntryType,
    /// Bytes.
    pub size: u64,
    /// Permissions in octal, for example `0644`.
    pub mode: String,
    /// ISO 8601.
    pub modified_at: String,
    /// Where a link leads, as it is written in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

/// The answer of `GET list`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Listing {
    /// The folder, absolute.
    pub path: String,
    /// Sorted by name.
    pub entries: Vec<Entry>,
    /// There is more: ask again with `after` set to this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// The answer of `GET stat`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Stat {
    /// The path, absolute.
    pub path: String,
    /// What is there.
    #[serde(flatten)]
    pub entry: Entry,
}

/// `POST mkdir`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"path": "/root/Desktop/reports", "parents": true}))]
pub struct Mkdir {
    /// The new folder.
    pub path: String,
    /// Make the folders on the way too, and take one that is there for done.
    #[serde(default)]
    pub parents: bool,
}

/// The answer of `POST mkdir`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Made {
    /// The folder, absolute.
    pub path: String,
    /// `created`, or `exists` where `parents` was given.
    pub outcome: Outcome,
}

/// `POST move`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"from": "/root/Desktop/a.txt", "to": "/root/Desktop/b.txt"}))]
pub struct MoveFile {
    /// What is moved; a link is moved itself.
    pub from: String,
    /// Its new path.
    pub to: String,
    /// Replace a file that is there; else 409 `already_exists`.
    #[serde(default)]
    pub overwrite: bool,
}

/// The answer of `POST move`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Moved {
    /// Where it was, absolute.
    pub from: String,
    /// Where it is, absolute.
    pub to: String,
    /// `created` or `replaced`.
    pub outcome: Outcome,
}

/// The query of `DELETE`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct DeleteQuery {
    /// What is removed; a link is removed itself.
    #[serde(default)]
    #[param(required = true, example = "Downloads/old.zip")]
    pub path: String,
    /// A folder with all that is in it.
    #[serde(default)]
    #[param(required = false)]
    pub recursive: bool,
}

/// The answer of `DELETE`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Deleted {
    /// The path, absolute.
    pub path: String,
    /// Files, links and the like that are gone.
    pub files: u64,
    /// Folders that are gone.
    pub folders: u64,
    /// Bytes that the files held.
    pub bytes: u64,
}

/// The query of `GET hash`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct HashQuery {
    /// The file.
    #[serde(default)]
    #[param(required = true, example = "Desktop/report.pdf")]
    pub path: String,
    /// `sha256` (default) or `sha512`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(pattern = "^(sha256|sha512)$")]
    pub algorithm: Option<String>,
}

/// The answer of `GET hash`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Hashed {
    /// The file, absolute.
    pub path: String,
    /// `sha256` or `sha512`.
    pub algorithm: String,
    /// The digest in hex.
    pub hash: String,
    /// Bytes that were read.
    pub size: u64,
}

/// The query of `PUT archive`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct UnpackQuery {
    /// The folder; made when it is missing.
    #[serde(default)]
    #[param(required = true, example = "Desktop/project")]
    pub path: String,
    /// Replace files that are there; else 409 `already_exists`, and nothing is unpacked.
    #[serde(default)]
    #[param(required = false)]
    pub overwrite: bool,
    /// Make the folders on the way that are missing.
    #[serde(default)]
    #[param(required = false)]
    pub parents: bool,
}

/// The answer of `PUT archive`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Unpacked {
    /// The folder, absolute.
    pub path: String,
    /// Regular files.
    pub files: u64,
    /// Folders.
    pub folders: u64,
    /// Symbolic links.
    pub links: u64,
    /// Bytes in the files.
    pub bytes: u64,
}
