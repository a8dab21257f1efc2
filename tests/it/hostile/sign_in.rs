//! Memory of the controller after many wrong sign-ins at once: T14 (docs/security.md).

use std::net::{IpAddr, Ipv4Addr};

use crate::harness::controller::{RunningController, skip_reason};
use crate::harness::process::memory_kib;

/// Sign-ins at once: more than are hashed or wait, so that some are refused.
const AT_ONCE: u8 = 64;
/// Rounds of sign-ins. Each round kept another part of its hashes before.
const ROUNDS: u8 = 4;
/// Memory in KiB that may remain: connections and caches. One hash alone needs 19 MiB.
const MOST_KEPT_KIB: u64 = 20 * 1024;

/// Signs in with a wrong password from an address of its own, because each address has few tries. Returns the
/// status, and whether the answer says when to try again.
async fn wrong_sign_in(base: &str, round: u8, number: u8) -> (u16, bool) {
    let from = IpAddr::V4(Ipv4Addr::new(127, 1, round, number + 1));
    let client = reqwest::Client::builder().local_address(from).build().expect("a client");
    let fields = format!("email=nobody-{round}-{number}%40example.com&password=wrong+password");
    let request = client.post(format!("{base}/sign-in")).header("origin", base);
    let request = request.header("content-type", "application/x-www-form-urlencoded").body(fields);
    let answer = request.send().await.expect("an answer");
    (answer.status().as_u16(), answer.headers().contains_key("retry-after"))
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_sign_ins_at_once_leave_no_memory_and_are_bounded() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let controller = RunningController::boot().await;
    assert_eq!(wrong_sign_in(controller.base(), 0, 200).await.0, 401);
    let before = memory_kib(controller.pid(), "VmRSS:");
    let mut refused = 0;
    for round in 1..=ROUNDS {
        let all = (0..AT_ONCE).map(|number| wrong_sign_in(controller.base(), round, number));
        for (status, says_when) in futures_util::future::join_all(all).await {
            match status {
                401 => {}
                503 => {
                    assert!(says_when, "a refusal says when to try again");
                    refused += 1;
                }
                other => panic!("status {other}"),
            }
        }
    }
    assert!(refused > 0, "all of {AT_ONCE} at once were taken");
    let after = memory_kib(controller.pid(), "VmRSS:");
    assert!(after < before + MOST_KEPT_KIB, "{before} KiB before, {after} KiB after");
    // Two are hashed at a time, also for people who hang up.
    let peak = memory_kib(controller.pid(), "VmHWM:");
    assert!(peak < before + 3 * MOST_KEPT_KIB, "{before} KiB before, a peak of {peak} KiB");
    assert_eq!(wrong_sign_in(controller.base(), 0, 201).await.0, 401);
}
