//! `hotdesk login`: how does a person at a terminal get a key? They approve it in a browser (wire.md 13).

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};

use super::client::api::{Api, QUICK};
use super::client::connection;
use super::client::credentials::{self, Credentials, Profile};
use super::failure::{Failure, Outcome};
use super::{output, runtime};
use hotdesk_base::secret::Secret;
use hotdesk_wire::device::{DevicePolled, DeviceStarted, DeviceStatus, StartDevice};

/// Where the key is stored when no profile is in use.
const FIRST_PROFILE: &str = "default";
/// What the server may say of the time that the codes live, in seconds.
const LIFE: std::ops::RangeInclusive<u32> = 1..=86_400;
/// And of the time between two polls.
const INTERVAL: std::ops::RangeInclusive<u32> = 1..=60;

/// Does it. `url` is `--url` or `HOTDESK_URL`, `profile` `--profile` or `HOTDESK_PROFILE`.
///
/// # Errors
/// When nobody approves in time, the server is not reached, or the profile cannot be stored.
pub fn run(url: Option<&str>, profile: Option<&str>, json: bool) -> Outcome<()> {
    let path = credentials::path()?;
    let known = Credentials::load(&path)?;
    let name = profile.or(known.current.as_deref()).unwrap_or(FIRST_PROFILE).to_owned();
    let stored = known.profiles.get(&name).map(|profile| profile.url.as_str());
    let url = url.or(stored).unwrap_or(connection::DEFAULT_URL).to_owned();
    let api = Api::keyless(connection::base(&url).map_err(Failure::Usage)?)?;
    let (key, email) = runtime()?.block_on(approved(&api, json))?;
    // Read again: minutes may have passed since.
    let mut known = Credentials::load(&path)?;
    known.profiles.insert(name.clone(), Profile { key, url: url.clone() });
    known.current = Some(name.clone());
    known.save(&path)?;
    say(
        json,
        &json!({"profile": name, "url": url, "email": email}),
        &format!("Signed in as {email}. The key is stored in profile {name} ({url})."),
    )
}

/// The key, and whose it is.
async fn approved(api: &Api, json: bool) -> Outcome<(Secret, String)> {
    let hostname = nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned());
    let body = StartDevice { client: "hotdesk".to_owned(), hostname: hostname.unwrap_or_default() };
    let started = api.call(Method::POST, &["cli", "auth", "start"], Some(&body), QUICK).await?;
    let started: DeviceStarted = started.decode()?;
    let (page, code) = (&started.verification_uri_complete, &started.user_code);
    say(
        json,
        &json!({"verification_uri_complete": page, "user_code": code}),
        &format!("Open {page}\nand approve the code {code}. Waiting ..."),
    )?;
    let code = Secret::new(started.device_code);
    let until = Instant::now() + within(started.expires_in_seconds, &LIFE);
    let mut interval = started.interval_seconds;
    let mut missed = None;
    while Instant::now() < until {
        tokio::time::sleep(within(interval, &INTERVAL)).await;
        match poll(api, &code).await {
            // A server that is away for a moment, or busy, has not forgotten the codes.
            Err(failure) => missed = Some(failure),
            Ok(polled) => match (polled.status, polled.api_key) {
                (DeviceStatus::Pending, _) => interval = polled.interval_seconds.unwrap_or(interval),
                (DeviceStatus::Approved, Some(key)) => {
                    let email = polled.user.map(|user| user.email).unwrap_or_default();
                    return Ok((Secret::new(key), email));
                }
                (DeviceStatus::Denied, _) => return Err("it was denied".into()),
                (DeviceStatus::Approved | DeviceStatus::Expired, _) => break,
            },
        }
    }
    Err(missed.unwrap_or_else(|| "nobody approved it in time".into()))
}

async fn poll(api: &Api, code: &Secret) -> Outcome<DevicePolled> {
    let body = json!({ "device_code": code.reveal() });
    api.call(Method::POST, &["cli", "auth", "poll"], Some(&body), QUICK).await?.decode()
}

fn within(seconds: u32, bounds: &std::ops::RangeInclusive<u32>) -> Duration {
    Duration::from_secs(seconds.clamp(*bounds.start(), *bounds.end()).into())
}

/// A line of JSON with `--json`, else what people read.
fn say(json: bool, value: &Value, people: &str) -> Outcome<()> {
    if json { output::line(&value.to_string()) } else { output::line(people) }
}
