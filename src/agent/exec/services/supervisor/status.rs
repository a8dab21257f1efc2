//! State of a service, in the file that s6-supervise(8) replaces at each change.
//!
//! ```text
//! bytes  big-endian
//!    12  time of the last start or end (TAI64N)
//!    12  time of the last readiness
//!     8  process id of `run`, or of `finish`; 0 for none
//!     8  process group; not in all releases of s6
//!     2  status of `run` (wait(2))
//!     1  flags
//! ```
//! s6-svstat(8) reads it, too, but each start of a program costs up to 0.1 s under gVisor.

use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{SystemTime, UNIX_EPOCH};

use super::{PID_FILE, Supervisor, log_file};
use crate::exec::services::logs::tai64n;
use hotdesk_domain::error::{Error, Result};
use hotdesk_wire::programs::service::{ServiceProgram, ServiceStatus};

/// Bytes of the file without and with the process group.
const SIZES: [usize; 2] = [35, 43];
/// Flag of a service whose program has ended and whose `finish` runs.
const FINISHING: u8 = 2;
/// Flag of a service that starts again when it has ended.
const WANTED_UP: u8 = 4;

/// State of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ServiceState {
    /// When it last started or ended: TAI64N.
    pub(super) changed: [u8; 12],
    pid: i32,
    status: u16,
    flags: u8,
}

impl ServiceState {
    /// Parses the file.
    ///
    /// # Errors
    /// `InvalidData` for what no known release of s6 writes.
    pub(super) fn parse(file: &[u8]) -> io::Result<Self> {
        let parsed = SIZES.contains(&file.len()).then(|| Self::parse_fields(file)).flatten();
        let unknown = || format!("no known release of s6 writes such a status of {} bytes", file.len());
        parsed.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, unknown()))
    }

    fn parse_fields(file: &[u8]) -> Option<Self> {
        let (rest, [high, low, flags]) = file.split_last_chunk()?;
        let pid = u64::from_be_bytes(rest.get(24..32)?.try_into().ok()?);
        Some(Self {
            changed: *rest.first_chunk()?,
            pid: i32::try_from(pid).ok()?,
            status: u16::from_be_bytes([*high, *low]),
            flags: *flags,
        })
    }

    /// Whether nothing of it runs, its `finish` neither.
    pub(super) fn is_down(&self) -> bool {
        self.pid == 0
    }

    /// Whether it starts again when it has ended.
    pub(super) fn is_wanted_up(&self) -> bool {
        self.flags & WANTED_UP != 0
    }

    /// The process id of its program, if that runs.
    pub(super) fn pid(&self) -> Option<i32> {
        (!self.is_down() && self.flags & FINISHING == 0).then_some(self.pid)
    }

    /// How its program ended. Only meaningful when it has run and does not run now.
    pub(super) fn end(&self) -> ExitStatus {
        ExitStatus::from_raw(i32::from(self.status))
    }

    /// Seconds since its last start or end, at a time in seconds since 1970.
    pub(super) fn age(&self, now: u64) -> u64 {
        now.saturating_sub(tai64n::unix_seconds(self.changed))
    }
}

impl Supervisor {
    /// The state of a service.
    ///
    /// # Errors
    /// `Internal` when it cannot be read.
    pub(in crate::exec::services) fn status(&self, service: &ServiceProgram) -> Result<ServiceStatus> {
        let state = self.state(&service.name).map_err(|error| {
            Error::failed(format!("The state of the service {} cannot be read: {error}", service.name))
        })?;
        let pid = state.and_then(|state| state.pid());
        // Before its first start s6 counts it as ended with success.
        let has_run = self.folder.join(&service.name).join(PID_FILE).exists();
        let end = state.filter(|_| has_run && pid.is_none()).map(|state| state.end());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        Ok(ServiceStatus {
            name: service.name.clone(),
            status: if pid.is_some() { "running" } else { "stopped" }.to_owned(),
            pid,
            exit_code: end.and_then(|end| end.code()),
            signal: end.and_then(|end| end.signal()),
            since_seconds: state.map_or(0, |state| state.age(now)),
            log: log_file(service),
        })
    }

    /// The state of a service; `None` while s6 has not read its folder.
    pub(super) fn state(&self, name: &str) -> io::Result<Option<ServiceState>> {
        match fs::read(self.folder.join(name).join("supervise/status")) {
            Ok(file) => ServiceState::parse(&file).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Fixture, NAME, service};
    use super::*;

    /// Bytes of a file of s6 2.11.3.2: of a service that runs, one that is down since SIGTERM, and one whose `finish` runs.
    fn file(pid: u16, status: u16, flags: u8) -> Vec<u8> {
        let stamp = [0x40, 0, 0, 0, 0x6b, 0x08, 0xce, 0x2e, 0x14, 0x5f, 0xe0, 0x5f];
        let mut bytes = [stamp, stamp].concat();
        bytes.extend(u64::from(pid).to_be_bytes());
        bytes.extend(status.to_be_bytes());
        bytes.push(flags);
        bytes
    }

    #[test]
    fn states_of_s6_are_read() {
        let read = |bytes: &[u8]| {
            let state = ServiceState::parse(bytes).unwrap();
            (state.pid(), state.is_down(), state.is_wanted_up(), state.end().code(), state.end().signal())
        };
        assert_eq!(read(&file(0x4826, 0, 4)), (Some(0x4826), false, true, Some(0), None));
        assert_eq!(read(&file(0, 15, 8)), (None, true, false, None, Some(15)));
        assert_eq!(read(&file(77, 3 << 8, 2 | 4)), (None, false, true, Some(3), None));
        // With the process group.
        let mut long = file(5, 0, 4);
        long.splice(32..32, 5_u64.to_be_bytes());
        assert_eq!(read(&long), (Some(5), false, true, Some(0), None));
        let state = ServiceState::parse(&file(5, 0, 4)).unwrap();
        assert_eq!((state.age(1_795_739_151), state.age(0)), (6, 0));
        for bytes in [&b""[..], &[0; 34], &[0; 36], &[0xff; 35]] {
            assert!(ServiceState::parse(bytes).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn the_state_of_a_service_is_that_of_s6() {
        let fixture = Fixture::new();
        let stopped = || "stopped".to_owned();
        assert_eq!(fixture.status(), (stopped(), None, None, None));
        fixture.set(0, 0, 0, 8);
        assert_eq!(fixture.status(), (stopped(), None, None, None), "it has never run");
        fs::write(fixture.supervisor.folder.join(NAME).join(PID_FILE), "7\n").unwrap();
        for (pid, wait, flags, expected) in [
            (7, 0, 4, ("running".to_owned(), Some(7), None, None)),
            (8, 3 << 8, 6, (stopped(), None, Some(3), None)),
            (0, 9, 8, (stopped(), None, None, Some(9))),
        ] {
            fixture.set(0, pid, wait, flags);
            assert_eq!(fixture.status(), expected);
        }
        fs::write(fixture.supervisor.folder.join(NAME).join("supervise/status"), "damaged").unwrap();
        let error = fixture.supervisor.status(&service()).unwrap_err();
        assert!(error.message.contains("The state of the service autostart.0 cannot be read"), "{error}");
    }
}
