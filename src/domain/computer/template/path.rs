//! Paths in a definition file: targets in the guest, working directories and sources of files.

use super::fault::{Fault, FaultCode, RuleResult, quoted};
use super::name;
use super::network;

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
pub enum FileSource {
    /// A secret of this name.
    Secret(String),
    /// A URL, or a file beside the definition file.
    Elsewhere,
}

/// Schemes of URLs that name the source of a file.
const SCHEMES: [&str; 5] = ["git://", "git+https://", "http://", "https://", "s3://"];

/// Reads the source of a file: a URL, `secret://name`, or the relative path of a file beside the definition file.
///
/// # Errors
/// `InvalidValue` for anything else, such as an absolute path or one with `..`.
pub fn source(text: &str) -> RuleResult<FileSource> {
    if let Some(name) = text.strip_prefix("secret://") {
        return Ok(FileSource::Secret(name::secret(name)?));
    }
    if SCHEMES.iter().any(|scheme| text.starts_with(scheme)) {
        network::url(text, &SCHEMES)?;
        return Ok(FileSource::Elsewhere);
    }
    let path = text.strip_prefix("file://").unwrap_or(text);
    let is_relative = !path.is_empty() && !path.starts_with(['/', '~']) && !path.contains("://");
    if is_relative && !path.split('/').any(|part| part == "..") && !path.chars().any(char::is_control) {
        return Ok(FileSource::Elsewhere);
    }
    Err(Fault::invalid(format!(
        "must be a relative path without .., a URL ({}), or secret://NAME, not {}",
        SCHEMES.join(", "),
        quoted(text)
    )))
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
    fn sources_are_urls_secrets_or_files_beside() {
        for good in
            ["app/x.py", "file://x", "https://example.com/a.tgz", "git+https://example.com/r.git", "s3://b/k"]
        {
            assert_eq!(source(good), Ok(FileSource::Elsewhere), "{good}");
        }
        assert_eq!(source("secret://api_key"), Ok(FileSource::Secret("api_key".into())));
        for bad in
            ["", "/etc/passwd", "~/x", "../x", "file:///etc/passwd", "ftp://x/y", "https://", "secret://A"]
        {
            assert!(source(bad).is_err(), "{bad}");
        }
    }
}
