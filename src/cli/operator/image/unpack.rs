//! Extraction of the layers of an OCI image into a root folder (OCI image specification, `layer.md`).
//!
//! Whoever made the image is not trusted: paths with `..` are refused, links are resolved as in a process whose root is the
//! folder (`RESOLVE_IN_ROOT`, openat2(2)), devices are left out, and sizes and counts are bounded. Nothing of the image runs.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, ResolveFlags, Timespec, Timestamps, Uid, XattrFlags,
    chownat, fchmod, fchown, fsetxattr, futimens, linkat, mkdirat, openat, openat2, statat, symlinkat,
    unlinkat,
};
use rustix::io::Errno;
use tar::{Entry, EntryType};

use super::own_paths::OwnPaths;
use crate::failure::Outcome;
use hotdesk_base::tar_extension::{TarExtension, TarExtensionError};
use hotdesk_engine::{check_free, remove_tree};

/// Most files and folders of all layers: three times those of a large distribution with its development tools. A layer of a
/// computer has as many at most.
const MAX_ENTRIES: u64 = 1_000_000;
/// Most bytes of a long name, or of the attributes of an entry.
const MAX_EXTENSION: u64 = 1 << 20;
/// Most components of a path. Each costs a call of the kernel. Links in it may make the files deeper.
const MAX_DEPTH: usize = 128;
/// Most ids of users and groups: those that a computer has.
const MAX_ID: u64 = 65_535;
/// Marks of files that a layer removes from those below.
const WHITEOUT: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";
/// Most attempts to open a path with `..` while other names of the host are renamed (EAGAIN, openat2(2)); runc makes as many.
const OPEN_ATTEMPTS: usize = 128;
/// The only extended attribute that is kept: capabilities of a program.
const CAPABILITY: &str = "security.capability";

/// A root folder into which layers are extracted.
#[derive(Debug)]
pub struct RootFolder {
    root: OwnedFd,
    path: PathBuf,
    left_bytes: u64,
    left_entries: u64,
}

/// An entry to extract.
#[derive(Debug)]
struct Member {
    path: PathBuf,
    kind: EntryType,
    target: PathBuf,
    mode: Mode,
    owner: (Uid, Gid),
    modified: i64,
    size: u64,
    capability: Option<Vec<u8>>,
}

impl RootFolder {
    /// Opens an empty folder for files of at most `most_bytes`.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(path: &Path, most_bytes: u64) -> Outcome<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let root = openat(CWD, path, flags, Mode::empty())
            .map_err(|error| format!("cannot open {}: {error}", path.display()))?;
        Ok(Self { root, path: path.to_owned(), left_bytes: most_bytes, left_entries: MAX_ENTRIES })
    }

    /// The bytes that further entries may have.
    pub fn left_bytes(&self) -> u64 {
        self.left_bytes
    }

    /// Extracts a layer: a tar archive, also with gzip or zstd.
    ///
    /// # Errors
    /// What is wrong with the layer. Parts of it are extracted then.
    pub fn extract(&mut self, layer: impl Read) -> Outcome<()> {
        let mut layer = BufReader::new(layer);
        let start = layer.fill_buf().map_err(|error| format!("cannot read a layer: {error}"))?;
        if start.starts_with(&[0x1f, 0x8b]) {
            self.extract_tar(MultiGzDecoder::new(layer))
        } else if start.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
            let content =
                zstd::Decoder::with_buffer(layer).map_err(|error| format!("cannot read a layer: {error}"))?;
            self.extract_tar(content)
        } else {
            self.extract_tar(layer)
        }
    }

    fn extract_tar(&mut self, content: impl Read) -> Outcome<()> {
        let unreadable = |error: io::Error| format!("a layer is no tar archive: {error}");
        let mut archive = tar::Archive::new(content);
        let mut extension = TarExtension::default();
        // Paths of this layer: its whiteouts only remove what is below.
        let mut own = OwnPaths::default();
        for entry in archive.entries().map_err(unreadable)?.raw(true) {
            let mut entry = entry.map_err(unreadable)?;
            self.count_entry()?;
            // Also of entries that are not extracted: their bytes are read.
            self.left_bytes = self
                .left_bytes
                .checked_sub(entry.size())
                .ok_or("the files of the image are larger than --max-mb allows")?;
            let kind = entry.header().entry_type();
            if extension.read(&mut entry, MAX_EXTENSION).map_err(extension_error)? {
                continue;
            }
            if let Some(member) = member(&entry, kind, std::mem::take(&mut extension))? {
                self.add(&member, &mut entry, &mut own)
                    .map_err(|error| format!("cannot extract {}: {error}", member.path.display()))?;
            }
        }
        Ok(())
    }

    fn count_entry(&mut self) -> Result<(), String> {
        self.left_entries = self.left_entries.checked_sub(1).ok_or_else(|| {
            format!("the image has more than {MAX_ENTRIES} files, and a computer at most as many")
        })?;
        Ok(())
    }

    /// Extracts an entry.
    fn add(&mut self, member: &Member, content: &mut impl Read, own: &mut OwnPaths) -> io::Result<()> {
        let (Some(name), Some(parent)) = (member.path.file_name(), member.path.parent()) else {
            return Ok(());
        };
        if name.as_bytes() == OPAQUE {
            return self.hide_all(parent, own);
        }
        if let Some(hidden) = name.as_bytes().strip_prefix(WHITEOUT) {
            let hidden = OsStr::from_bytes(hidden);
            if matches!(hidden.as_bytes(), b"" | b"." | b"..") {
                return Err(io::Error::other("it hides no name"));
            }
            return match self.existing(parent)? {
                Some(folder) if !own.contains(&parent.join(hidden)) => remove(&folder, hidden),
                Some(_) | None => Ok(()),
            };
        }
        let folder = self.folder(parent)?;
        own.add(&member.path)?;
        let is_folder = member.kind == EntryType::Directory;
        if !(is_folder && is_real_folder(&folder, name)?) {
            remove(&folder, name)?;
        }
        if is_folder {
            match mkdirat(&folder, name, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            member.finish(&openat(&folder, name, flags, Mode::empty())?)
        } else if member.kind == EntryType::Symlink {
            symlinkat(&member.target, &folder, name)?;
            let (owner, group) = member.owner;
            Ok(chownat(&folder, name, Some(owner), Some(group), AtFlags::SYMLINK_NOFOLLOW)?)
        } else if member.kind == EntryType::Link {
            self.link(&member.target, &folder, name)
        } else if matches!(member.kind, EntryType::Regular | EntryType::Continuous) {
            self.write(member, content, &folder, name)
        } else if matches!(member.kind, EntryType::Char | EntryType::Block | EntryType::Fifo) {
            // A computer has devices of its own.
            Ok(())
        } else {
            Err(io::Error::other("it is of a kind that is not supported"))
        }
    }

    fn write(
        &self,
        member: &Member,
        content: &mut impl Read,
        folder: &OwnedFd,
        name: &OsStr,
    ) -> io::Result<()> {
        check_free(&self.path, member.size, 0).map_err(|error| io::Error::other(format!("{error:#}")))?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(openat(folder, name, flags, Mode::RUSR | Mode::WUSR)?);
        if io::copy(&mut content.take(member.size), &mut file)? != member.size {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        member.finish(&file.into())
    }

    /// Makes a hard link to a file of the image.
    fn link(&self, target: &Path, folder: &OwnedFd, name: &OsStr) -> io::Result<()> {
        let target = below(target).map_err(io::Error::other)?;
        let missing = || {
            io::Error::other(format!("it is a link to {}, which is no file of the image", target.display()))
        };
        let (Some(old), Some(parent)) = (target.file_name(), target.parent()) else { return Err(missing()) };
        let from = self.existing(parent)?.ok_or_else(missing)?;
        let found = statat(&from, old, AtFlags::SYMLINK_NOFOLLOW).map_err(|_| missing())?;
        if !matches!(FileType::from_raw_mode(found.st_mode), FileType::RegularFile | FileType::Symlink) {
            return Err(missing());
        }
        Ok(linkat(&from, old, folder, name, AtFlags::empty())?)
    }

    /// Removes what layers below have in a folder.
    fn hide_all(&self, path: &Path, own: &OwnPaths) -> io::Result<()> {
        let Some(folder) = self.existing(path)? else { return Ok(()) };
        for entry in Dir::read_from(&openat(
            &folder,
            ".",
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if !matches!(name.as_bytes(), b"." | b"..") && !own.contains(&path.join(name)) {
                remove(&folder, name)?;
            }
        }
        Ok(())
    }

    /// Opens a folder of the image; `None` when it is missing or no folder.
    fn existing(&self, path: &Path) -> io::Result<Option<OwnedFd>> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        self.open_existing(path, flags)
    }

    /// Opens a path of the image, whose links are resolved inside; `None` when it is missing.
    fn open_existing(&self, path: &Path, flags: OFlags) -> io::Result<Option<OwnedFd>> {
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
        for _ in 0..OPEN_ATTEMPTS {
            match openat2(&self.root, path, flags, Mode::empty(), resolve) {
                Ok(opened) => return Ok(Some(opened)),
                Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
                Err(Errno::AGAIN) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Errno::AGAIN.into())
    }

    /// Opens a folder of the image, which is made when it is missing.
    pub fn folder(&mut self, path: &Path) -> io::Result<OwnedFd> {
        if let Some(folder) = self.existing(path)? {
            return Ok(folder);
        }
        let (Some(name), Some(parent)) = (path.file_name(), path.parent()) else {
            return Err(io::ErrorKind::NotADirectory.into());
        };
        let parent = self.folder(parent)?;
        self.count_entry().map_err(io::Error::other)?;
        mkdirat(parent, name, Mode::from_raw_mode(0o755))?;
        self.existing(path)?.ok_or_else(|| io::ErrorKind::NotADirectory.into())
    }

    /// Reads a file of the image, of at most `most` bytes; `None` when it is missing or no regular file.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(&self, path: &str, most: u64) -> io::Result<Option<Vec<u8>>> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Some(file) = self.open_existing(Path::new(path), flags)? else { return Ok(None) };
        let file = File::from(file);
        if !file.metadata()?.is_file() {
            return Ok(None);
        }
        let mut text = Vec::new();
        file.take(most).read_to_end(&mut text)?;
        Ok(Some(text))
    }

    /// Replaces a file of the image; no text removes it.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn replace(&mut self, path: &str, text: Option<&str>) -> io::Result<()> {
        let path = Path::new(path);
        let (Some(name), Some(parent)) = (path.file_name(), path.parent()) else { return Ok(()) };
        let folder = self.folder(parent)?;
        remove(&folder, name)?;
        if let Some(text) = text {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = openat(&folder, name, flags, Mode::from_raw_mode(0o644))?;
            io::Write::write_all(&mut File::from(file), text.as_bytes())?;
        }
        Ok(())
    }

    /// The names in a folder of the image; none when it is missing.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn names(&self, path: &str) -> io::Result<Vec<OsString>> {
        let Some(folder) = self.existing(Path::new(path))? else { return Ok(Vec::new()) };
        let entries = fs::read_dir(format!("/proc/self/fd/{}", folder.as_raw_fd()))?;
        entries.map(|entry| entry.map(|entry| entry.file_name())).collect()
    }
}

impl Member {
    /// Gives an open file or folder its owner, mode, capabilities and time. The mode is last but one: a change of the owner
    /// removes parts of it.
    fn finish(&self, file: &OwnedFd) -> io::Result<()> {
        let (owner, group) = self.owner;
        fchown(file, Some(owner), Some(group))?;
        fchmod(file, self.mode)?;
        if let Some(capability) = &self.capability {
            fsetxattr(file, CAPABILITY, capability, XattrFlags::empty())?;
        }
        let time = Timespec { tv_sec: self.modified, tv_nsec: 0 };
        Ok(futimens(file, &Timestamps { last_access: time, last_modification: time })?)
    }
}

/// Removes a name, whatever it is; a missing one counts as removed.
fn remove(folder: &OwnedFd, name: &OsStr) -> io::Result<()> {
    match unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        // The name is the last part, so it is not followed if it is a link.
        Err(Errno::ISDIR | Errno::PERM) => {
            // The tool has no descriptors of this process.
            let folder = format!("/proc/{}/fd/{}", std::process::id(), folder.as_raw_fd());
            remove_tree("remove a folder of the image", &Path::new(&folder).join(name))
                .map_err(|error| io::Error::other(format!("{error:#}")))
        }
        Err(error) => Err(error.into()),
    }
}

fn is_real_folder(folder: &OwnedFd, name: &OsStr) -> io::Result<bool> {
    match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => Ok(FileType::from_raw_mode(found.st_mode).is_dir()),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn extension_error(error: TarExtensionError) -> String {
    format!("a layer is damaged: {error}")
}

fn member<R: Read>(
    entry: &Entry<'_, R>,
    kind: EntryType,
    mut extension: TarExtension,
) -> Outcome<Option<Member>> {
    let damaged = |error: io::Error| format!("a layer has a damaged header: {error}");
    extension.check_size(entry).map_err(extension_error)?;
    let (header, size, raw) = (entry.header(), entry.size(), extension.take_path(entry));
    // Archives from before POSIX mark folders only by a slash at the end.
    let kind = if kind == EntryType::Regular && raw.ends_with(b"/") { EntryType::Directory } else { kind };
    let path = below(Path::new(&OsString::from_vec(raw)))?;
    if size > 0 && !matches!(kind, EntryType::Regular | EntryType::Continuous) {
        // Other programs read the next entry there.
        return Err(format!("{} is no file and has {size} bytes", path.display()).into());
    }
    if path.as_os_str().is_empty() {
        return Ok(None);
    }
    // The attributes have ids that are too large for the header.
    let (owner, group) = (
        extension.owner.map_or_else(|| header.uid(), Ok).map_err(damaged)?,
        extension.group.map_or_else(|| header.gid(), Ok).map_err(damaged)?,
    );
    if owner.max(group) > MAX_ID {
        return Err(format!("{} belongs to {owner}:{group}, and ids end at {MAX_ID}", path.display()).into());
    }
    let id = |id: u64| u32::try_from(id).unwrap_or_default();
    Ok(Some(Member {
        path,
        kind,
        target: PathBuf::from(OsString::from_vec(extension.take_target(entry))),
        mode: Mode::from_raw_mode(header.mode().map_err(damaged)? & 0o7777),
        owner: (Uid::from_raw(id(owner)), Gid::from_raw(id(group))),
        modified: i64::try_from(header.mtime().map_err(damaged)?).unwrap_or_default(),
        size,
        capability: extension.capability,
    }))
}

/// The path below the root folder. The root of the image is the folder.
fn below(path: &Path) -> Result<PathBuf, String> {
    let mut plain = PathBuf::new();
    for (depth, part) in path.components().enumerate() {
        match part {
            Component::Normal(name) if depth <= MAX_DEPTH && !name.as_bytes().contains(&0) => {
                plain.push(name)
            }
            Component::CurDir | Component::RootDir => {}
            Component::Normal(_) => return Err(format!("{} is no path of a file", path.display())),
            Component::ParentDir | Component::Prefix(_) => {
                return Err(format!("{} leads out of the image", path.display()));
            }
        }
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// With one attempt each, hundreds of so many fail on two cores.
    const OPENS: usize = 100_000;

    #[test]
    fn folders_that_no_entry_names_count_for_the_limit() {
        let temp = tempfile::tempdir().unwrap();
        let mut root = RootFolder { left_entries: 3, ..RootFolder::open(temp.path(), 0).unwrap() };
        root.folder(Path::new("a/b/c")).unwrap();
        root.folder(Path::new("a/b")).unwrap();
        let refused = root.folder(Path::new("a/d")).unwrap_err().to_string();
        assert!(refused.contains("more than 1000000 files"), "{refused}");
    }

    #[test]
    fn renames_elsewhere_do_not_keep_a_path_with_dots_from_being_opened() {
        let temp = tempfile::tempdir().unwrap();
        let (root, other) = (temp.path().join("root"), temp.path().join("other"));
        fs::create_dir_all(root.join("a")).unwrap();
        fs::create_dir(&other).unwrap();
        std::os::unix::fs::symlink("a/../a/../a", root.join("link")).unwrap();
        let root = RootFolder::open(&root, 0).unwrap();
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (one, two) = (other.join("1"), other.join("2"));
                fs::write(&one, "").unwrap();
                while !ended.load(Ordering::Relaxed) {
                    fs::rename(&one, &two).unwrap();
                    fs::rename(&two, &one).unwrap();
                }
            });
            let opened: Vec<_> = (0..OPENS).map(|_| root.existing(Path::new("link")).map(drop)).collect();
            ended.store(true, Ordering::Relaxed);
            let failed = opened.iter().filter(|opened| opened.is_err()).count();
            assert_eq!(failed, 0, "of {OPENS}");
        });
    }
}
