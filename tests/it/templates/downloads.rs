//! Downloads of apt, pip and npm that later builds of the account use (docs/templates.md, "Download caches").

use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use futures_util::stream;
use hotdesk::base::ids::AccountId;
use hotdesk::controller::data_dir::downloads::DownloadCaches;
use hotdesk::domain::error_code::ErrorCode;
use serde_json::json;

use super::builds::{build, lines_of, log};
use crate::harness::capability::Capability;
use crate::harness::controller::RunningController;
use crate::harness::small_disk::SmallDisk;

const REGISTRY: &str = include_str!("registry.py");
/// Installs one package of each kind from the registry, which runs beside it, and prints the requests.
const SCRIPT: &str = "mkfifo /tmp/ready; python3 /opt/registry.py & server=$!\n\
    read -r _ </tmp/ready\n\
    echo 'deb [trusted=yes] http://127.0.0.1:8123/deb ./' >/tmp/lab.list\n\
    lab='-o Dir::Etc::sourceparts=- -o Dir::Etc::sourcelist=/tmp/lab.list'\n\
    apt-get -q $lab update\n\
    apt-get -qy $lab install labdeb\n\
    python3 -m pip install --break-system-packages --index-url http://127.0.0.1:8123/simple --trusted-host 127.0.0.1:8123 labwheel\n\
    npm install --global --no-fund --no-audit --registry http://127.0.0.1:8123/npm labtool\n\
    kill $server; sort -u /tmp/requests | sed 's/^/request /'\n";
const PACKAGES: [&str; 3] = ["labdeb_1.0_all.deb", "labwheel-1.0-py3-none-any.whl", "labtool-1.0.0.tgz"];

/// Builds a version whose script ends with this comment. Returns the requests of its packages, and whether the lists of packages
/// were asked for.
async fn requests(controller: &RunningController, name: &str, comment: &str) -> (Vec<String>, usize) {
    let script = format!("{SCRIPT}# {comment}\n");
    let more = format!(
        "files: {}\nbuild: {}",
        json!([{"to": "/opt/registry.py", "inline": REGISTRY}]),
        json!({"run": [script]})
    );
    let status = build(controller, name, &more).await;
    let log = log(controller, name).await;
    assert_eq!(status["status"], "ready", "{log:#?}");
    let lines = lines_of(&log, "build.run[0]");
    let requests: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix("request ")).collect();
    let of_packages =
        requests.iter().filter_map(|path| path.rsplit('/').next()).filter(|name| PACKAGES.contains(name));
    let of_packages = of_packages.map(str::to_owned).collect();
    let lists = ["/deb/./Packages", "/simple/labwheel/", "/npm/labtool"];
    (of_packages, requests.iter().filter(|path| lists.contains(path)).count())
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let entry = entry.expect("an entry");
        match entry.file_type().expect("a type").is_dir() {
            true => found.extend(files(&entry.path())),
            false => found.push(entry.path()),
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_build_downloads_no_package_again() {
    let Some(controller) = RunningController::boot_full().await else { return };
    let (mut first, lists) = requests(&controller, "lab@1.0.0", "first").await;
    first.sort();
    let mut all = PACKAGES.map(str::to_owned);
    all.sort();
    assert_eq!((&first[..], lists), (&all[..], 3));
    let archives = files(&controller.data_dir().join("downloads"));
    let of = |tool: &str| {
        archives.iter().filter(|path| path.to_string_lossy().contains(&format!(".{tool}."))).count()
    };
    assert_eq!((of("apt"), of("pip"), of("npm"), archives.len()), (1, 1, 1, 3), "{archives:?}");
    let kept = files(&controller.data_dir().join("layers"));
    let downloads: Vec<_> = kept
        .iter()
        .filter(|path| {
            let path = path.to_string_lossy();
            ["hotdesk-downloads", "labdeb_1.0", "_cacache", "http-v2"].iter().any(|part| path.contains(part))
        })
        .collect();
    assert!(downloads.is_empty(), "no layer has downloads: {downloads:?}");

    // A damaged archive stops no other one, and goes.
    let sound = &archives[0];
    let name = sound.file_name().expect("a name").to_string_lossy().into_owned();
    let (stored, _) = name.split_once('.').expect("a time");
    let before = stored.parse::<u64>().expect("milliseconds") - 1;
    let damaged = sound.with_file_name(format!("{before:013}.apt.damaged.tar"));
    fs::write(&damaged, [b'x'; 2000]).expect("an archive");

    let (second, lists) = requests(&controller, "lab@1.0.1", "second").await;
    // Lists are asked for again: the newest versions are installed.
    assert_eq!((second, lists > 0), (Vec::new(), true));
    assert!(!damaged.exists());

    // What is not there any more is downloaded again.
    fs::remove_dir_all(controller.data_dir().join("downloads")).expect("a folder");
    let (third, _) = requests(&controller, "lab@1.0.2", "third").await;
    assert_eq!(third.len(), 3);
}

#[tokio::test]
async fn caches_leave_two_gibibytes_of_the_disk_free() {
    if !nix::unistd::geteuid().is_root() {
        return Capability::Root.skip("a file system of its own");
    }
    let temp = tempfile::Builder::new().prefix("hotdesk-").tempdir().expect("a folder");
    let account = AccountId::random();
    for (mebibytes, fits) in [(2048, false), (2560, true)] {
        let folder = temp.path().join(mebibytes.to_string());
        fs::create_dir(&folder).expect("a folder");
        let store = folder.join("store");
        let _small = SmallDisk::mount(&folder, &store, mebibytes);
        let caches = DownloadCaches::open(&store).expect("the caches");
        let piece = stream::iter([Ok(Bytes::from(vec![b'x'; 1 << 20]))]);
        let stored = caches.store(account, "apt", piece).await;
        let code = stored.as_ref().err().and_then(|error| error.code);
        assert_eq!((stored.is_ok(), code.is_none()), (fits, fits), "{mebibytes} MiB: {stored:?}");
        assert!(fits || code == Some(ErrorCode::DiskFull), "{stored:?}");
        let kept = files(&store.join("downloads")).len();
        assert_eq!(kept, usize::from(fits), "{mebibytes} MiB");
    }
}
