//! Archives of `docker save` before Docker 25, and of `podman save`: a manifest that names the layers by their members, and
//! a configuration with the digests of their contents (moby/docker-image-spec, `spec.md`).

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::{Descriptor, Image, Layout, Platform, check_layer_count, check_platform, parse};
use crate::failure::Outcome;
use hotdesk_base::hex::hex;

/// The document that names the images of an archive.
pub(super) const MANIFEST: &str = "manifest.json";

/// An image of an archive.
#[derive(Debug, Deserialize)]
struct SavedImage {
    #[serde(rename = "Config")]
    config: String,
    /// Members with its layers, the lowest first.
    #[serde(rename = "Layers")]
    layers: Vec<String>,
}

/// What is read of an image's configuration.
#[derive(Debug, Deserialize)]
struct Configuration {
    #[serde(flatten)]
    platform: Platform,
    rootfs: LayerDigests,
}

#[derive(Debug, Deserialize)]
struct LayerDigests {
    /// Digests of the layers' tar archives, the lowest first.
    diff_ids: Vec<String>,
}

/// Finds the image of an archive.
///
/// # Errors
/// When there is none, more than one, or one for another platform; when a document is damaged or a layer is missing.
pub(super) fn image(archive: &Layout) -> Outcome<Image> {
    let images: Vec<SavedImage> = parse(MANIFEST, &archive.document(MANIFEST, None)?)?;
    let [image] = &images[..] else {
        return Err(format!("the source has {} images: save one alone", images.len()).into());
    };
    let text = archive.document(&image.config, None)?;
    let Configuration { platform, rootfs } = parse(&image.config, &text)?;
    check_platform(&platform)?;
    if rootfs.diff_ids.len() != image.layers.len() {
        return Err(format!(
            "{MANIFEST} has {} layers, and the image's configuration {}",
            image.layers.len(),
            rootfs.diff_ids.len()
        )
        .into());
    }
    check_layer_count(image.layers.len())?;
    let all: Vec<(&String, &String)> = rootfs.diff_ids.iter().zip(&image.layers).collect();
    let layers = all.iter().map(|(digest, name)| -> Outcome<Descriptor> {
        // A layer that is there twice is a link to its first place.
        let mut places = all.iter().filter(|(other, _)| other == digest);
        let place = places.find_map(|(_, name)| Some((*name, archive.member_size(name)?)));
        let (member, size) = place.ok_or_else(|| format!("the archive has no {name}"))?;
        Ok(Descriptor {
            media_type: String::new(),
            digest: (*digest).clone(),
            size,
            platform: None,
            member: Some(member.clone()),
        })
    });
    let layers = layers.collect::<Outcome<Vec<_>>>()?;
    Ok(Image { digest: format!("sha256:{}", hex(&Sha256::digest(&text))), layers })
}
