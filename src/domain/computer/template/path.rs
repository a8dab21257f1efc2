//! Paths in a definition file: targets in the guest, working directories and sources of files.

use super::bounds::MAX_SCRIPT_BYTES;
use super::fault::{Fault, FaultCode, RuleResult, quoted};
use super::name;
use super::network;
use crate::network::webhook::in_url;

/// Places that a template writes no file to: the kernel and each boot make their contents, or they belong to the
/// service.
pub const RESERVED: [&str; 12] = [
    "/proc",
    "/sys",
    "/boot",
    "/dev",
    "/tmp",
    "/run",
    "/etc/orgo",
    "/var/orgo",
    "/orgo",
    "/etc/supervisor",
    "~/.env",
    "/root/.env",
];

/// Checks a path in the guest: absolute or below the home folder, without `..`. Returns it without empty and `.`
/// parts.
///
/// # Errors
/// `InvalidValue` for anything else.
pub fn guest(path: &str) -> RuleResult<String> {
    let (start, rest) = match (path.strip_prefix("~/"), path.strip_prefix('/')) {
        _ if path == "~" => ("~", ""),
        (Some(rest), _) => ("~", rest),
        (None, Some(rest)) => ("", rest),
        (None, None) => {
            return Err(Fault::invalid(format!(
                "must be an absolute path or begin with ~/, not {}",
                quoted(path)
            )));
        }
    };
    if rest.split('/').any(|part| part == "..") {
        return Err(Fault::invalid(format!("must be a path without .., not {}", quoted(path))));
    }
    if rest.chars().any(char::is_control) {
        return Err(Fault::invalid(format!(
            "must be a path without control characters, not {}",
            quoted(path)
        )));
    }
    let parts = rest.split('/').filter(|part| !part.is_empty() && *part != ".");
    let shortened: String = parts.flat_map(|part| ["/", part]).collect();
    Ok(if start.is_empty() && shortened.is_empty() { "/".to_owned() } else { format!("{start}{shortened}") })
}

/// Checks the target of a file: a path in the guest that is no folder by its form, and not reserved.
///
/// # Errors
/// `InvalidValue` for what is no path of a file, `Reserved` for one in [`RESERVED`].
pub fn target(path: &str) -> RuleResult<String> {
    let cleaned = guest(path)?;
    if path.ends_with('/') || ["~", "/"].contains(&&*cleaned) {
        return Err(Fault::invalid(format!("must name a file, not the folder {}", quoted(path))));
    }
    let place = RESERVED.iter().find(|place| {
        cleaned.strip_prefix(**place).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    });
    match place {
        Some(place) => Err(Fault::new(
            FaultCode::Reserved,
            format!("must not be in {place}, which belongs to the system: {}", quoted(path)),
        )),
        None => Ok(cleaned),
    }
}

/// Where a file comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileSource<'a> {
    /// A secret of this name.
    Secret(String),
    /// A file, by the URL that curl reads.
    Url(String),
    /// A repository of git.
    Repository {
        /// URL that git reads.
        url: &'a str,
        /// Branch, tag or commit.
        reference: Option<&'a str>,
    },
    /// A file beside the definition file, by its relative path.
    Beside(&'a str),
}

/// Way out for a file that is no text of a definition file.
pub const BY_URL: &str = "write a URL (from: https://...), from which the build downloads a file of any size";

/// Schemes of URLs that name the source of a file.
const SCHEMES: [&str; 5] = ["git://", "git+https://", "http://", "https://", "s3://"];

/// Reads the source of a file: a URL, `secret://name`, or the relative path of a file beside the definition file.
///
/// # Errors
/// `InvalidValue` for anything else, such as an absolute path or one with `..`.
pub fn source(text: &str) -> RuleResult<FileSource<'_>> {
    if let Some(name) = text.strip_prefix("secret://") {
        return Ok(FileSource::Secret(name::secret(name)?));
    }
    if SCHEMES.iter().any(|scheme| text.starts_with(scheme)) {
        network::url(text, &SCHEMES)?;
        return match text.strip_prefix("s3://") {
            Some(object) => s3_object(object),
            None if text.starts_with("git") => repository(text),
            None => Ok(FileSource::Url(text.to_owned())),
        };
    }
    let path = text.strip_prefix("file://").unwrap_or(text);
    let is_relative = !path.is_empty() && !path.starts_with(['/', '~']) && !path.contains("://");
    if is_relative && !path.split('/').any(|part| part == "..") && !path.chars().any(char::is_control) {
        return Ok(FileSource::Beside(path));
    }
    Err(Fault::invalid(format!(
        "must be a relative path without .., a URL ({}), or secret://NAME, not {}",
        SCHEMES.join(", "),
        quoted(text)
    )))
}

/// The fault of a file beside the definition file that is longer than a text of it.
pub fn too_large(path: &str) -> Fault {
    let message =
        format!("names {path}, which has more than {MAX_SCRIPT_BYTES} bytes (each ${{ counts as $${{)");
    Fault::new(FaultCode::TooLarge, message)
        .hint(format!("a text beside the definition file has at most {MAX_SCRIPT_BYTES} bytes: {BY_URL}"))
}

/// Objects of S3 are read by anybody's URL: a template has no credentials of the operator.
fn s3_object(object: &str) -> RuleResult<FileSource<'_>> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    match object.split_once('/') {
        Some((bucket, key)) if !key.is_empty() && !bucket.is_empty() && bucket.chars().all(is_plain) => {
            // A key may have any characters.
            let key: Vec<String> = key.split('/').map(in_url).collect();
            Ok(FileSource::Url(format!("https://{bucket}.s3.amazonaws.com/{}", key.join("/"))))
        }
        _ => Err(Fault::invalid(
            "must be s3:// with a bucket of lower-case letters, digits and dashes, a slash, and a key",
        )),
    }
}

fn repository(text: &str) -> RuleResult<FileSource<'_>> {
    let (url, reference) = text.split_once('#').map_or((text, None), |(url, name)| (url, Some(name)));
    if reference.is_some_and(|name| name.is_empty() || name.starts_with('-')) {
        return Err(Fault::invalid(
            "must have a branch, tag or commit behind #, which does not begin with a dash",
        ));
    }
    Ok(FileSource::Repository { url: url.strip_prefix("git+").unwrap_or(url), reference })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_files_outside_of_the_system() {
        for (path, cleaned) in [
            ("/etc/app.toml", "/etc/app.toml"),
            ("~/.config/x", "~/.config/x"),
            ("//opt/./a//b", "/opt/a/b"),
            ("/tmpfiles/x", "/tmpfiles/x"),
            ("/etc/orgo.conf", "/etc/orgo.conf"),
            ("/opt/..x", "/opt/..x"),
            ("~/app/.env", "~/app/.env"),
        ] {
            assert_eq!(target(path).unwrap(), cleaned);
        }
        for (path, code) in [
            ("", FaultCode::InvalidValue),
            ("etc/x", FaultCode::InvalidValue),
            ("~root/x", FaultCode::InvalidValue),
            ("/opt/../etc/x", FaultCode::InvalidValue),
            ("~/..", FaultCode::InvalidValue),
            ("/opt/", FaultCode::InvalidValue),
            ("/", FaultCode::InvalidValue),
            ("~/", FaultCode::InvalidValue),
            ("/a\nb", FaultCode::InvalidValue),
            ("/proc/x", FaultCode::Reserved),
            ("/tmp", FaultCode::Reserved),
            ("//etc//./orgo/x", FaultCode::Reserved),
            ("~/./.env", FaultCode::Reserved),
            ("/root/.env/x", FaultCode::Reserved),
        ] {
            assert_eq!(target(path).unwrap_err().code, code, "{path:?}");
        }
        assert_eq!(guest("~").unwrap(), "~");
        assert_eq!(guest("/").unwrap(), "/");
    }

    #[test]
    fn sources_are_files_repositories_or_secrets() {
        let url = |url: &str| FileSource::Url(url.to_owned());
        let repository = |url, reference| FileSource::Repository { url, reference };
        for (from, expected) in [
            ("app/x.py", FileSource::Beside("app/x.py")),
            ("file://x", FileSource::Beside("x")),
            ("secret://api_key", FileSource::Secret("api_key".to_owned())),
            ("https://example.com/a?b#c", url("https://example.com/a?b#c")),
            ("s3://bucket-1/a/b.tar", url("https://bucket-1.s3.amazonaws.com/a/b.tar")),
            ("s3://b/ab/ä#1?.tar", url("https://b.s3.amazonaws.com/ab/%C3%A4%231%3F.tar")),
            ("git+https://example.com/r.git", repository("https://example.com/r.git", None)),
            ("git://example.com/r#v1.0", repository("git://example.com/r", Some("v1.0"))),
        ] {
            assert_eq!(source(from), Ok(expected), "{from}");
        }
        for bad in [
            "",
            "/etc/passwd",
            "~/x",
            "../x",
            "file:///etc/passwd",
            "ftp://x/y",
            "https://",
            "secret://A",
            "s3://bucket",
            "s3://bucket/",
            "s3://a@b/c",
            "s3://a.b/c",
            "git://h/r#-x",
            "git://h/r#",
        ] {
            assert!(source(bad).is_err(), "{bad}");
        }
    }
}
