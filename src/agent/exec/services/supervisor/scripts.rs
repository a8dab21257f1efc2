//! Scripts of a service for s6-supervise(8): its program, and what follows its end.
//!
//! They are for `sh`, and start as few programs as they can: each costs up to 0.1 s under gVisor.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{OUTPUT, PID_FILE, log_file};
use crate::exec::services::logs::without_top_link;
use crate::exec::services::script::{self, path_word};
use hotdesk_wire::programs::service::ServiceProgram;

/// The user that the supervisor itself has.
const ROOT: &str = "root";
/// Exit code of `finish` that keeps a service down (s6-supervise(8)).
const STAY_DOWN: i32 = 125;

/// The script that becomes the program of a service. s6-supervise(8) starts it in the folder of the service.
pub(super) fn run_script(
    service: &ServiceProgram,
    secret_env: &BTreeMap<String, String>,
    secrets_file: &Path,
) -> String {
    let user = quote(&service.user);
    // The service's own variables take precedence.
    let common = secret_env.iter().filter(|(name, _)| !service.env.contains_key(*name));
    let secrets = common.chain(&service.secret_env);
    let environment = script::environment(script::pairs(&service.env), secrets, secrets_file);
    let log_check = service.log.as_ref().map_or_else(String::new, |_| log_check(&log_file(service)));
    // A user may have no home folder, as after `useradd` without `-m`.
    let home = "cd -- \"${HOME:-/}\" 2>/dev/null || cd /";
    let cwd =
        service.cwd.as_deref().map_or_else(|| home.to_owned(), |cwd| format!("cd -- {}", path_word(cwd)));
    // s6-setuidgid ends the script when there is no such user, and says so.
    let as_user = if service.user == ROOT { String::new() } else { format!("s6-setuidgid {user} ") };
    // The FIFO is opened for reading, too: without a reader a write would end the service.
    format!(
        "#!/bin/sh\necho $$ >{PID_FILE}\nexec 1<>{OUTPUT} 2>&1\nset -e\n\
         HOME=~{user}\n[ \"$HOME\" != '~'{user} ] || HOME=/\n\
         export HOME USER={user} LOGNAME={user} SHELL=/bin/bash\n{log_check}{environment}{cwd}\n\
         exec {as_user}bash -c {}\n",
        quote(&service.run)
    )
}

/// Lines that end the script when its log cannot be written, so that its author sees it. The agent opens the log: it alone decides
/// what is written to.
fn log_check(log: &str) -> String {
    let path = Path::new(log);
    let folder = path.parent().unwrap_or(path);
    let real = without_top_link(folder).unwrap_or_else(|_| folder.to_owned());
    // Without a slash at the end, as `PWD` has none.
    let real: PathBuf = real.components().collect();
    let (folder, file) = (quote(&real.to_string_lossy()), quote(log));
    format!(
        "cd -P -- {folder} && [ \"$PWD\" = {folder} ] && [ ! -L {file} ] || exit 1\n\
         [ ! -e {file} ] || [ -f {file} ] || [ -c {file} ] || exit 1\n"
    )
}

/// The script that s6 runs after the program has ended, with its exit code; above 255 for a signal. It kills what the
/// program left of its process group: the next run may need its ports and locks.
pub(super) fn finish_script(restart: &str) -> String {
    let policy = match restart {
        "no" => format!("exit {STAY_DOWN}\n"),
        "on-failure" => format!("[ \"$1\" != 0 ] || exit {STAY_DOWN}\n"),
        _ => String::new(),
    };
    format!(
        "#!/bin/sh\nread -r session <{PID_FILE} && kill -s KILL -- \"-$session\" 2>/dev/null\n{policy}exit 0\n"
    )
}

fn quote(text: &str) -> String {
    shell_words::quote(text).into_owned()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::process::Command;

    use super::super::desktop_service;
    use super::*;
    use hotdesk_wire::programs::service::AutostartProgram;

    fn program(run: &str, delay_ms: u64) -> AutostartProgram {
        AutostartProgram { run: run.to_owned(), delay_ms, prestart: false }
    }

    fn service(run: &str) -> ServiceProgram {
        desktop_service(0, &program(run, 0))
    }

    #[test]
    fn texts_of_a_service_are_single_words_of_its_script() {
        let service = ServiceProgram {
            cwd: Some("~/a b".to_owned()),
            log: Some("~/x y".to_owned()),
            env: [("A".to_owned(), "$(id)".to_owned())].into(),
            ..desktop_service(0, &program("echo 'a'", 1500))
        };
        let secrets = [("KEY".to_owned(), "API_KEY".to_owned())].into();
        let script = run_script(&service, &secrets, Path::new("/run/x/secrets.env"));
        let common = "#!/bin/sh\necho $$ >session\nexec 1<>output 2>&1\nset -e\n\
             HOME=~root\n[ \"$HOME\" != '~'root ] || HOME=/\n\
             export HOME USER=root LOGNAME=root SHELL=/bin/bash\n";
        assert_eq!(
            script,
            format!(
                "{common}cd -P -- /root && [ \"$PWD\" = /root ] && [ ! -L '/root/x y' ] || exit 1\n\
                 [ ! -e '/root/x y' ] || [ -f '/root/x y' ] || [ -c '/root/x y' ] || exit 1\n\
                 hotdesk_0=\"$(unset API_KEY; if [ -r /run/x/secrets.env ]; then . /run/x/secrets.env; fi; printf %s. \"${{API_KEY-}}\")\"\n\
                 export A='$(id)'\nexport KEY=\"${{hotdesk_0%.}}\"\n\
                 cd -- \"$HOME\"/'a b'\nexec bash -c 'sleep 1.5\necho '\\''a'\\'''\n"
            )
        );
        let other = ServiceProgram { user: "orgo".to_owned(), ..self::service("id") };
        let script = run_script(&other, &BTreeMap::new(), Path::new("/x"));
        assert!(
            script
                .ends_with("\ncd -- \"${HOME:-/}\" 2>/dev/null || cd /\nexec s6-setuidgid orgo bash -c id\n"),
            "{script}"
        );
    }

    #[test]
    fn the_script_becomes_the_program_with_its_environment() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("output"), "").unwrap();
        fs::write(at("secrets.env"), "KEY='a b'\n").unwrap();
        let service = ServiceProgram {
            cwd: Some("/usr".to_owned()),
            env: [("PLACE".to_owned(), "it's".to_owned())].into(),
            secret_env: [("TOKEN".to_owned(), "KEY".to_owned())].into(),
            ..service(
                "echo $$ \"$PWD\" \"$HOME\" \"$USER\" \"$PLACE\" \"$TOKEN\" \"${hotdesk_0-none}\"; echo error >&2; exit 7",
            )
        };
        fs::write(at("run"), run_script(&service, &BTreeMap::new(), &at("secrets.env"))).unwrap();
        let status = Command::new("sh").arg("run").current_dir(folder.path()).status().unwrap();
        assert_eq!(status.code(), Some(7));
        let session = fs::read_to_string(at(PID_FILE)).unwrap();
        let expected = format!("{} /usr /root root it's a b none\nerror\n", session.trim());
        assert_eq!(fs::read_to_string(at("output")).unwrap(), expected);
    }

    #[test]
    fn a_log_behind_a_link_or_without_its_folder_ends_the_script() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let at = |name: &str| root.join(name);
        fs::create_dir(at("logs 1")).unwrap();
        fs::write(at("logs 1/file"), "").unwrap();
        symlink(at("logs 1/file"), at("logs 1/link")).unwrap();
        symlink(at("logs 1"), at("folder")).unwrap();
        nix::unistd::mkfifo(&at("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let passes = |path: &Path| {
            let script = format!("set -e\n{}echo on", log_check(path.to_str().unwrap()));
            Command::new("sh").args(["-c", &script]).output().unwrap().stdout == b"on\n"
        };
        for (name, expected) in [
            ("logs 1/file", true),
            ("logs 1/new", true),
            ("logs 1/link", false),
            ("folder/file", false),
            ("none/file", false),
            ("fifo", false),
            ("logs 1", false),
        ] {
            assert_eq!(passes(&at(name)), expected, "{name}");
        }
        assert!(passes(Path::new("/dev/null")));
    }

    #[test]
    fn the_policy_decides_after_the_process_group_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        let finish = |restart: &str, code: &str| {
            let script = finish_script(restart);
            let mut command = Command::new("sh");
            command.args(["-c", &script, "finish", code]).current_dir(folder.path());
            command.status().unwrap().code()
        };
        for (restart, after_success, after_failure) in
            [("always", 0, 0), ("on-failure", STAY_DOWN, 0), ("no", STAY_DOWN, STAY_DOWN)]
        {
            // Also without the file of the process group.
            assert_eq!(
                (finish(restart, "0"), finish(restart, "256")),
                (Some(after_success), Some(after_failure)),
                "{restart}"
            );
        }
        let mut group = std::os::unix::process::CommandExt::process_group(&mut Command::new("sleep"), 0)
            .arg("600")
            .spawn()
            .unwrap();
        fs::write(folder.path().join(PID_FILE), format!("{}\n", group.id())).unwrap();
        assert_eq!(finish("always", "0"), Some(0));
        let signal = std::os::unix::process::ExitStatusExt::signal(&group.wait().unwrap());
        assert_eq!(signal, Some(9));
    }
}
