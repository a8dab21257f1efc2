//! How is a program without a browser let in? It waits with a secret code, and a signed-in person types its short one.
//!
//! The key's record is made when the person approves, so that they see and can delete it at once. Its text is made by the
//! poll that fetches it, so that it is never stored, and a controller that starts again between the two loses nothing.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rand::RngExt;

use super::failures::Failures;
use super::keys;
use super::source::Source;
use crate::{App, audit};
use hotdesk_base::clock::Moment;
use hotdesk_base::ids::AccountId;
use hotdesk_base::secret::Secret;
use hotdesk_domain::audit::Action;
use hotdesk_domain::device::{self, CODE_LETTERS, INTERVAL_SECONDS, LETTERS, LIFE_SECONDS, Pace, UserCode};
use hotdesk_domain::error::{Error, Result};
use hotdesk_store::accounts::NewKey;
use hotdesk_store::devices::{By, Decision, Device, MAX_WAITING, NewDevice};

/// Characters of a device code: 43 of base62 are 256 bits (access.md A22: at least 128).
const CHARACTERS: usize = 43;
/// Requests for a key from one source in a minute: in the time that they live half of what may wait at once.
const STARTS: u32 = 30;
/// Polls of one source in a minute with codes that nothing waits under.
const STRAYS: u32 = 120;
/// Wrong codes that one person may type while a code lives: 5 of 20^8 are one in 2^32 (access.md A24).
const GUESSES: u32 = 5;
const MINUTE: Duration = Duration::from_secs(60);

/// What is counted of programs that ask for keys.
#[derive(Debug)]
pub struct Devices {
    starts: Failures<Source>,
    strays: Failures<Source>,
    guesses: Failures<AccountId>,
    /// When each last polled, and how long it was told to wait.
    polls: Mutex<HashMap<String, (Instant, u32)>>,
}

/// A program that begins to wait.
#[derive(Debug)]
pub struct Started {
    /// For the program.
    pub device_code: Secret,
    /// For its person.
    pub user_code: UserCode,
}

/// What a poll learns.
#[derive(Debug)]
pub enum Polled {
    /// Ask again after so many seconds.
    Pending(u32),
    /// The key, this once, and whose it is, with the address that they sign in with.
    Approved(Secret, AccountId, String),
    /// The person said no.
    Denied,
    /// Nothing waits under this code (any more).
    Expired,
}

impl Default for Devices {
    fn default() -> Self {
        Self {
            starts: Failures::new(STARTS, MINUTE),
            strays: Failures::new(STRAYS, MINUTE),
            guesses: Failures::new(GUESSES, Duration::from_secs(LIFE_SECONDS.into())),
            polls: Mutex::default(),
        }
    }
}

impl Devices {
    fn pending(&self, digest: &str, now: Instant) -> Result<Polled> {
        let mut polls = self.polls.lock().unwrap_or_else(PoisonError::into_inner);
        if polls.len() >= MAX_WAITING && !polls.contains_key(digest) {
            let oldest = polls.iter().min_by_key(|(_, (last, _))| *last).map(|(digest, _)| digest.clone());
            oldest.and_then(|oldest| polls.remove(&oldest));
        }
        let last = polls.get(digest).copied();
        let interval = last.map_or(INTERVAL_SECONDS, |(_, interval)| interval);
        match device::pace(interval, last.map(|(last, _)| now.duration_since(last))) {
            Pace::Wait(seconds) => {
                polls.insert(digest.to_owned(), (now, seconds));
                Ok(Polled::Pending(seconds))
            }
            Pace::Flood(seconds) => Err(Error::rate_limited(seconds)),
        }
    }

    /// Unknown, used and over are one to the program: who guesses learns nothing (access.md A25).
    fn stray(&self, source: Source, now: Instant) -> Result<Polled> {
        self.strays.attempt(&source, now).map(|()| Polled::Expired)
    }
}

/// Of a person's code, another text than of a program's: neither is ever good in the other's place.
fn user_digest(code: &UserCode) -> String {
    keys::digest(&format!("user code {}", code.letters()))
}

fn moment() -> Result<Moment> {
    Moment::now().map_err(|error| Error::internal(format!("read the clocks: {error}")))
}

impl App {
    /// Lets a program wait for a person's approval.
    ///
    /// # Errors
    /// `RateLimited`; or the store fails, as it does for one of the 25 thousand million codes that waits already.
    pub async fn start_device(&self, client: &str, hostname: &str, source: Source) -> Result<Started> {
        self.devices.starts.attempt(&source, Instant::now())?;
        let device_code = Secret::random(CHARACTERS);
        let letters = u8::try_from(LETTERS.len()).unwrap_or(u8::MAX);
        let user_code = UserCode::of(std::array::from_fn::<u8, CODE_LETTERS, _>(|_| {
            rand::rng().random_range(0..letters)
        }));
        let new = NewDevice {
            device_digest: &keys::digest(device_code.reveal()),
            user_digest: &user_digest(&user_code),
            client: &device::shown(client),
            hostname: &device::shown(hostname),
            source: &source.to_string(),
            began: &moment()?,
        };
        self.store.add_device(&new).await?;
        Ok(Started { device_code, user_code })
    }

    /// Tells a program how its person decided: an approval with the key, and a denial, once.
    ///
    /// # Errors
    /// `RateLimited` for a flood; or the store fails.
    pub async fn poll_device(&self, code: &Secret, source: Source) -> Result<Polled> {
        let (digest, now) = (keys::digest(code.reveal()), moment()?);
        let device = self.store.device(By::Device(&digest), &now).await?;
        match device.map(|device| device.decision) {
            None => self.devices.stray(source, Instant::now()),
            Some(Decision::Pending) => self.devices.pending(&digest, Instant::now()),
            Some(Decision::Denied) if self.store.forget_device(&digest).await? => Ok(Polled::Denied),
            Some(Decision::Denied) => self.devices.stray(source, Instant::now()),
            Some(Decision::Approved) => {
                let key = keys::fresh();
                let text = keys::digest(key.reveal());
                match self.store.hand_out(&digest, &text, keys::last_four(&key), &now).await? {
                    Some((account, email)) => Ok(Polled::Approved(key, account, email)),
                    None => self.devices.stray(source, Instant::now()),
                }
            }
        }
    }

    /// The program that waits under the code that a signed-in person typed.
    ///
    /// # Errors
    /// `Invalid` for what is no code; `NotFound` when nothing waits there; `RateLimited` after too many of these.
    pub async fn device_of(&self, account: AccountId, typed: &str) -> Result<(UserCode, Device)> {
        let code = UserCode::parse(typed)
            .ok_or_else(|| Error::invalid("A code has eight letters, no vowels, as in BCDF-GHJK."))?;
        self.devices.guesses.attempt(&account, Instant::now()).map_err(|refused| Error {
            message: "Too many wrong codes. Start again in some minutes.".to_owned(),
            ..refused
        })?;
        let device = self.store.device(By::User(&user_digest(&code)), &moment()?).await?;
        let device = device.filter(|device| device.decision == Decision::Pending).ok_or_else(|| {
            Error::not_found("Nothing waits under this code: it was used, or its time is over.")
        })?;
        self.devices.guesses.forgive(&account);
        Ok((code, device))
    }

    /// Has a person decide about the program that waits under a code; the program as it was.
    ///
    /// # Errors
    /// As [`App::device_of`].
    pub async fn decide_device(&self, account: AccountId, typed: &str, approve: bool) -> Result<Device> {
        let (code, device) = self.device_of(account, typed).await?;
        let (digest, now) = (user_digest(&code), moment()?);
        let decided = if approve {
            // Nobody's key until it is fetched: the digest is of a text that nobody knows.
            let nobody = keys::digest(Secret::random(CHARACTERS).reveal());
            let name = format!("CLI on {}", device.hostname);
            let key = NewKey { account, workspace: None, name: &name, digest: &nobody, last_four: "" };
            let made = self.store.approve_device(&digest, &key, &now).await?;
            if let Some(key) = made {
                audit::target(key);
            }
            made.is_some()
        } else {
            self.store.deny_device(&digest, &now).await?
        };
        if decided {
            audit::named(&device.client);
            audit::did(if approve { Action::DeviceApproved } else { Action::DeviceDenied });
            Ok(device)
        } else {
            Err(Error::not_found("Somebody was quicker: this code was used."))
        }
    }
}
