//! Device approval: a program without a browser waits with a secret code, and a signed-in person enters its
//! short code.
//!
//! The key's record is created when the person approves, so that they can see and delete it at once. Its text
//! is created by the poll that fetches it, so it is never stored, and a restart between the two loses
//! nothing.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rand::RngExt;

use super::keys;
use crate::audit;
use crate::web::failures::Failures;
use crate::web::source::Source;
use hotdesk_base::clock::Moment;
use hotdesk_base::ids::AccountId;
use hotdesk_base::secret::Secret;
use hotdesk_domain::audit::AuditAction;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::identity::device::{
    self, CODE_LETTERS, INTERVAL_SECONDS, LETTERS, LIFE_SECONDS, PollPace, UserCode,
};
use hotdesk_store::Store;
use hotdesk_store::identity::accounts::NewKey;
use hotdesk_store::identity::oauth::device_codes::{
    CodeDigest, DeviceDecision, DeviceRequest, MAX_WAITING, NewDevice,
};

/// Characters of a device code: 43 of base62 are 256 bits. A22 (docs/authentication-rules.md) requires 128.
const CHARACTERS: usize = 43;
/// Device requests of one client address in a minute. In their lifetime this is half of all that may wait.
const STARTS: u32 = 30;
/// Polls of one client address in a minute with unknown codes.
const UNKNOWN_POLLS: u32 = 120;
/// Wrong codes that one person may enter while a code is valid: 5 of 20^8 are one in 2^32, A24
/// (docs/authentication-rules.md).
const WRONG_CODES: u32 = 5;
const MINUTE: Duration = Duration::from_secs(60);

/// Device requests and their rate limits.
#[derive(Debug)]
pub struct Devices {
    store: Store,
    starts: Failures<Source>,
    unknown_polls: Failures<Source>,
    wrong_codes: Failures<AccountId>,
    /// Last poll of each device code (by digest), and the interval in seconds that it was given.
    polls: Mutex<HashMap<String, (Instant, u32)>>,
}

/// Codes of a new device request.
#[derive(Debug)]
pub struct DeviceCodes {
    /// Secret code for the program.
    pub device_code: Secret,
    /// Short code for the person.
    pub user_code: UserCode,
}

/// Result of a poll.
#[derive(Debug)]
pub enum DevicePoll {
    /// Poll again after this many seconds.
    Pending(u32),
    /// The key (returned only once), its account, and that account's e-mail address.
    Approved(Secret, AccountId, String),
    /// The person denied the request.
    Denied,
    /// No request waits under this code.
    Expired,
}

impl Devices {
    /// Creates the service with no polls.
    pub fn new(store: Store) -> Self {
        Self {
            store,
            starts: Failures::new(STARTS, MINUTE),
            unknown_polls: Failures::new(UNKNOWN_POLLS, MINUTE),
            wrong_codes: Failures::new(WRONG_CODES, Duration::from_secs(LIFE_SECONDS.into())),
            polls: Mutex::default(),
        }
    }

    /// Creates a device request.
    ///
    /// # Errors
    /// `RateLimited`; `Internal` when the database fails, also when the short code (one of 25 thousand
    /// million) is in use.
    pub async fn start(&self, client: &str, hostname: &str, source: Source) -> Result<DeviceCodes> {
        self.starts.attempt(&source, Instant::now())?;
        let device_code = Secret::random(CHARACTERS);
        let letters = u8::try_from(LETTERS.len()).unwrap_or(u8::MAX);
        let user_code = UserCode::of(std::array::from_fn::<u8, CODE_LETTERS, _>(|_| {
            rand::rng().random_range(0..letters)
        }));
        let new = NewDevice {
            device_digest: &keys::digest(device_code.reveal()),
            user_digest: &user_digest(&user_code),
            client: &device::displayable(client),
            hostname: &device::displayable(hostname),
            source: &source.to_string(),
            began: &moment()?,
        };
        self.store.add_device(&new).await?;
        Ok(DeviceCodes { device_code, user_code })
    }

    /// Returns how the person decided. An approval (with the key) and a denial are each returned once.
    ///
    /// # Errors
    /// `RateLimited` when the program polls too fast; `Internal` when the database fails.
    pub async fn poll(&self, code: &Secret, source: Source) -> Result<DevicePoll> {
        let (digest, now) = (keys::digest(code.reveal()), moment()?);
        let device = self.store.device(CodeDigest::Device(&digest), &now).await?;
        match device.map(|device| device.decision) {
            None => self.unknown(source, Instant::now()),
            Some(DeviceDecision::Pending) => self.pending(&digest, Instant::now()),
            Some(DeviceDecision::Denied) if self.store.forget_device(&digest).await? => {
                Ok(DevicePoll::Denied)
            }
            Some(DeviceDecision::Denied) => self.unknown(source, Instant::now()),
            Some(DeviceDecision::Approved) => {
                let key = keys::generate();
                let text = keys::digest(key.reveal());
                match self.store.issue_device_key(&digest, &text, keys::last_four(&key), &now).await? {
                    Some((account, email)) => Ok(DevicePoll::Approved(key, account, email)),
                    None => self.unknown(source, Instant::now()),
                }
            }
        }
    }

    /// Returns the pending request of a code that a signed-in person entered.
    ///
    /// # Errors
    /// `Invalid` for a malformed code; `NotFound` when no request waits under it; `RateLimited` after too
    /// many wrong codes.
    pub async fn find(&self, account: AccountId, typed: &str) -> Result<(UserCode, DeviceRequest)> {
        let code = UserCode::parse(typed)
            .ok_or_else(|| Error::invalid("A code has eight letters, no vowels, as in BCDF-GHJK."))?;
        self.wrong_codes.attempt(&account, Instant::now()).map_err(|refused| Error {
            message: "Too many wrong codes. Start again in some minutes.".to_owned(),
            ..refused
        })?;
        let device = self.store.device(CodeDigest::User(&user_digest(&code)), &moment()?).await?;
        let device = device.filter(|device| device.decision == DeviceDecision::Pending).ok_or_else(|| {
            Error::not_found("No device waits under this code: it was used or has expired. Start again.")
        })?;
        self.wrong_codes.forgive(&account);
        Ok((code, device))
    }

    /// Stores a person's decision and returns the request as it was.
    ///
    /// # Errors
    /// The errors of [`Devices::find`].
    pub async fn decide(&self, account: AccountId, typed: &str, approve: bool) -> Result<DeviceRequest> {
        let (code, device) = self.find(account, typed).await?;
        let (digest, now) = (user_digest(&code), moment()?);
        let decided = if approve {
            // The key is unusable until the program fetches it: this is the digest of a text that nobody
            // knows.
            let nobody = keys::digest(Secret::random(CHARACTERS).reveal());
            let name = format!("CLI on {}", device.hostname);
            let key = NewKey { account, workspace: None, name: &name, digest: &nobody, last_four: "" };
            let made = self.store.approve_device(&digest, &key, &now).await?;
            if let Some(key) = made {
                audit::set_target(key);
            }
            made.is_some()
        } else {
            self.store.deny_device(&digest, &now).await?
        };
        if decided {
            audit::set_client(&device.client);
            audit::set_action(if approve { AuditAction::DeviceApproved } else { AuditAction::DeviceDenied });
            Ok(device)
        } else {
            Err(Error::not_found("This code was used already."))
        }
    }

    fn pending(&self, digest: &str, now: Instant) -> Result<DevicePoll> {
        let mut polls = self.polls.lock().unwrap_or_else(PoisonError::into_inner);
        if polls.len() >= MAX_WAITING && !polls.contains_key(digest) {
            let oldest = polls.iter().min_by_key(|(_, (last, _))| *last).map(|(digest, _)| digest.clone());
            oldest.and_then(|oldest| polls.remove(&oldest));
        }
        let last = polls.get(digest).copied();
        let interval = last.map_or(INTERVAL_SECONDS, |(_, interval)| interval);
        match device::pace(interval, last.map(|(last, _)| now.duration_since(last))) {
            PollPace::Wait(seconds) => {
                polls.insert(digest.to_owned(), (now, seconds));
                Ok(DevicePoll::Pending(seconds))
            }
            PollPace::Flood(seconds) => Err(Error::rate_limited(seconds)),
        }
    }

    /// Unknown, used and expired codes look the same, so that guessing reveals nothing, A25
    /// (docs/authentication-rules.md).
    fn unknown(&self, source: Source, now: Instant) -> Result<DevicePoll> {
        self.unknown_polls.attempt(&source, now).map(|()| DevicePoll::Expired)
    }
}

/// Digest of a person's code. It differs from that of a program's code, so that neither is valid in the
/// other's place.
fn user_digest(code: &UserCode) -> String {
    keys::digest(&format!("user code {}", code.letters()))
}

fn moment() -> Result<Moment> {
    Moment::now().map_err(|error| Error::internal(format!("read the clocks: {error}")))
}
