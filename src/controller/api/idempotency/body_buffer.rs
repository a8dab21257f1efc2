//! Buffered bodies of requests with an idempotency key.
//!
//! A body is received completely, in memory, before the request is recorded. A disconnect before that has no
//! effect. Memory is limited for each account and in total, in units of [`UNIT`].

use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use http_body_util::BodyExt;

use hotdesk_base::ids::AccountId;
use hotdesk_base::keyed_semaphore::{KeyedSemaphore, Permit};
use hotdesk_domain::error::{Error, Result};
use hotdesk_http::extract::{BODY_TIMEOUT, MAX_JSON_BYTES};

/// Largest body in bytes: that of a JSON request without a key. The whole body is in memory until its handler
/// has read it, so it cannot be a file of any size. Resumable uploads (tus) make large files safe to repeat.
const MAX_KEYED_BODY: usize = MAX_JSON_BYTES;
/// Unit in which memory is counted, in bytes. Most JSON bodies take one.
const UNIT: usize = 64 * 1024;
/// Units of one account: 32 bodies of the greatest length, or as many short ones as one client address has
/// connections.
const MAX_UNITS_OF_ACCOUNT: usize = 1024;
/// Units of all accounts: three accounts at their limit leave as much to the others. It bounds the buffered
/// bytes to 256 MiB.
const MAX_UNITS: usize = 4 * MAX_UNITS_OF_ACCOUNT;
/// Seconds after which a client may retry that exceeded the quota. Most bodies are complete by then.
const RETRY_SECONDS: u32 = 5;

/// Bodies that are being received or are still in use.
pub struct BodyBuffers {
    of_account: KeyedSemaphore<AccountId>,
    of_all: KeyedSemaphore<()>,
    /// Units allowed for an account, and for all accounts.
    most: (usize, usize),
    /// Longest time until a body is complete.
    timeout: Duration,
}

/// Received bytes with their permits, which are released together.
#[derive(Default)]
struct BufferedBody {
    bytes: Vec<u8>,
    permits: Vec<UnitPermit>,
}

/// Permit for one unit of an account, and of all accounts.
type UnitPermit = (Permit<AccountId>, Permit<()>);

impl Default for BodyBuffers {
    fn default() -> Self {
        Self {
            of_account: KeyedSemaphore::default(),
            of_all: KeyedSemaphore::default(),
            most: (MAX_UNITS_OF_ACCOUNT, MAX_UNITS),
            timeout: BODY_TIMEOUT,
        }
    }
}

impl AsRef<[u8]> for BufferedBody {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl BodyBuffers {
    /// Receives a body to its end. Its permits are released with the last copy of the returned bytes.
    ///
    /// # Errors
    /// `TooLarge`; `Invalid` when the client disconnects; `SlowRequest`; `Unavailable` when the quota is
    /// exceeded.
    pub(super) async fn receive(&self, body: Body, account: AccountId) -> Result<Bytes> {
        if body.size_hint().lower() > MAX_KEYED_BODY as u64 {
            return Err(too_large());
        }
        let read = tokio::time::timeout(self.timeout, self.read(body, account)).await;
        read.unwrap_or_else(|_| Err(Error::slow_request("the request body did not arrive in time")))
    }

    async fn read(&self, mut body: Body, account: AccountId) -> Result<Bytes> {
        let mut buffer = BufferedBody::default();
        while let Some(frame) = body.frame().await {
            let frame =
                frame.map_err(|error| Error::invalid("the request body ended early").context(error))?;
            let Ok(data) = frame.into_data() else { continue };
            let size = buffer.bytes.len() + data.len();
            if size > MAX_KEYED_BODY {
                return Err(too_large());
            }
            while buffer.permits.len() * UNIT < size {
                buffer.permits.push(self.unit(account)?);
            }
            buffer.bytes.extend_from_slice(&data);
        }
        Ok(Bytes::from_owner(buffer))
    }

    fn unit(&self, account: AccountId) -> Result<UnitPermit> {
        let (of_account, of_all) = self.most;
        let own = self.of_account.try_acquire(account, of_account).ok_or_else(|| {
            over_quota(
                "Your account sends too many bytes with Idempotency-Keys: wait for some requests to end",
            )
        })?;
        let all = self.of_all.try_acquire((), of_all).ok_or_else(|| {
            over_quota("Too many bytes are being received with Idempotency-Keys: try again")
        })?;
        Ok((own, all))
    }
}

fn too_large() -> Error {
    Error::too_large(format!(
        "the request body is larger than {MAX_KEYED_BODY} bytes, the limit with an Idempotency-Key: send it \
         without a key, or upload a computer's file in pieces (tus), each piece with a key of its own"
    ))
}

fn over_quota(message: &str) -> Error {
    Error::unavailable(message).retry_after(RETRY_SECONDS)
}

#[cfg(test)]
mod tests {
    use std::io;

    use futures_util::{StreamExt, stream};
    use hotdesk_domain::error::Kind;

    use super::*;

    fn chunks(bytes: &[u8]) -> Body {
        let chunks: Vec<_> =
            bytes.chunks(300_000).map(|chunk| Ok::<_, io::Error>(Bytes::copy_from_slice(chunk))).collect();
        Body::from_stream(stream::iter(chunks))
    }

    #[tokio::test]
    async fn a_body_is_whole_and_its_permits_are_released() {
        // One body of the greatest length, and a short one; the accounts together one more.
        let most = (MAX_KEYED_BODY / UNIT + 1, MAX_KEYED_BODY / UNIT + 2);
        let body_buffers = BodyBuffers { most, ..BodyBuffers::default() };
        let (one, other) = (AccountId::random(), AccountId::random());
        let long: Vec<u8> = (0..MAX_KEYED_BODY).map(|at| (at % 251) as u8).collect();
        for bytes in [&b""[..], b"short", &long[..UNIT], &long[..=UNIT], &long] {
            assert_eq!(body_buffers.receive(chunks(bytes), one).await.unwrap(), bytes);
        }
        assert_eq!((body_buffers.of_account.count(&one), body_buffers.of_all.count(&())), (0, 0));
        // The permits are held while a copy of the bytes exists.
        let held = body_buffers.receive(chunks(&long), one).await.unwrap().slice(1..2);
        assert_eq!(body_buffers.of_account.count(&one), MAX_KEYED_BODY / UNIT);
        for (account, why) in [(one, "Your account"), (other, "Too many")] {
            let refused = body_buffers.receive(chunks(&long), account).await.expect_err("no permits");
            assert!(refused.message.starts_with(why), "{refused}");
            assert_eq!((refused.kind, refused.retry_after), (Kind::Unavailable, Some(RETRY_SECONDS)));
            assert!(body_buffers.receive(chunks(b"short"), account).await.is_ok());
        }
        assert_eq!(body_buffers.of_account.count(&other), 0);
        drop(held);
        assert!(body_buffers.receive(chunks(&long), other).await.is_ok());
    }

    #[tokio::test]
    async fn a_slow_sender_is_refused() {
        let body_buffers = BodyBuffers { timeout: Duration::from_millis(200), ..BodyBuffers::default() };
        let account = AccountId::random();
        let trickle = stream::repeat(0_u8).then(|byte| async move {
            tokio::time::sleep(Duration::from_millis(10)).await;
            Ok::<_, io::Error>(Bytes::from(vec![byte]))
        });
        let refused = body_buffers.receive(Body::from_stream(trickle), account).await.expect_err("too slow");
        assert_eq!(refused.kind, Kind::SlowRequest, "{refused}");
        assert_eq!(body_buffers.of_account.count(&account), 0);
    }

    #[tokio::test]
    async fn a_large_or_incomplete_body_is_refused() {
        let body_buffers = BodyBuffers::default();
        let account = AccountId::random();
        let long = vec![0_u8; MAX_KEYED_BODY + 1];
        for body in [chunks(&long), Body::from(long)] {
            let refused = body_buffers.receive(body, account).await.expect_err("too large");
            assert_eq!(refused.kind, Kind::TooLarge);
            assert!(refused.message.contains("without a key"), "{refused}");
        }
        let broken = stream::iter([Ok(Bytes::from(vec![0_u8; 1_000_000])), Err(io::Error::other("gone"))]);
        let broken = Body::from_stream(broken);
        let refused = body_buffers.receive(broken, account).await.expect_err("it broke off");
        assert_eq!(refused.kind, Kind::Invalid);
        assert_eq!(body_buffers.of_account.count(&account), 0);
    }
}
