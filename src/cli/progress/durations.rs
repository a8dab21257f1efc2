//! Durations of earlier operations, from which the time left is estimated.
//!
//! The file is `hotdesk/durations.json` in the user's cache folder (XDG Base Directory Specification):
//! `{OPERATION: SECONDS}`. It is written only where a person sees the estimate.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Largest file in bytes that is read: far above that of all operations.
const MAX_FILE: u64 = 64 * 1024;
/// Share of the newest duration in the average: a change of the host shows after a few operations.
const WEIGHT: f64 = 0.5;

/// Average duration in seconds by operation.
type Averages = BTreeMap<String, f64>;

/// Returns how long an operation took on average; `None` before the first.
pub fn expected(operation: &str) -> Option<Duration> {
    let seconds = *load(&path()?).get(operation)?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// Adds the duration of an operation to its average.
///
/// # Errors
/// When there is no home folder, or the file cannot be written.
pub fn record(operation: &str, took: Duration) -> io::Result<()> {
    let path = path().ok_or(io::ErrorKind::NotFound)?;
    let mut averages = load(&path);
    add(&mut averages, operation, took);
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    serde_json::to_writer(&mut file, &averages)?;
    file.persist(&path)?;
    Ok(())
}

fn path() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    // A relative path in the variable counts as unset, as the specification says.
    let cache = set("XDG_CACHE_HOME").filter(|path| path.is_absolute());
    Some(cache.or_else(|| Some(set("HOME")?.join(".cache")))?.join("hotdesk/durations.json"))
}

/// The averages of a file; none of a missing, unreadable or foreign one, because they are only estimates.
fn load(path: &Path) -> Averages {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(MAX_FILE).read_to_string(&mut text));
    read.ok().and_then(|_| serde_json::from_str(&text).ok()).unwrap_or_default()
}

fn add(averages: &mut Averages, operation: &str, took: Duration) {
    let took = took.as_secs_f64();
    let average = averages.entry(operation.to_owned()).or_insert(took);
    *average += (took - *average) * WEIGHT;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_average_follows_the_newest_durations() {
        let mut averages = Averages::new();
        for (took, expected) in [(8, 8.0), (4, 6.0), (4, 5.0)] {
            add(&mut averages, "create", Duration::from_secs(took));
            assert!((averages["create"] - expected).abs() < 1e-9, "{averages:?}");
        }
    }

    #[test]
    fn a_file_that_is_missing_or_foreign_has_no_averages() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("durations.json");
        assert!(load(&path).is_empty());
        for (text, count) in [("{\"create\": 2.5}", 1), ("[1]", 0), ("{\"create\": \"x\"}", 0), ("", 0)] {
            fs::write(&path, text).unwrap();
            assert_eq!(load(&path).len(), count, "{text}");
        }
    }
}
