//! References to images in registries, such as `debian:13` or `ghcr.io/team/desktop@sha256:...`.
//!
//! The grammar is that of <https://github.com/distribution/reference>. The parser of `oci-client` needs an engine of
//! regular expressions, which would be much code for this alone.

use oci_client::Reference;

use crate::failure::Outcome;

/// Registry of references that name none.
const DEFAULT_REGISTRY: &str = "docker.io";
/// Older name of the default registry.
const OLDER_DEFAULT_REGISTRY: &str = "index.docker.io";
/// Folder of repositories of the default registry that are given without one.
const DEFAULT_FOLDER: &str = "library/";
/// Tag of references with neither a tag nor a digest.
const DEFAULT_TAG: &str = "latest";
/// Longest name of a repository, in bytes.
const MAX_REPOSITORY: usize = 255;
/// Longest tag, in bytes.
const MAX_TAG: usize = 128;
/// Algorithms of digests, with their number of hexadecimal digits.
const DIGESTS: [(&str, usize); 3] = [("sha256", 64), ("sha384", 96), ("sha512", 128)];

/// Reads a reference. It has a registry, a repository, and a tag, a digest or both.
///
/// # Errors
/// When a part is malformed.
pub fn parse(text: &str) -> Outcome<Reference> {
    let (rest, digest) = match text.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (text, None),
    };
    // A colon before a slash is that of a registry's port.
    let (name, tag) = match rest.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
        Some(_) | None => (rest, None),
    };
    let (registry, repository) = match name.split_once('/') {
        Some((first, others)) if first.contains(['.', ':']) || first == "localhost" => (first, others),
        Some(_) | None => (DEFAULT_REGISTRY, name),
    };
    let registry = if registry == OLDER_DEFAULT_REGISTRY { DEFAULT_REGISTRY } else { registry };
    if !is_registry(registry) {
        return Err(format!("{registry:?} is no name of a registry").into());
    }
    if repository.len() > MAX_REPOSITORY || !repository.split('/').all(is_part_of_repository) {
        return Err(format!("{repository:?} is no name of a repository").into());
    }
    if let Some(tag) = tag.filter(|tag| !is_tag(tag)) {
        return Err(format!("{tag:?} is no tag").into());
    }
    if let Some(digest) = digest.filter(|digest| !is_digest(digest)) {
        return Err(format!("{digest:?} is no digest").into());
    }
    let folder = if registry == DEFAULT_REGISTRY && !repository.contains('/') { DEFAULT_FOLDER } else { "" };
    let (registry, repository) = (registry.to_owned(), format!("{folder}{repository}"));
    Ok(match (tag.map(str::to_owned), digest.map(str::to_owned)) {
        (Some(tag), Some(digest)) => Reference::with_tag_and_digest(registry, repository, tag, digest),
        (None, Some(digest)) => Reference::with_digest(registry, repository, digest),
        (Some(tag), None) => Reference::with_tag(registry, repository, tag),
        (None, None) => Reference::with_tag(registry, repository, DEFAULT_TAG.to_owned()),
    })
}

/// Whether a text is a host with an optional port.
fn is_registry(text: &str) -> bool {
    let (host, port) = text.split_once(':').unwrap_or((text, "0"));
    let is_label = |label: &str| {
        let is_inside = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        !label.is_empty() && !label.starts_with('-') && !label.ends_with('-') && label.bytes().all(is_inside)
    };
    host.split('.').all(is_label) && !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a text is lower-case letters and digits, with separators between them: `.`, `_`, `__` or dashes.
fn is_part_of_repository(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_separator =
        |text: &str| matches!(text, "" | "." | "_" | "__") || text.bytes().all(|byte| byte == b'-');
    let is_end = |byte: Option<u8>| byte.is_some_and(is_word);
    is_end(text.bytes().next())
        && is_end(text.bytes().next_back())
        && text.split(|letter: char| u8::try_from(letter).is_ok_and(is_word)).all(is_separator)
}

fn is_tag(text: &str) -> bool {
    let is_inside = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    !text.is_empty() && text.len() <= MAX_TAG && !text.starts_with(['.', '-']) && text.bytes().all(is_inside)
}

fn is_digest(text: &str) -> bool {
    text.split_once(':').is_some_and(|(algorithm, digits)| {
        DIGESTS.contains(&(algorithm, digits.len())) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_read_as_other_tools_read_them() {
        let digest = format!("sha256:{}", "f".repeat(64));
        for (text, registry, repository, tag, has_digest) in [
            ("busybox", "docker.io", "library/busybox", Some("latest"), false),
            ("debian:13", "docker.io", "library/debian", Some("13"), false),
            ("test.com:5000", "docker.io", "library/test.com", Some("5000"), false),
            ("foo_bar.com:8080", "docker.io", "library/foo_bar.com", Some("8080"), false),
            ("opensuse/leap:15.3", "docker.io", "opensuse/leap", Some("15.3"), false),
            ("index.docker.io/debian", "docker.io", "library/debian", Some("latest"), false),
            ("test.com/repo:tag", "test.com", "repo", Some("tag"), false),
            ("test:5000/repo", "test:5000", "repo", Some("latest"), false),
            ("test:5000/repo:Tag", "test:5000", "repo", Some("Tag"), false),
            ("test:5000/repo@", "test:5000", "repo", None, true),
            ("test:5000/repo:tag@", "test:5000", "repo", Some("tag"), true),
            ("localhost/a", "localhost", "a", Some("latest"), false),
            ("127.0.0.1:8080/team/debian:1", "127.0.0.1:8080", "team/debian", Some("1"), false),
            ("sub-dom1.foo.com/bar/baz/qu--ux", "sub-dom1.foo.com", "bar/baz/qu--ux", Some("latest"), false),
            ("b.gcr.io/a.b__c/my_app:x.y", "b.gcr.io", "a.b__c/my_app", Some("x.y"), false),
        ] {
            let text = if has_digest { format!("{text}{digest}") } else { text.to_owned() };
            let reference = parse(&text).unwrap_or_else(|error| panic!("{text}: {}", error.text()));
            assert_eq!(reference.registry(), registry, "{text}");
            assert_eq!(reference.repository(), repository, "{text}");
            assert_eq!(reference.tag(), tag, "{text}");
            assert_eq!(reference.digest(), has_digest.then_some(digest.as_str()), "{text}");
        }
    }

    #[test]
    fn malformed_references_are_refused() {
        let md5 = format!("debian@md5:{}", "f".repeat(32));
        let long = "a".repeat(MAX_REPOSITORY + 1);
        let long_tag = format!("debian:{}", "a".repeat(MAX_TAG + 1));
        for bad in [
            "",
            "no reference!",
            ":tag",
            "debian:",
            "debian:.x",
            "debian:a/b:",
            "Debian",
            "team/Debian",
            "team//debian",
            "/debian",
            "debian/",
            "-debian",
            "debian-",
            "a..b",
            "a___b",
            "a._b",
            "a\u{e9}b",
            "test.com:/repo",
            "test.com:port/repo",
            "-test.com/repo",
            "test..com/repo",
            "debian@",
            "debian@sha256:ff",
            &md5,
            &long,
            &long_tag,
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
