//! Size of tests that repeat themselves: a sample in ordinary runs, everything with `HOTDESK_PROOF=full`.

/// Whether `HOTDESK_PROOF` requests full runs (`make soak`, `make bench`) instead of samples (`make test`).
pub fn is_full_run() -> bool {
    std::env::var("HOTDESK_PROOF").is_ok_and(|value| value == "full")
}

/// The size of this run: `full` or a `sample` of it.
pub fn sampled<T>(sample: T, full: T) -> T {
    if is_full_run() { full } else { sample }
}
