//! Shared memory segment for captures (MIT-SHM, `ShmAttachFd`).

use std::ffi::c_void;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use x11rb::connection::Connection;
use x11rb::protocol::shm::{self, ConnectionExt};

use crate::display::fault::{Fault, Outcome};
use crate::display::link::Link;

/// A segment that the X server writes frames into.
#[derive(Debug)]
pub(in crate::display) struct Segment {
    /// X resource id of the segment.
    pub(super) id: shm::Seg,
    base: NonNull<c_void>,
    bytes: usize,
}

// SAFETY: the mapping belongs to this value alone and is not tied to a thread.
#[allow(unsafe_code)]
unsafe impl Send for Segment {}

impl Segment {
    /// Creates a segment of `bytes` bytes and attaches it to the server.
    pub(super) fn attach(link: &Link, bytes: usize) -> Outcome<Self> {
        let file = memfd_create("hotdesk-frame", MemfdFlags::CLOEXEC).map_err(fault)?;
        ftruncate(&file, bytes as u64).map_err(fault)?;
        let base = map(&file, bytes)?;
        let id = link.generate_id()?;
        let segment = Self { id, base, bytes };
        link.shm_attach_fd(id, file, false)?.check()?;
        Ok(segment)
    }

    /// Size in bytes.
    pub(super) fn len(&self) -> usize {
        self.bytes
    }

    /// Replaces the content of `target` by the first `bytes` bytes of the segment. Call it only after the
    /// reply to a `ShmGetImage` and before the next one: the server writes at no other time.
    pub(in crate::display) fn copy_to(&self, target: &mut Vec<u8>, bytes: usize) {
        assert!(bytes <= self.bytes, "{bytes} bytes are not in a segment of {}", self.bytes);
        target.clear();
        // SAFETY: `base` maps at least `bytes` readable bytes until drop. The server is not writing (see above).
        #[allow(unsafe_code)]
        let seen = unsafe { std::slice::from_raw_parts(self.base.as_ptr().cast::<u8>(), bytes) };
        target.extend_from_slice(seen);
    }

    /// Detaches the segment from the server.
    pub(super) fn detach(self, link: &Link) -> Outcome<()> {
        link.shm_detach(self.id)?;
        Ok(())
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: `map` made the mapping with this length, and nothing borrows from it beyond `copy_to`.
        #[allow(unsafe_code)]
        let unmapped = unsafe { munmap(self.base.as_ptr(), self.bytes) };
        if let Err(error) = unmapped {
            tracing::error!(%error, "could not unmap a shared memory segment");
        }
    }
}

fn map(file: &OwnedFd, bytes: usize) -> Outcome<NonNull<c_void>> {
    // SAFETY: a fresh mapping at an address that the kernel chooses aliases nothing.
    #[allow(unsafe_code)]
    let base = unsafe {
        mmap(std::ptr::null_mut(), bytes, ProtFlags::READ, MapFlags::SHARED, file, 0).map_err(fault)?
    };
    NonNull::new(base).ok_or_else(|| Fault::Broken(String::from("mmap returned null")))
}

fn fault(error: rustix::io::Errno) -> Fault {
    hotdesk_domain::error::Error::internal(format!("Shared memory for screenshots: {error}")).into()
}
