//! System calls of fscrypt, the encryption of folders in ext4 and f2fs (linux/fscrypt.h; kernel documentation,
//! "Filesystem-level encryption"). All use version 2 of its policies: a key is known by an identifier that the kernel
//! derives from it.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr;

use nix::libc;

use crate::FileKey;

const SET_POLICY: libc::Ioctl = 0x800C_6613;
const GET_POLICY: libc::Ioctl = 0xC009_6616;
const ADD_KEY: libc::Ioctl = 0xC050_6617;
const REMOVE_KEY: libc::Ioctl = 0xC040_6618;
const KEY_STATUS: libc::Ioctl = 0xC080_661A;

/// [`FileKey::BYTES`], in a field of 32 bits.
const KEY_BYTES: u32 = 64;

/// `FSCRYPT_KEY_SPEC_TYPE_IDENTIFIER`.
const BY_IDENTIFIER: u32 = 2;
/// `FSCRYPT_POLICY_V2`.
const VERSION: u8 = 2;
/// `FSCRYPT_MODE_AES_256_XTS`, for contents.
const AES_256_XTS: u8 = 1;
/// `FSCRYPT_MODE_AES_256_CTS`, for names of files.
const AES_256_CTS: u8 = 4;
/// `FSCRYPT_POLICY_FLAGS_PAD_32`: lengths of names are hidden up to 32 bytes.
const PAD_32: u8 = 3;
/// `FSCRYPT_KEY_REMOVAL_STATUS_FLAG_FILES_BUSY`.
const FILES_BUSY: u32 = 1;

/// What a folder's policy names its key by.
pub(crate) type KeyIdentifier = [u8; 16];

/// What the kernel has of a key, for one file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyStatus {
    /// Nothing. No file that is encrypted with it is open.
    Absent,
    /// The key.
    Present,
    /// Nothing but the keys of files that were open when it was removed.
    OpenFiles,
}

/// `struct fscrypt_key_specifier`.
#[repr(C)]
struct KeySpecifier {
    kind: u32,
    reserved: u32,
    identifier: KeyIdentifier,
    rest: [u8; 16],
}

impl KeySpecifier {
    fn of(identifier: KeyIdentifier) -> Self {
        Self { kind: BY_IDENTIFIER, reserved: 0, identifier, rest: [0; 16] }
    }
}

/// `struct fscrypt_add_key_arg` with a key.
#[repr(C)]
struct AddKey {
    key: KeySpecifier,
    raw_size: u32,
    key_id: u32,
    reserved: [u32; 8],
    raw: [u8; FileKey::BYTES],
}

/// `struct fscrypt_remove_key_arg`.
#[repr(C)]
struct RemoveKey {
    key: KeySpecifier,
    status_flags: u32,
    reserved: [u32; 5],
}

/// `struct fscrypt_get_key_status_arg`.
#[repr(C)]
struct GetKeyStatus {
    key: KeySpecifier,
    reserved: [u32; 6],
    status: u32,
    status_flags: u32,
    user_count: u32,
    out_reserved: [u32; 13],
}

/// `struct fscrypt_policy_v2`.
#[repr(C)]
struct Policy {
    version: u8,
    contents: u8,
    names: u8,
    flags: u8,
    reserved: [u8; 4],
    key: KeyIdentifier,
}

/// `struct fscrypt_get_policy_ex_arg`.
#[repr(C)]
struct GetPolicy {
    size: u64,
    policy: Policy,
}

fn call<T>(file: &File, request: libc::Ioctl, argument: &mut T) -> io::Result<()> {
    // SAFETY: every request of this file reads and writes one structure of the type that is passed with it, which lives
    // through the call. Those with a length in them have the length of what follows.
    #[allow(unsafe_code)]
    let done = unsafe { libc::ioctl(file.as_raw_fd(), request, ptr::from_mut(argument)) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Whether folders in a folder can be encrypted, each with its key: its file system must be able to, and the folder not be
/// encrypted itself. The folder, or parents of it, may not exist yet.
pub(crate) fn is_supported(path: &Path) -> io::Result<bool> {
    let there = path.ancestors().find(|path| path.is_dir()).unwrap_or(path);
    match policy(&File::open(there)?) {
        Ok(policy) => Ok(policy.is_none()),
        Err(error) if is_unsupported(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The identifier of the key that encrypts a folder; `None` when it is not encrypted, or by another program with the first
/// version of policies.
pub(crate) fn key_of(folder: &File) -> io::Result<Option<KeyIdentifier>> {
    match policy(folder) {
        Ok(policy) => Ok(policy.filter(|policy| policy.version == VERSION).map(|policy| policy.key)),
        Err(error) if is_unsupported(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether an error says that a file system, or its kernel, has no fscrypt. Each kind of file system has its own.
fn is_unsupported(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOTTY | libc::EOPNOTSUPP | libc::EINVAL | libc::ENOSYS))
}

/// The policy of a folder; `None` when it has none.
fn policy(folder: &File) -> io::Result<Option<Policy>> {
    let empty = Policy {
        version: 0,
        contents: 0,
        names: 0,
        flags: 0,
        reserved: [0; 4],
        key: KeyIdentifier::default(),
    };
    let mut argument = GetPolicy { size: size_of::<Policy>() as u64, policy: empty };
    match call(folder, GET_POLICY, &mut argument) {
        Ok(()) => Ok(Some(argument.policy)),
        Err(error) if error.raw_os_error() == Some(libc::ENODATA) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Encrypts an empty folder, and everything that is ever made in it, with a key that the kernel has. A folder that is
/// encrypted so already is left alone.
///
/// # Errors
/// `ENOTEMPTY` when there is something in it; `EEXIST` when it is encrypted with another key.
pub(crate) fn set_policy(folder: &File, key: KeyIdentifier) -> io::Result<()> {
    let mut policy = Policy {
        version: VERSION,
        contents: AES_256_XTS,
        names: AES_256_CTS,
        flags: PAD_32,
        reserved: [0; 4],
        key,
    };
    call(folder, SET_POLICY, &mut policy)
}

/// Gives the kernel a key for the file system of a folder, until it is removed or the file system unmounted. A key that it
/// has is left alone. Returns its identifier.
pub(crate) fn add_key(folder: &File, raw: [u8; FileKey::BYTES]) -> io::Result<KeyIdentifier> {
    let key = KeySpecifier::of(KeyIdentifier::default());
    let mut argument = AddKey { key, raw_size: KEY_BYTES, key_id: 0, reserved: [0; 8], raw };
    call(folder, ADD_KEY, &mut argument)?;
    Ok(argument.key.identifier)
}

/// What the kernel has of a key for the file system of a folder.
pub(crate) fn key_status(folder: &File, key: KeyIdentifier) -> io::Result<KeyStatus> {
    let mut argument = GetKeyStatus {
        key: KeySpecifier::of(key),
        reserved: [0; 6],
        status: 0,
        status_flags: 0,
        user_count: 0,
        out_reserved: [0; 13],
    };
    call(folder, KEY_STATUS, &mut argument)?;
    match argument.status {
        1 => Ok(KeyStatus::Absent),
        2 => Ok(KeyStatus::Present),
        3 => Ok(KeyStatus::OpenFiles),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Takes a key from the kernel, after it has written the whole file system back. Returns `false` when files with it are
/// open: their own keys stay until a later call.
pub(crate) fn remove_key(folder: &File, key: KeyIdentifier) -> io::Result<bool> {
    let mut argument = RemoveKey { key: KeySpecifier::of(key), status_flags: 0, reserved: [0; 5] };
    match call(folder, REMOVE_KEY, &mut argument) {
        Ok(()) => Ok(argument.status_flags & FILES_BUSY == 0),
        Err(error) if error.raw_os_error() == Some(libc::ENOKEY) => Ok(true),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_kernel_s_sizes() {
        assert_eq!(size_of::<KeySpecifier>(), 40);
        assert_eq!(size_of::<AddKey>(), 80 + FileKey::BYTES);
        assert_eq!(size_of::<RemoveKey>(), 64);
        assert_eq!(size_of::<GetKeyStatus>(), 128);
        assert_eq!(size_of::<Policy>(), 24);
        assert_eq!(size_of::<GetPolicy>(), 32);
    }

    #[test]
    fn a_file_system_without_the_feature_is_told_apart_from_a_failure() {
        // tmpfs of every kernel to date.
        let shared = File::open("/dev/shm").unwrap();
        assert!(!is_supported(Path::new("/dev/shm")).unwrap());
        assert!(!is_supported(Path::new("/dev/shm/not/yet")).unwrap());
        assert_eq!(key_of(&shared).unwrap(), None);
        set_policy(&shared, KeyIdentifier::default()).unwrap_err();
    }
}
