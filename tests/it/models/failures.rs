//! Failures of servers of models: what is repeated, and what callers get.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use hotdesk::base::secret::Secret;
use hotdesk::model::RequestLimits;
use hotdesk::model::catalog::ClientKeys;
use hotdesk::model::conversation::Delta;
use hotdesk::model::{ModelErrorKind, ModelErrorKind::*};
use tokio::net::TcpSocket;

use super::{BOTH, CLAUDE, KEY, SCRIPTED, catalog, open, outcome, quick, reply, text, user};
use crate::harness::models::{ScriptedModels, Turn};

/// Attempts of a request that always fails.
fn attempts() -> usize {
    RequestLimits::default().attempts as usize
}

/// Frames before a text.
const BEFORE_TEXT: usize = 2;
/// Frames after which a text has begun.
const WITHIN_TEXT: usize = 5;

#[tokio::test]
async fn refusals_have_their_kinds_and_only_transient_ones_are_repeated() {
    for name in BOTH {
        for (status, kind, requests) in [
            (400, Refused, 1),
            (401, Unauthorized, 1),
            (403, Unauthorized, 1),
            (404, Refused, 1),
            (413, Refused, 1),
            (429, RateLimited { retry_after: None }, attempts()),
            (500, Unavailable, attempts()),
            (503, Unavailable, attempts()),
            (529, Unavailable, attempts()),
        ] {
            let turns = vec![Turn::refused(status); attempts()];
            let (reply, deltas, seen) = outcome(name, turns, quick()).await;
            let error = reply.expect_err("a refusal");
            assert_eq!((error.kind, seen, deltas.len()), (kind, requests, 0), "{name} {status}: {error:#}");
            assert_eq!(error.is_context_overflow(), status == 413, "{name} {status}");
            assert!(error.to_string().len() <= 500 && !error.to_string().contains("script"), "{error}");
            assert!(!format!("{error:#} {error:?}").contains(KEY), "{name} {status}: {error:#}");
        }
    }
}

#[tokio::test]
async fn an_overloaded_server_is_asked_again() {
    for name in BOTH {
        let turns = vec![Turn::refused(529), Turn::refused(503), Turn::text("Here I am.")];
        let (reply, _, seen) = outcome(name, turns, quick()).await;
        assert_eq!((reply.expect("a reply").content, seen), (vec![text("Here I am.")], 3), "{name}");
    }
}

#[tokio::test]
async fn retry_after_is_heeded_up_to_a_bound() {
    for name in BOTH {
        let began = Instant::now();
        let turns = vec![Turn::refused(429).retry_after("1"), Turn::text("Now.")];
        let (reply, _, seen) = outcome(name, turns, quick()).await;
        assert!(reply.is_ok() && seen == 2, "{name}: {reply:?}");
        assert!(began.elapsed() >= Duration::from_secs(1), "{name}: asked again too early");
        let turns = vec![Turn::refused(429).retry_after("3600"), Turn::text("Now.")];
        let (reply, _, seen) = outcome(name, turns, quick()).await;
        let kind = RateLimited { retry_after: Some(Duration::from_secs(3600)) };
        assert_eq!((reply.expect_err("a refusal").kind, seen), (kind, 1), "{name}");
    }
}

/// Breaks a turn off after a number of events.
type Break = fn(Turn, usize) -> Turn;

#[tokio::test]
async fn a_reply_that_breaks_is_repeated_only_before_its_first_part() {
    for name in BOTH {
        let whole = || Turn::text("One two three four five.");
        let breaks: [(Break, ModelErrorKind); 2] = [
            (Turn::cut_after, Protocol),
            (|turn, frames| turn.fails_after(frames, "overloaded_error"), Unavailable),
        ];
        for (broken, kind) in breaks {
            let (reply, deltas, seen) =
                outcome(name, vec![broken(whole(), BEFORE_TEXT), whole()], quick()).await;
            assert!(reply.is_ok(), "{name} {kind:?}: {reply:?}");
            assert_eq!((seen, deltas.len()), (2, 5), "{name} {kind:?}");
            let (reply, deltas, seen) =
                outcome(name, vec![broken(whole(), WITHIN_TEXT), whole()], quick()).await;
            assert_eq!((reply.expect_err("a broken reply").kind, seen), (kind, 1), "{name}");
            assert_eq!(deltas.first(), Some(&Delta::Text("One ".to_owned())), "{name} {kind:?}");
        }
    }
}

#[tokio::test]
async fn a_server_that_sends_nothing_is_given_up() {
    // A busy machine sends what comes before the silence within this time. All wait at once.
    let silence = Duration::from_secs(2);
    let limits = RequestLimits { first_byte: silence, idle: silence, ..quick() };
    let turns = [Turn::silent(), Turn::text("One two three.").stalled_after(WITHIN_TEXT - 1)];
    let cases = BOTH.into_iter().flat_map(|name| turns.iter().map(move |turn| (name, turn)));
    let given_up = cases.map(async |(name, turn)| {
        let (reply, _, seen) = outcome(name, vec![turn.clone(), Turn::text("Late.")], limits).await;
        assert_eq!((reply.expect_err("no reply").kind, seen), (Unreachable, 1), "{name} {turn:?}");
    });
    join_all(given_up).await;
}

#[tokio::test]
async fn an_endless_reply_is_cut_by_its_size_and_by_its_time() {
    let small = RequestLimits { reply_bytes: 100_000, ..quick() };
    // A busy machine begins a reply within this time.
    let short = RequestLimits { total: Duration::from_secs(2), ..quick() };
    for name in BOTH {
        let (reply, deltas, seen) = outcome(name, vec![Turn::endless()], small).await;
        assert_eq!((reply.expect_err("an end").kind, seen), (Protocol, 1), "{name}");
        assert!(!deltas.is_empty(), "{name}");
    }
    let cut = BOTH.map(async |name| {
        let endless = Turn::endless().slowly(Duration::from_millis(20));
        let (reply, _, seen) = outcome(name, vec![endless], short).await;
        assert_eq!((reply.expect_err("an end").kind, seen), (Unreachable, 1), "{name}");
    });
    join_all(cut).await;
}

#[tokio::test]
async fn an_answer_that_is_no_stream_is_refused() {
    for name in BOTH {
        let (reply, _, seen) = outcome(name, vec![Turn::no_stream(), Turn::text("Late.")], quick()).await;
        assert_eq!((reply.expect_err("no stream").kind, seen), (Protocol, 1), "{name}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unreachable() {
    // The port stays taken, so that nothing else listens on it meanwhile, and refuses connections.
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
    let url = format!("http://{}", socket.local_addr().expect("an address"));
    for name in BOTH {
        let handle = open(&catalog(&url, quick()), name);
        let error = reply(&handle, vec![user(vec![text("Go.")])]).await.0.expect_err("nobody");
        assert_eq!(error.kind, Unreachable, "{name}: {error:#}");
        assert!(!error.to_string().contains("127.0.0.1"), "{name}: a client sees the address: {error}");
    }
}

#[tokio::test]
async fn no_error_quotes_a_key() {
    let server = ScriptedModels::start(Vec::new()).await;
    let catalog = catalog(&server.url(), quick());
    let wrong = || Some(Secret::new("wrong-and-secret"));
    for (name, keys) in [
        (CLAUDE, ClientKeys { anthropic: wrong(), openai: None }),
        (SCRIPTED, ClientKeys { anthropic: None, openai: wrong() }),
    ] {
        let handle = catalog.open(name, &keys).expect("a model");
        let error = reply(&handle, vec![user(vec![text("Go.")])]).await.0.expect_err("a refused key");
        assert_eq!(error.kind, ModelErrorKind::Unauthorized, "{name}");
        assert!(!format!("{error:#} {error:?} {handle:?} {catalog:?}").contains("secret"), "{error:#}");
    }
    assert_eq!(server.requests().len(), 2);
}
