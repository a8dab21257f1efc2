//! `hotdesk login`: API key through approval in a browser (docs/api/authentication.md).

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};

use crate::client::api::{Api, REQUEST_TIMEOUT};
use crate::client::connection;
use crate::client::credentials::{self, Credentials, Profile};
use crate::failure::{Failure, Outcome};
use crate::{output, runtime};
use hotdesk_base::secret::Secret;
use hotdesk_wire::identity::device::{DeviceAuthorization, DevicePollResult, DeviceStatus, StartDevice};

/// Profile for the key when there is no current profile.
const DEFAULT_PROFILE: &str = "default";
/// Accepted lifetime of the codes, in seconds; values of the server outside of it are clamped.
const LIFETIME: std::ops::RangeInclusive<u32> = 1..=86_400;
/// Accepted time between two polls, in seconds; values of the server outside of it are clamped.
const INTERVAL: std::ops::RangeInclusive<u32> = 1..=60;

/// Signs in and stores the key. `url` is `--url` or `HOTDESK_URL`; `profile` is `--profile` or `HOTDESK_PROFILE`.
///
/// # Errors
/// When the request is denied or not approved in time, the server is unreachable, or the profile cannot be stored.
pub fn run(url: Option<&str>, profile: Option<&str>, json: bool) -> Outcome<()> {
    let path = credentials::path()?;
    let stored = Credentials::load(&path)?;
    let name = profile.or(stored.current.as_deref()).unwrap_or(DEFAULT_PROFILE).to_owned();
    let stored_url = stored.profiles.get(&name).map(|profile| profile.url.as_str());
    let url = url.or(stored_url).unwrap_or(connection::DEFAULT_URL).to_owned();
    let api = Api::keyless(connection::base(&url).map_err(Failure::Usage)?)?;
    let (key, email) = runtime()?.block_on(wait_for_approval(&api, json))?;
    // Read again: another command may have changed the file during the minutes of waiting.
    let mut stored = Credentials::load(&path)?;
    stored.profiles.insert(name.clone(), Profile { key, url: url.clone() });
    stored.current = Some(name.clone());
    stored.save(&path)?;
    print(
        json,
        &json!({"profile": name, "url": url, "email": email}),
        &format!("Signed in as {email}. The key is stored in profile {name} ({url})."),
    )
}

/// Returns the key and the e-mail address of its account, after the approval.
async fn wait_for_approval(api: &Api, json: bool) -> Outcome<(Secret, String)> {
    let hostname = nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned());
    let body = StartDevice { client: "hotdesk".to_owned(), hostname: hostname.unwrap_or_default() };
    let started = api.call(Method::POST, &["cli", "auth", "start"], Some(&body), REQUEST_TIMEOUT).await?;
    let started: DeviceAuthorization = started.decode()?;
    let (page, code) = (&started.verification_uri_complete, &started.user_code);
    print(
        json,
        &json!({"verification_uri_complete": page, "user_code": code}),
        &format!("Open {page}\nand approve the code {code}. Waiting ..."),
    )?;
    let code = Secret::new(started.device_code);
    let deadline = Instant::now() + clamped(started.expires_in_seconds, &LIFETIME);
    let mut interval = started.interval_seconds;
    let mut last_failure = None;
    while Instant::now() < deadline {
        tokio::time::sleep(clamped(interval, &INTERVAL)).await;
        match poll(api, &code).await {
            // The codes outlive an outage of the server, so a failed poll is retried.
            Err(failure) => last_failure = Some(failure),
            Ok(polled) => match (polled.status, polled.api_key) {
                (DeviceStatus::Pending, _) => interval = polled.interval_seconds.unwrap_or(interval),
                (DeviceStatus::Approved, Some(key)) => {
                    let email = polled.user.map(|user| user.email).unwrap_or_default();
                    return Ok((Secret::new(key), email));
                }
                (DeviceStatus::Denied, _) => return Err("the sign-in was denied in the browser".into()),
                (DeviceStatus::Approved | DeviceStatus::Expired, _) => break,
            },
        }
    }
    Err(last_failure
        .unwrap_or_else(|| "the sign-in was not approved in time: run `hotdesk login` again".into()))
}

async fn poll(api: &Api, code: &Secret) -> Outcome<DevicePollResult> {
    let body = json!({ "device_code": code.reveal() });
    api.call(Method::POST, &["cli", "auth", "poll"], Some(&body), REQUEST_TIMEOUT).await?.decode()
}

fn clamped(seconds: u32, bounds: &std::ops::RangeInclusive<u32>) -> Duration {
    Duration::from_secs(seconds.clamp(*bounds.start(), *bounds.end()).into())
}

/// Prints a line of JSON with `--json`, otherwise `text`.
fn print(json: bool, value: &Value, text: &str) -> Outcome<()> {
    if json { output::line(&value.to_string()) } else { output::line(text) }
}
