//! Service whose supervisor is a test.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::{Supervisor, desktop_service};
use hotdesk_wire::programs::service::{AutostartProgram, ServiceProgram};

/// A service whose supervisor the test is.
pub(super) struct Fixture {
    pub(super) supervisor: Supervisor,
    pub(super) _folder: tempfile::TempDir,
    pub(super) control: File,
}

pub(super) const NAME: &str = "autostart.0";

pub(super) fn program() -> AutostartProgram {
    AutostartProgram { run: "id".to_owned(), delay_ms: 0, prestart: false }
}

pub(super) fn service() -> ServiceProgram {
    desktop_service(0, &program())
}

impl Fixture {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let supervisor = Supervisor::new(folder.path(), folder.path().join("secrets.env"));
        supervisor.write_service(&service(), &BTreeMap::new()).unwrap();
        let supervise = supervisor.folder.join(NAME).join("supervise");
        fs::create_dir(&supervise).unwrap();
        let control = supervise.join("control");
        mkfifo(&control, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
        let control = File::options().read(true).write(true).open(control).unwrap();
        Self { supervisor, _folder: folder, control }
    }

    pub(super) fn set(&self, changed: u8, pid: u64, wait: u16, flags: u8) {
        let mut bytes = vec![changed; 24];
        bytes.extend(pid.to_be_bytes());
        bytes.extend(wait.to_be_bytes());
        bytes.push(flags);
        let status = self.supervisor.folder.join(NAME).join("supervise/status");
        let draft = status.with_extension("new");
        fs::write(&draft, bytes).unwrap();
        fs::rename(draft, status).unwrap();
    }

    pub(super) fn command(&mut self) -> u8 {
        let mut command = [0];
        io::Read::read_exact(&mut self.control, &mut command).unwrap();
        command[0]
    }

    pub(super) fn status(&self) -> (String, Option<i32>, Option<i32>, Option<i32>) {
        let status = self.supervisor.status(&service()).unwrap();
        (status.status, status.pid, status.exit_code, status.signal)
    }
}
