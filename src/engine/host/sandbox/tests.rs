//! Tests of the sandbox, by programs that stand for a tool that a crafted file took over.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Instant;

use super::*;

/// For a program to start or to end on a busy machine.
const LONG: Duration = Duration::from_secs(60);
/// A user id that nothing else has; each test has another.
const FIRST_USER: u32 = 1_999_000_000;

/// Bytes of the guest's file: more than a tool may print.
const FILE_BYTES: usize = 32 << 10;

/// A file with [`FILE_BYTES`]. `None` where the sandbox needs more than the test has.
fn a_file() -> Option<tempfile::NamedTempFile> {
    if !nix::unistd::geteuid().is_root() {
        hotdesk_capability::Capability::Root.skip("a sandbox needs namespaces");
        return None;
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), [b'x'; FILE_BYTES]).unwrap();
    Some(file)
}

/// The process of a user that runs this program.
fn process_of(user: u32, program: &str) -> PathBuf {
    let is_it = |process: &PathBuf| {
        let status = fs::read_to_string(process.join("status")).unwrap_or_default();
        status.contains(&format!("Name:\t{program}\n")) && status.contains(&format!("\nUid:\t{user}\t"))
    };
    let started = Instant::now();
    loop {
        let found = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path()).find(is_it);
        if let Some(process) = found {
            return process;
        }
        assert!(started.elapsed() < LONG, "{program} does not start");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn names(folder: PathBuf) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_tool_has_no_privileges_and_nothing_of_the_host() {
    let Some(file) = a_file() else { return };
    let user = FIRST_USER;
    let (input, held) = std::io::pipe().unwrap();
    let guest_file = GuestFile { path: file.path(), user };
    std::thread::scope(|scope| {
        let tool = scope.spawn(|| guest_file.run_tool("try", "cat", &["-", FILE], input, LONG));
        let process = process_of(user, "cat");
        let text = fs::read_to_string(process.join("status")).unwrap();
        let status: BTreeMap<&str, Vec<&str>> = text
            .lines()
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name, value.split_whitespace().collect()))
            .collect();
        let own = user.to_string();
        for name in ["Uid", "Gid"] {
            assert_eq!(status[name], [&own, &own, &own, &own], "{name}");
        }
        assert!(status["Groups"].is_empty(), "{:?}", status["Groups"]);
        for name in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert_eq!(status[name], ["0000000000000000"], "{name}");
        }
        assert_eq!((status["NoNewPrivs"][0], status["Seccomp"][0]), ("1", "2"));
        assert_eq!(status["NSpid"].last(), Some(&"1"), "it is alone in its namespace");
        for namespace in ["cgroup", "ipc", "mnt", "net", "pid", "uts"] {
            let of = |process: &Path| fs::read_link(process.join("ns").join(namespace)).unwrap();
            assert_ne!(of(&process), of(Path::new("/proc/self")), "{namespace}");
        }
        let root: Vec<&str> = PROGRAMS.into_iter().chain(["dev", "file"]).collect();
        let seen = names(process.join("root"));
        assert!(seen.iter().all(|name| root.contains(&name.as_str())), "{seen:?}");
        assert_eq!(names(process.join("root/dev")), ["null"]);
        let mounts = fs::read_to_string(process.join("mountinfo")).unwrap();
        let writable = mounts.lines().filter(|line| line.split(' ').nth(5).unwrap().starts_with("rw"));
        let writable: Vec<&str> = writable.map(|line| line.split(' ').nth(4).unwrap()).collect();
        assert_eq!(writable, ["/dev/null", "/file"], "{mounts}");
        assert_eq!(fs::metadata(file.path()).unwrap().uid(), user);
        let limits = fs::read_to_string(process.join("limits")).unwrap();
        for (limit, value) in
            [("Max address space", MAX_MEMORY), ("Max file size", FILE_BYTES as u64), ("Max core", 0)]
        {
            let line = limits.lines().find(|line| line.starts_with(limit)).unwrap();
            assert!(line.split_whitespace().any(|word| word == value.to_string()), "{line}");
        }
        drop(held);
        let (status, output) = tool.join().unwrap().unwrap();
        assert!(!status.success(), "the output is bounded: {status}");
        assert_eq!(output, "x".repeat(usize::try_from(MAX_TEXT).unwrap()));
    });
    assert_eq!(fs::metadata(file.path()).unwrap().uid(), 0);
}

/// Prints what the tool could do, and the bytes that it wrote to the file.
const ATTEMPTS: &str = r#"
    my @done;
    push @done, "fork" if defined(fork);
    push @done, "socket" if socket(SOCKET, 2, 1, 0);
    push @done, "install" if open(PROGRAM, ">", "/usr/bin/planted");
    push @done, "create" if open(CREATED, ">", "/planted");
    push @done, "passwords" if open(READ, "<", "/etc/passwd") or open(READ, "<", "/proc/1/environ");
    push @done, "give away" if chown(0, 0, "/file");
    push @done, "set-user-id" if chmod(04755, "/file");
    push @done, "signal" if kill(0, 1);
    push @done, "unlock" if flock(STDIN, 8);
    push @done, "write" if open(FILE, "+<", "/file") and syswrite(FILE, "written");
    push @done, "lengthen" if sysseek(FILE, 0, 2) and syswrite(FILE, "more");
    print "user $< did: @done\n";
"#;

#[test]
fn a_tool_that_was_taken_over_can_only_write_to_its_file() {
    let Some(file) = a_file() else { return };
    let user = FIRST_USER + 1;
    let guest_file = GuestFile { path: file.path(), user };
    let (status, output) =
        guest_file.run_tool("try", "perl", &["-e", ATTEMPTS], Stdio::null(), LONG).unwrap();
    assert_eq!(output, format!("user {user} did: write"), "{status}");
    let written = fs::read(file.path()).unwrap();
    assert_eq!((written.len(), &written[..8]), (FILE_BYTES, &b"writtenx"[..]));
}

#[test]
fn a_tool_that_hangs_is_killed_and_one_that_is_missing_is_named() {
    let Some(file) = a_file() else { return };
    let run = |user, program: &str, timeout| {
        let guest_file = GuestFile { path: file.path(), user: FIRST_USER + user };
        format!("{:#}", guest_file.run_tool("try", program, &["60"], Stdio::null(), timeout).unwrap_err())
    };
    let late = run(2, "sleep", Duration::from_millis(50));
    assert!(late.contains("longer than"), "{late}");
    let missing = run(3, "no-such-tool", LONG);
    assert!(missing.contains("no-such-tool is not installed"), "{missing}");
    assert_eq!(fs::metadata(file.path()).unwrap().uid(), 0);
}
