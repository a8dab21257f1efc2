//! `hotdesk image publish` and `hotdesk image prune`: guest images in the image store of Incus.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::failure::{Failure, Outcome};
use crate::output;
use crate::progress::Progress;
use hotdesk_controller::config::Config;
use hotdesk_engine::{
    ImagePresence, PruneOutcome, PruneReport, PrunedImage, PrunedVolume, PublicationStep, PublishedImage,
};

/// Characters of a fingerprint that Incus shows.
const FINGERPRINT_CHARACTERS: usize = 12;

/// Publishes the guest image of a configuration on all members of Incus, in the form of each offered isolation, and prints the
/// aliases. The steps go to standard error.
///
/// # Errors
/// When the configuration does not use Incus, the image is not built, the server refuses, or a member cannot fetch the image.
pub(super) fn publish(config: &Config, json: bool) -> Outcome<()> {
    let settings = config.engine_settings()?;
    let published = runtime()?
        .block_on(hotdesk_engine::publish_images(settings, &|step: &PublicationStep| eprintln!("{step}")));
    let mut failed = BTreeSet::new();
    for PublishedImage { alias, fingerprint, existed, members } in published? {
        if json {
            let members: Vec<Value> = members.iter().map(|(name, presence)| member(name, presence)).collect();
            let answer =
                json!({ "alias": alias, "fingerprint": fingerprint, "existed": existed, "members": members });
            output::line(&answer.to_string())?;
        } else {
            let note = if existed { " (it was published before)" } else { "" };
            output::line(&format!("{alias}{note}"))?;
        }
        let unable = members.into_iter().filter(|(_, presence)| matches!(presence, ImagePresence::Failed(_)));
        failed.extend(unable.map(|(name, _)| name));
    }
    if failed.is_empty() {
        return Ok(());
    }
    let text = format!(
        "the image is published, but {} could not fetch it; run `hotdesk image publish` again to continue",
        failed.into_iter().collect::<Vec<_>>().join(", ")
    );
    Err(Failure::Failed(text))
}

/// A member in the JSON answer of a publication.
fn member(name: &str, presence: &ImagePresence) -> Value {
    let (state, message) = match presence {
        ImagePresence::Existing => ("existing", None),
        ImagePresence::Fetched => ("fetched", None),
        ImagePresence::Unavailable(status) => ("unavailable", Some(status)),
        ImagePresence::Failed(why) => ("failed", Some(why)),
    };
    json!({ "name": name, "image": state, "message": message })
}

/// Removes the images that the data folder of a configuration published and nothing needs, with their volumes, and prints what was
/// done with each.
///
/// # Errors
/// When the configuration does not use Incus, the image is not built, the server refuses, a member does not answer, or a volume stays
/// that nothing needs.
pub(super) fn prune(config: &Config, json: bool) -> Outcome<()> {
    let settings = config.engine_settings()?;
    let runtime = runtime()?;
    let progress = Progress::waiting("looking for images that nothing needs");
    let pruned = runtime.block_on(hotdesk_engine::prune_images(settings));
    drop(progress);
    let PruneReport { images, volumes } = pruned?;
    if json {
        let images: Vec<Value> = images.iter().map(image).collect();
        let volumes: Vec<Value> = volumes.iter().map(volume).collect();
        output::line(&json!({ "images": images, "volumes": volumes }).to_string())?;
    } else {
        images.iter().try_for_each(|image| output::line(&line(image)))?;
        volumes.iter().try_for_each(|volume| output::line(&volume_line(volume)))?;
    }
    let failed: Vec<String> = volumes.into_iter().filter_map(|volume| volume.failure).collect();
    if failed.is_empty() {
        return Ok(());
    }
    let text = format!(
        "some volumes stay that nothing needs: {}; run `hotdesk image prune` again to continue",
        failed.join("; ")
    );
    Err(Failure::Failed(text))
}

/// The volumes of a guest image in the JSON answer of a removal.
fn volume(volume: &PrunedVolume) -> Value {
    json!({ "name": volume.name, "removed_from": volume.removed_from, "message": volume.failure })
}

/// Line about the volumes of a guest image for people.
fn volume_line(volume: &PrunedVolume) -> String {
    let PrunedVolume { name, removed_from, failure: _ } = volume;
    match removed_from.as_slice() {
        [] => format!("{name}: not removed"),
        // Without a cluster there are no members.
        [one] if one == "none" => format!("{name}: removed"),
        members => format!("{name}: removed from {}", members.join(", ")),
    }
}

/// An image in the JSON answer of a removal.
fn image(image: &PrunedImage) -> Value {
    json!({
        "alias": image.alias,
        "fingerprint": image.fingerprint,
        "size_bytes": image.bytes,
        "removed": image.outcome == PruneOutcome::Removed,
        "reason": reason(image.outcome),
    })
}

/// Line about an image for people.
fn line(image: &PrunedImage) -> String {
    let short: String = image.fingerprint.chars().take(FINGERPRINT_CHARACTERS).collect();
    let name = image.alias.as_deref().unwrap_or(&short);
    let megabytes = image.bytes.div_ceil(1_000_000);
    match reason(image.outcome) {
        None => format!("{name}: removed ({megabytes} MB on each member)"),
        Some(reason) => format!("{name}: kept, {reason}"),
    }
}

/// Why an image stays; `None` when it does not.
fn reason(outcome: PruneOutcome) -> Option<String> {
    match outcome {
        PruneOutcome::Removed => None,
        PruneOutcome::Configured => Some("new computers begin from it".to_owned()),
        PruneOutcome::InUse(1) => Some("1 computer or replica began from it".to_owned()),
        PruneOutcome::InUse(count) => Some(format!("{count} computers or replicas began from it")),
        PruneOutcome::Shared => Some("another installation published it too".to_owned()),
    }
}

fn runtime() -> Outcome<Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    Ok(runtime.map_err(|error| format!("cannot start the async runtime: {error}"))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_image_has_a_line_with_the_reason_why_it_stays() {
        let pruned = |alias: Option<&str>, outcome| PrunedImage {
            fingerprint: "fingerprint-of-it".to_owned(),
            alias: alias.map(str::to_owned),
            bytes: 215_400_000,
            outcome,
        };
        for (image, expected) in [
            (pruned(Some("hotdesk-a"), PruneOutcome::Removed), "hotdesk-a: removed (216 MB on each member)"),
            (pruned(None, PruneOutcome::InUse(1)), "fingerprint-: kept, 1 computer or replica began from it"),
            (
                pruned(Some("hotdesk-b"), PruneOutcome::Shared),
                "hotdesk-b: kept, another installation published it too",
            ),
        ] {
            assert_eq!(line(&image), expected);
        }
        assert_eq!(image(&pruned(None, PruneOutcome::Removed))["removed"], true);
    }

    #[test]
    fn removed_volumes_have_a_line_with_their_members() {
        let pruned = |members: &[&str]| PrunedVolume {
            name: "hotdesk-base-a".to_owned(),
            removed_from: members.iter().map(|member| (*member).to_owned()).collect(),
            failure: None,
        };
        for (members, expected) in [
            (["m1", "m2"].as_slice(), "hotdesk-base-a: removed from m1, m2"),
            (["none"].as_slice(), "hotdesk-base-a: removed"),
            ([].as_slice(), "hotdesk-base-a: not removed"),
        ] {
            assert_eq!(volume_line(&pruned(members)), expected);
        }
        let expected = json!({"name": "hotdesk-base-a", "removed_from": ["m1"], "message": null});
        assert_eq!(volume(&pruned(&["m1"])), expected);
    }

    #[test]
    fn a_member_without_the_image_says_why() {
        let failed = ImagePresence::Failed("no space".to_owned());
        assert_eq!(member("m2", &failed), json!({"name": "m2", "image": "failed", "message": "no space"}));
        assert_eq!(member("m1", &ImagePresence::Fetched)["message"], Value::Null);
    }
}
