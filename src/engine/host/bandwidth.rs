//! Bandwidth limit of a guest: a token bucket (tc-tbf(8)) on each end of its veth pair.
//!
//! The guest's root cannot change its end, because it lacks `CAP_NET_ADMIN` (T22, docs/security.md).

use crate::EngineResult;
use crate::host::command::{run, tool};
use crate::host::network::veth;

const STEP: &str = "limit the guest's bandwidth";
/// A packet that waits longer is dropped: long enough for senders to slow down, short enough to feel like a
/// distant server.
const MAX_QUEUE_MS: u32 = 100;
/// Smallest bucket in bytes: a few of the largest packets. Otherwise a bucket holds 10 ms of its rate, which
/// tc-tbf(8) requires of a kernel with 100 ticks a second.
const MIN_BUCKET: u64 = 32 * 1024;

/// Limits the guest in `slot`, whose first process is `pid`, to `mbps` megabits a second each way; 0 is
/// unlimited. It takes effect at once and replaces an earlier limit. Fails without `CAP_NET_ADMIN`.
pub(crate) fn limit(slot: u16, pid: u32, mbps: u32) -> EngineResult<()> {
    let queue = queue(mbps);
    let mut received = tool("tc");
    received.args(["qdisc", "replace", "dev", &veth(slot), "root"]).args(&queue);
    run(STEP, received)?;
    let mut sent = tool("nsenter");
    sent.arg(format!("--net=/proc/{pid}/ns/net"));
    sent.args(["--", "tc", "qdisc", "replace", "dev", "eth0", "root"]).args(&queue);
    run(STEP, sent).map(drop)
}

/// The arguments of `tc` for the queue of a rate.
pub(crate) fn queue(mbps: u32) -> Vec<String> {
    if mbps == 0 {
        return vec!["noqueue".to_owned()];
    }
    let bucket = (u64::from(mbps) * 1_000_000 / 8 / 100).max(MIN_BUCKET);
    let args = ["tbf", "rate", &format!("{mbps}mbit"), "burst", &format!("{bucket}b"), "latency"];
    args.iter().map(|arg| (*arg).to_owned()).chain([format!("{MAX_QUEUE_MS}ms")]).collect()
}

#[cfg(test)]
mod tests {
    use super::queue;

    #[test]
    fn a_rate_is_a_bucket_and_none_is_no_queue() {
        for (mbps, args) in [
            (0, "noqueue"),
            (8, "tbf rate 8mbit burst 32768b latency 100ms"),
            (1000, "tbf rate 1000mbit burst 1250000b latency 100ms"),
        ] {
            assert_eq!(queue(mbps).join(" "), args);
        }
    }
}
