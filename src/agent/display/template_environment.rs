//! Environment variables of the template that the computer was launched from.

use std::fs::File;
use std::io::{self, Read};

use hotdesk_domain::computer::template::build::ENVIRONMENT_FILE;

/// Most bytes of the file: a template has at most 256 variables of 4 KiB.
const MAX_BYTES: u64 = 2 << 20;

/// Returns the variables, sorted by name; none without a template. A file that cannot be read counts as none, with a warning:
/// root of the computer may write anything there.
pub fn template_environment() -> Vec<(String, String)> {
    let mut text = Vec::new();
    match File::open(ENVIRONMENT_FILE).and_then(|file| file.take(MAX_BYTES).read_to_end(&mut text)) {
        Ok(_) => parse(&text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => {
            tracing::warn!(%error, "could not read {ENVIRONMENT_FILE}; its variables are not set");
            Vec::new()
        }
    }
}

/// Parses variables as in `/proc/PID/environ` (proc(5)): `NAME=VALUE`, each with a null byte after it.
fn parse(text: &[u8]) -> Vec<(String, String)> {
    let entries = text.split(|byte| *byte == 0).filter_map(|entry| str::from_utf8(entry).ok());
    let pairs = entries.filter_map(|entry| entry.split_once('='));
    pairs
        .filter(|(name, _)| !name.is_empty())
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_exact_and_damaged_entries_are_skipped() {
        let text = b"A=b\0EMPTY=\0LINES=one\ntwo=2\0=x\0NOTHING\0\xff=1\0LAST=cut";
        let expected = [("A", "b"), ("EMPTY", ""), ("LINES", "one\ntwo=2"), ("LAST", "cut")];
        let found = parse(text);
        assert!(found.iter().map(|(name, value)| (name.as_str(), value.as_str())).eq(expected), "{found:?}");
    }
}
