//! How much may a guest send and receive? A token bucket on each end of its veth pair; the guest's end is out of its own
//! root's reach, who has no ability over networks (threats.md T22).

use super::command::{run, tool};
use super::network::veth;
use crate::EngineResult;

const STEP: &str = "limit the guest's bandwidth";
/// How long a packet may wait for its turn before it is dropped: what makes senders slow down without being felt as
/// much more than a far server.
const LONGEST_WAIT_MS: u32 = 100;
/// A bucket holds 10 ms of its rate, as tc-tbf(8) asks of a kernel with 100 ticks a second, and a few of the largest
/// packets.
const LEAST_BUCKET: u64 = 32 * 1024;

/// Bounds what the guest in `slot`, whose first process is `pid`, sends and receives, in megabits a second each way; 0 is
/// without a bound. It holds at once and replaces an earlier bound. Without root's network abilities it fails.
pub(super) fn limit(slot: u16, pid: u32, mbps: u32) -> EngineResult<()> {
    let queue = queue(mbps);
    let mut received = tool("tc");
    received.args(["qdisc", "replace", "dev", &veth(slot), "root"]).args(&queue);
    run(STEP, received)?;
    let mut sent = tool("nsenter");
    sent.arg(format!("--net=/proc/{pid}/ns/net"));
    sent.args(["--", "tc", "qdisc", "replace", "dev", "eth0", "root"]).args(&queue);
    run(STEP, sent).map(drop)
}

/// The queue of a rate, in tc's words.
pub(super) fn queue(mbps: u32) -> Vec<String> {
    if mbps == 0 {
        return vec!["noqueue".to_owned()];
    }
    let bucket = (u64::from(mbps) * 1_000_000 / 8 / 100).max(LEAST_BUCKET);
    let words = ["tbf", "rate", &format!("{mbps}mbit"), "burst", &format!("{bucket}b"), "latency"];
    words.iter().map(|word| (*word).to_owned()).chain([format!("{LONGEST_WAIT_MS}ms")]).collect()
}

#[cfg(test)]
mod tests {
    use super::queue;

    #[test]
    fn a_rate_is_a_bucket_and_none_is_no_queue() {
        for (mbps, words) in [
            (0, "noqueue"),
            (8, "tbf rate 8mbit burst 32768b latency 100ms"),
            (1000, "tbf rate 1000mbit burst 1250000b latency 100ms"),
        ] {
            assert_eq!(queue(mbps).join(" "), words);
        }
    }
}
