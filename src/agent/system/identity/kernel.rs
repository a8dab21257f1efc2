//! System calls that set the clock and reseed the random pool.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::time::TimeSpec;
use nix::time::ClockId;

use hotdesk_base::step_error::StepError;

/// Device whose written bytes go into the random pool.
const POOL: &str = "/dev/urandom";

nix::ioctl_none!(reseed, b'R', 0x07);

/// Sets the clock to a time since 1970-01-01 UTC.
pub(crate) fn set_clock(time: Duration) -> Result<(), Errno> {
    ClockId::CLOCK_REALTIME.set_time(TimeSpec::from_duration(time))
}

/// Mixes a seed into the random pool and reseeds the generator at once (RNDRESEEDCRNG, random(4)). Without
/// that call it reseeds only after minutes.
pub(super) fn mix(seed: &[u8]) -> Result<(), StepError> {
    let mut pool = File::options().write(true).open(POOL).map_err(StepError::at(POOL))?;
    pool.write_all(seed).map_err(StepError::at(POOL))?;
    // SAFETY: the request takes no argument, and the descriptor is open.
    #[allow(unsafe_code)]
    match unsafe { reseed(pool.as_raw_fd()) } {
        // A container may not reseed, or its kernel does not know the request. It uses the generator of its
        // host, which was never saved.
        Ok(_) | Err(Errno::EPERM | Errno::ENOTTY | Errno::EINVAL) => Ok(()),
        Err(error) => Err(StepError::at("reseeding the generator")(error)),
    }
}
