//! `hotdesk image publish` and `hotdesk image prune`: guest images in the image store of Incus.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::failure::{Failure, Outcome};
use crate::output;
use crate::progress::Progress;
use hotdesk_controller::config::Config;
use hotdesk_engine::{ImagePresence, PruneOutcome, PrunedImage, PublicationStep, PublishedImage};

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

/// Removes the images that the data folder of a configuration published and nothing needs, and prints what was done with each.
///
/// # Errors
/// When the configuration does not use Incus, the image is not built, the server refuses, or a member does not answer.
pub(super) fn prune(config: &Config, json: bool) -> Outcome<()> {
    let settings = config.engine_settings()?;
    let runtime = runtime()?;
    let progress = Progress::waiting("looking for images that nothing needs");
    let pruned = runtime.block_on(hotdesk_engine::prune_images(settings));
    drop(progress);
    let pruned = pruned?;
    if json {
        let images: Vec<Value> = pruned.iter().map(image).collect();
        return output::line(&Value::from(images).to_string());
    }
    pruned.iter().try_for_each(|image| output::line(&line(image)))
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
    fn a_member_without_the_image_says_why() {
        let failed = ImagePresence::Failed("no space".to_owned());
        assert_eq!(member("m2", &failed), json!({"name": "m2", "image": "failed", "message": "no space"}));
        assert_eq!(member("m1", &ImagePresence::Fetched)["message"], Value::Null);
    }
}
