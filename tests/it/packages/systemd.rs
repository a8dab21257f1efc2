//! The Debian package under systemd: socket activation, privileges, restarts, an upgrade, kills, and ratings.

use super::package;
use super::system::System;

/// Distinguishes one boot of a computer from the next: a random file in its memory.
const IDENTITY: &str =
    "test -s /dev/shm/boot || head -c 16 /dev/urandom | base64 >/dev/shm/boot; cat /dev/shm/boot";
/// Bounds of `systemd-analyze security`, from 0 (safe) to 10: what is promised of the controller (D15, docs/security.md), and little
/// more than the helper has.
const MAX_EXPOSURE: [(&str, f64); 2] = [("hotdesk", 3.0), ("hotdesk-host", 6.5)];

/// hotdesk in a system.
struct InstalledPackage {
    system: System,
    key: String,
}

impl InstalledPackage {
    /// Installs the package, which starts nothing, and starts the service as the package's message says.
    fn new(system: System) -> Self {
        system.copy(&package(), "hotdesk.deb");
        system.run("dpkg --install /hotdesk.deb");
        assert_eq!(
            system.attempt("systemctl is-active hotdesk hotdesk-host hotdesk-host.socket").text(),
            "inactive\ninactive\ninactive"
        );
        system.run("systemctl start hotdesk");
        let key = system.wait_for("key", || {
            let text =
                system.attempt("sed -n 's/^account key (shown once): //p' /var/lib/hotdesk/first-key").text();
            if text.starts_with("sk_live_") { Ok(text) } else { Err(text) }
        });
        let installed = Self { system, key };
        installed.wait_until_served();
        installed
    }

    /// Runs the command line, which has to succeed.
    #[track_caller]
    fn hotdesk(&self, arguments: &str) -> String {
        self.system.run(&self.line(arguments))
    }

    fn line(&self, arguments: &str) -> String {
        format!("HOTDESK_URL=http://127.0.0.1:8700 HOTDESK_API_KEY={} hotdesk {arguments}", self.key)
    }

    #[track_caller]
    fn wait_until_served(&self) {
        self.system.wait_for("answer", || {
            let attempt = self.system.attempt(&self.line("workspaces list"));
            if attempt.is_success() { Ok(()) } else { Err(attempt.text()) }
        });
    }

    /// The id of a unit's process, which runs.
    #[track_caller]
    fn pid(&self, unit: &str) -> String {
        let pid = self.system.run(&format!("systemctl show --property MainPID --value {unit}"));
        assert_ne!(pid, "0", "{unit}");
        pid
    }

    /// Waits until a unit has another process.
    #[track_caller]
    fn wait_for_successor(&self, unit: &str, before: &str) {
        self.system.wait_for("successor", || {
            let show = format!("systemctl show --property MainPID --property ActiveState {unit}");
            let text = self.system.attempt(&show).text();
            let is_next = text.contains("ActiveState=active")
                && !text.contains("MainPID=0")
                && !text.contains(&format!("MainPID={before}\n"));
            if is_next { Ok(()) } else { Err(text) }
        });
    }

    /// A field of a process's status.
    fn status(&self, pid: &str, field: &str) -> String {
        self.system.run(&format!("sed -n 's/^{field}:[[:space:]]*//p' /proc/{pid}/status | tr '\\t' ' '"))
    }

    fn expect_privileges(&self) {
        let (controller, helper) = (self.pid("hotdesk"), self.pid("hotdesk-host"));
        let user = self.system.run("id -u hotdesk");
        assert_ne!(user, "0");
        assert_eq!(self.status(&controller, "Uid"), [user.as_str(); 4].join(" "));
        assert_eq!(self.status(&helper, "Uid"), "0 0 0 0");
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert_eq!(self.status(&controller, set), "0000000000000000", "{set}");
        }
        for pid in [&controller, &helper] {
            assert_eq!(self.status(pid, "NoNewPrivs"), "1");
            assert_eq!(self.status(pid, "Seccomp"), "2");
        }
        // The controller sees no process of others, and writes to its store alone.
        let seen = format!(
            "nsenter --mount --target {controller} setpriv --reuid hotdesk --regid hotdesk --clear-groups"
        );
        assert!(!self.system.attempt(&format!("{seen} test -e /proc/{helper}")).is_success());
        assert!(!self.system.attempt(&format!("{seen} test -w /var/lib/hotdesk")).is_success());
        self.system.run(&format!("{seen} test -w /var/lib/hotdesk/store"));
    }

    /// Lines of the journal in which systemd or hotdesk reports an error.
    fn errors(&self) -> Vec<String> {
        let units = "--unit hotdesk.service --unit hotdesk-host.service --unit hotdesk-host.socket";
        let journal = self.system.run(&format!("journalctl --no-pager --output cat {units}"));
        assert!(journal.contains("host helper is ready"), "{journal}");
        let by_systemd = self.system.run("journalctl --no-pager --quiet --output cat --priority err");
        let is_error =
            |line: &&str| line.contains(" ERROR ") || line.contains(" WARN ") || line.contains("panicked");
        journal.lines().filter(is_error).chain(by_systemd.lines()).map(str::to_owned).collect()
    }
}

#[test]
fn d15_an_installed_package_serves_without_privileges_and_computers_outlive_both_of_its_processes() {
    let Some(system) = System::boot() else { return };
    let installed = InstalledPackage::new(system);
    assert_eq!(
        installed.system.run("systemctl is-active hotdesk-host hotdesk-host.socket"),
        "active\nactive"
    );
    assert_eq!(
        installed.system.run("systemctl show --property TriggeredBy --value hotdesk-host"),
        "hotdesk-host.socket"
    );
    installed.expect_privileges();

    installed.hotdesk("workspaces create demo");
    installed.hotdesk("computers create one --workspace demo");
    let identity = || installed.hotdesk(&format!("bash one '{IDENTITY}'"));
    let before = identity();
    assert_ne!(before, "");
    let expect_the_same = |what: &str| {
        installed.wait_until_served();
        assert_eq!(identity(), before, "{what}");
        installed.hotdesk("click one 10 10");
    };

    for unit in ["hotdesk", "hotdesk-host"] {
        let pid = installed.pid(unit);
        installed.system.run(&format!("systemctl restart {unit}"));
        assert_ne!(installed.pid(unit), pid);
        expect_the_same(unit);
    }
    let both = [installed.pid("hotdesk"), installed.pid("hotdesk-host")];
    installed.system.run("dpkg --install /hotdesk.deb");
    let upgraded = [installed.pid("hotdesk"), installed.pid("hotdesk-host")];
    assert!(upgraded[0] != both[0] && upgraded[1] != both[1], "an upgrade restarts both");
    expect_the_same("an upgrade");
    assert_eq!(installed.errors(), Vec::<String>::new());
    for (unit, pid) in ["hotdesk", "hotdesk-host"].into_iter().zip(&upgraded) {
        installed.system.run(&format!("kill -KILL {pid}"));
        installed.wait_for_successor(unit, pid);
        expect_the_same(unit);
    }
    installed.expect_privileges();

    // The successors do all work.
    installed.hotdesk("computers restart one");
    assert_ne!(identity(), before);
    installed.hotdesk("computers delete one --yes");
    for folder in ["machines", "sockets"] {
        assert_eq!(installed.system.run(&format!("ls /var/lib/hotdesk/{folder}")), "", "{folder}");
    }
    for (unit, most) in MAX_EXPOSURE {
        let rating = installed.system.run(&format!("systemd-analyze security --no-pager {unit}.service"));
        let exposure = super::exposure_in(&rating);
        println!("exposure of {unit}: {exposure}");
        assert!(exposure < most, "{rating}");
    }
}
