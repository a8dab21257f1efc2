//! Signed links to blobs.

use std::time::Duration;

use hmac::{Hmac, Mac};
use sha2::Sha256;
use uuid::Uuid;

use super::{BlobKind, BlobStore};
use hotdesk_base::clock;
use hotdesk_base::hex::{hex, unhex};

/// How long a link is valid (docs/api/files.md).
pub const LINK_LIFE: Duration = Duration::from_secs(3600);

impl BlobStore {
    /// Returns the path and query of a new link: `/api/storage/{kind}/{id}/{name}?expires=..&signature=..`.
    /// `expires` is in Unix seconds.
    pub fn link(&self, kind: BlobKind, id: Uuid, name: &str) -> String {
        let expires = clock::now().plus(LINK_LIFE).as_seconds();
        let signature = hex(&self.sign(kind, id, expires).finalize().into_bytes());
        let name = hotdesk_guest::percent_encode(name);
        format!("/api/storage/{}/{id}/{name}?expires={expires}&signature={signature}", kind.name())
    }

    /// Whether a link has a valid signature and has not expired. `expires` is in Unix seconds.
    pub fn verify(&self, kind: BlobKind, id: Uuid, expires: i64, signature: &str) -> bool {
        let Some(bytes) = unhex(signature.as_bytes()) else { return false };
        expires > clock::now().as_seconds() && self.sign(kind, id, expires).verify_slice(&bytes).is_ok()
    }

    fn sign(&self, kind: BlobKind, id: Uuid, expires: i64) -> Hmac<Sha256> {
        let mut signer = self.signer.clone();
        signer.update(format!("{}/{id}/{expires}", kind.name()).as_bytes());
        signer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_valid_only_for_its_blob() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = BlobStore::open(folder.path(), "secret").unwrap();
        let id = Uuid::new_v4();
        let link = blobs.link(BlobKind::File, id, "a b.txt");
        assert!(link.starts_with(&format!("/api/storage/files/{id}/a%20b.txt?")), "{link}");
        let (_, query) = link.split_once("?expires=").unwrap();
        let (expires, signature) = query.split_once("&signature=").unwrap();
        let expires: i64 = expires.parse().unwrap();
        assert!(blobs.verify(BlobKind::File, id, expires, signature));
        assert!(!blobs.verify(BlobKind::Screenshot, id, expires, signature));
        assert!(!blobs.verify(BlobKind::File, Uuid::new_v4(), expires, signature));
        assert!(!blobs.verify(BlobKind::File, id, expires + 1, signature));
        assert!(!blobs.verify(BlobKind::File, id, expires, ""));
        let other = BlobStore::open(folder.path(), "another").unwrap();
        assert!(!other.verify(BlobKind::File, id, expires, signature));
        let past = hex(&blobs.sign(BlobKind::File, id, 1).finalize().into_bytes());
        assert!(!blobs.verify(BlobKind::File, id, 1, &past));
    }
}
