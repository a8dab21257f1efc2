//! The full guest image with the certificate authorities of this host: guests behind a proxy that inspects TLS need its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::controller::image;

/// Authorities of Debian, in the host and in the image.
const AUTHORITIES: &str = "etc/ssl/certs/ca-certificates.crt";

/// A folder with the image beside the full one, whose files it links; the drop removes it.
pub struct TrustingImage {
    folder: tempfile::TempDir,
}

impl TrustingImage {
    /// Makes the image. The full image and root must be there. It is no mount, because overlays have no owners that an
    /// engine could map.
    pub fn link() -> Self {
        let full = image().with_file_name("full");
        let beside = full.parent().expect("a folder of images");
        let folder = tempfile::Builder::new().prefix(".trusting-").tempdir_in(beside).expect("a folder");
        let root = folder.path().join("rootfs");
        let linked = Command::new("cp").args(["-a", "--link"]).arg(full.join("rootfs")).arg(&root).status();
        assert!(linked.expect("cp").success(), "{}", root.display());
        std::fs::copy(full.join("image.json"), folder.path().join("image.json")).expect("a description");
        let authorities = root.join(AUTHORITIES);
        // A write would change the file of the full image.
        std::fs::remove_file(&authorities).expect("the image's authorities");
        std::fs::copy(Path::new("/").join(AUTHORITIES), &authorities).expect("the authorities of this host");
        Self { folder }
    }

    /// The folder of the image.
    pub fn path(&self) -> PathBuf {
        self.folder.path().to_owned()
    }
}
