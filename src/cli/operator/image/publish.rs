//! `hotdesk image publish`: the guest image in the image store of Incus.

use serde_json::json;

use crate::failure::Outcome;
use crate::output;
use crate::progress::Progress;
use hotdesk_controller::config::Config;
use hotdesk_engine::PublishedImage;

/// Publishes the guest image of a configuration, in the form of each offered isolation, and prints the aliases.
///
/// # Errors
/// When the configuration does not use Incus, the image is not built, or the server refuses.
pub(super) fn publish(config: &Config, json: bool) -> Outcome<()> {
    let settings = config.engine_settings()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start the async runtime: {error}"))?;
    let progress = Progress::waiting("publishing the guest image");
    let published = runtime.block_on(hotdesk_engine::publish_images(settings));
    drop(progress);
    for PublishedImage { alias, fingerprint, existed } in published? {
        if json {
            let answer = json!({ "alias": alias, "fingerprint": fingerprint, "existed": existed });
            output::line(&answer.to_string())?;
        } else {
            let note = if existed { " (it was published before)" } else { "" };
            output::line(&format!("{alias}{note}"))?;
        }
    }
    Ok(())
}
