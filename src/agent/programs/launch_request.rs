//! Validation of a launch request into a command line, folder and environment.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_wire::programs::program::Launch;

/// Timeout for the first window in seconds when the request has none.
const DEFAULT_WAIT: f64 = 10.0;
/// Maximum timeout for the first window in seconds.
const MAX_WAIT: f64 = 60.0;
/// Maximum of arguments of a program, and of variables added to its environment.
const MAX_ITEMS: usize = 256;
/// Maximum bytes of an argument, variable or command: the limit of execve(2) (`MAX_ARG_STRLEN`, 128 KiB with
/// the NUL).
const MAX_ITEM: usize = 128 * 1024 - 1;
/// Names of browsers in images, in order of preference, each with its options to open a new window.
const BROWSERS: [(&str, &[&str]); 2] = [("chromium", &["--new-window"]), ("x-www-browser", &[])];

/// Validated request to start a program.
#[derive(Debug)]
pub(super) struct LaunchRequest {
    /// The program and its arguments.
    pub(super) argv: Vec<String>,
    /// Whether the program is bash and runs `command`.
    pub(super) shell: bool,
    /// Command line for bash; empty when no shell runs it.
    command: String,
    /// Working directory.
    pub(super) directory: PathBuf,
    /// Complete environment; later entries win.
    pub(super) environment: Vec<(String, String)>,
}

impl LaunchRequest {
    /// Validates a request; its variables replace those of `environment` with the same name.
    ///
    /// # Errors
    /// `Invalid` when the request is malformed or the folder does not exist; `Conflict` (`no_browser`) for a
    /// URL when no browser is installed.
    pub(super) fn parse(
        request: Launch,
        home: &Path,
        mut environment: Vec<(String, String)>,
    ) -> Result<Self> {
        let directory =
            request.cwd.as_deref().map_or_else(|| home.to_owned(), |cwd| resolve_folder(cwd, home));
        if !directory.is_dir() {
            return Err(Error::invalid("cwd is not a folder; name one that exists"));
        }
        let added = request.env.unwrap_or_default();
        if added.len() > MAX_ITEMS {
            return Err(Error::invalid(format!("env has more than {MAX_ITEMS} variables; pass fewer")));
        }
        for (name, value) in added {
            if name.is_empty() || name.contains('=') {
                return Err(Error::invalid("env has an empty name or one that contains ="));
            }
            check_item(&name)?;
            check_item(&value)?;
            environment.retain(|(old, _)| *old != name);
            environment.push((name, value));
        }
        let (argv, command) = match (request.command, request.argv, request.url) {
            (Some(command), None, None) if !command.trim().is_empty() => {
                (["bash", "-c", &command].map(str::to_owned).to_vec(), command)
            }
            (None, Some(argv), None) if argv.first().is_some_and(|program| !program.is_empty()) => {
                (argv, String::new())
            }
            (None, None, Some(url)) => (browser_command(&url, &environment, home)?, String::new()),
            _ => {
                return Err(Error::invalid(
                    "exactly one of command, argv and url is required, and it must not be empty",
                ));
            }
        };
        if argv.len() > MAX_ITEMS {
            return Err(Error::invalid(format!("argv has more than {MAX_ITEMS} items; pass fewer")));
        }
        argv.iter().try_for_each(|item| check_item(item))?;
        Ok(Self { argv, shell: !command.is_empty(), command, directory, environment })
    }

    /// Returns the possible class names of its windows in lower case: the program's file name and that of the
    /// file it links to. For a shell command the program is the first word that is no variable and no `exec`.
    pub(super) fn names(&self) -> Vec<String> {
        let program = if self.shell {
            let mut words = self.command.split_whitespace();
            words.find(|word| !["exec", "env", "nohup", "setsid"].contains(word) && !word.contains('='))
        } else {
            self.argv.first().map(String::as_str)
        };
        let name = Path::new(program.unwrap_or_default()).file_name();
        let name = name.map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
        // A browser may be started under an alias; its windows have the class of the real program.
        let real =
            std::fs::canonicalize(find_program(&name, &self.path(), &self.directory).unwrap_or_default());
        let real = real.ok().and_then(|path| Some(path.file_name()?.to_string_lossy().to_lowercase()));
        [Some(name), real].into_iter().flatten().filter(|name| !name.is_empty()).collect()
    }

    fn path(&self) -> String {
        let found = self.environment.iter().rev().find(|(name, _)| name == "PATH");
        found.map(|(_, path)| path.clone()).unwrap_or_default()
    }
}

/// Returns the timeout for the first window.
///
/// # Errors
/// `Invalid` when `seconds` is not within 0 to [`MAX_WAIT`].
pub(super) fn window_timeout(seconds: Option<f64>) -> Result<Duration> {
    let seconds = seconds.unwrap_or(DEFAULT_WAIT);
    if !(0.0..=MAX_WAIT).contains(&seconds) {
        return Err(Error::invalid(format!("wait_seconds must be 0 to {MAX_WAIT}")));
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| Error::invalid("wait_seconds must be a number"))
}

/// Returns the executable file of a name: from the folders of `path`, or relative to `directory` when the
/// name has a slash.
pub(super) fn find_program(name: &str, path: &str, directory: &Path) -> Option<PathBuf> {
    let is_executable = |file: &PathBuf| {
        std::fs::metadata(file).is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
    };
    if name.is_empty() {
        return None;
    }
    if name.contains('/') {
        return Some(directory.join(name)).filter(is_executable);
    }
    std::env::split_paths(path).map(|folder| directory.join(folder).join(name)).find(is_executable)
}

fn resolve_folder(cwd: &str, home: &Path) -> PathBuf {
    match cwd.strip_prefix('~') {
        Some("") => home.to_owned(),
        Some(rest) if rest.starts_with('/') => home.join(rest.trim_start_matches('/')),
        _ => home.join(cwd),
    }
}

fn check_item(item: &str) -> Result<()> {
    if item.contains('\0') {
        return Err(Error::invalid("the command, an argument or a variable contains a NUL character"));
    }
    if item.len() > MAX_ITEM {
        return Err(Error::invalid(format!(
            "the command, an argument or a variable is longer than {MAX_ITEM} bytes"
        )));
    }
    Ok(())
}

/// Returns the command line that opens a URL in a new browser window.
fn browser_command(url: &str, environment: &[(String, String)], home: &Path) -> Result<Vec<String>> {
    if !is_openable(url) {
        return Err(Error::invalid(
            "url must begin with http://, https:// or file:/// and contain no spaces",
        ));
    }
    let path = environment.iter().rev().find(|(name, _)| name == "PATH");
    let path = path.map_or("", |(_, path)| path);
    let installed = BROWSERS.iter().find(|(name, _)| find_program(name, path, home).is_some());
    let Some((name, options)) = installed else {
        return Err(Error::conflict("No browser is installed on this computer").code(ErrorCode::NoBrowser));
    };
    let before = [*name].into_iter().chain(options.iter().copied());
    Ok(before.chain([url]).map(str::to_owned).collect())
}

/// Whether a browser opens this URL as a page and cannot parse it as a command line option.
fn is_openable(url: &str) -> bool {
    let starts = |scheme: &str| url.get(..scheme.len()).is_some_and(|head| head.eq_ignore_ascii_case(scheme));
    let known = ["http://", "https://", "file:///"].into_iter().find(|scheme| starts(scheme));
    let odd = |c: char| c.is_whitespace() || c.is_control();
    known.is_some_and(|scheme| url.len() > scheme.len()) && !url.contains(odd)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(request: Launch) -> Result<LaunchRequest> {
        let path = std::env::temp_dir().join("no-such-folder").to_string_lossy().into_owned();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        LaunchRequest::parse(request, Path::new("/"), vec![pair("PATH", &path), pair("LANG", "C")])
    }

    #[test]
    fn exactly_one_way_of_naming_a_program() {
        let command = || Some("xterm -e top".to_owned());
        let argv = || Some(vec!["xterm".to_owned()]);
        assert_eq!(
            parse(Launch { command: command(), ..Launch::default() }).unwrap().argv,
            ["bash", "-c", "xterm -e top"]
        );
        assert_eq!(parse(Launch { argv: argv(), ..Launch::default() }).unwrap().argv, ["xterm"]);
        for bad in [
            Launch::default(),
            Launch { command: command(), argv: argv(), ..Launch::default() },
            Launch { command: Some(" ".to_owned()), ..Launch::default() },
            Launch { argv: Some(Vec::new()), ..Launch::default() },
            Launch { argv: Some(vec![String::new()]), ..Launch::default() },
            Launch { argv: Some(vec!["a\0".to_owned()]), ..Launch::default() },
            Launch { argv: Some(vec!["a".to_owned(); MAX_ITEMS + 1]), ..Launch::default() },
            Launch { argv: argv(), cwd: Some("/no/such/folder".to_owned()), ..Launch::default() },
            Launch { argv: argv(), env: Some([("A=B".into(), "1".into())].into()), ..Launch::default() },
        ] {
            assert!(parse(bad.clone()).is_err(), "{bad:?}");
        }
        let url = Launch { url: Some("https://example.com".to_owned()), ..Launch::default() };
        assert_eq!(parse(url).unwrap_err().code, Some(ErrorCode::NoBrowser));
    }

    #[test]
    fn added_variables_win() {
        let env = Some([("LANG".to_owned(), "de_DE.UTF-8".to_owned())].into());
        let request = parse(Launch { argv: Some(vec!["x".to_owned()]), env, ..Launch::default() }).unwrap();
        let values: Vec<_> = request.environment.iter().filter(|(name, _)| name == "LANG").collect();
        assert_eq!(values.len(), 1);
        assert_eq!(values[0].1, "de_DE.UTF-8");
    }

    #[test]
    fn only_pages_are_opened() {
        for good in ["http://a", "HTTPS://example.com/?q=%20#x", "file:///etc/hosts", "https://ä.de/ü"] {
            assert!(is_openable(good), "{good}");
        }
        for bad in [
            "",
            "http://",
            "example.com",
            "file://host/x",
            "javascript:alert(1)",
            "chrome://settings",
            "data:text/html,x",
            "--no-sandbox",
            " http://a",
            "http://a --gpu-launcher=x",
            "http://a\nb",
        ] {
            assert!(!is_openable(bad), "{bad:?}");
        }
    }

    #[test]
    fn a_window_class_is_derived_from_the_program_name() {
        let names = |command: &str| {
            parse(Launch { command: Some(command.to_owned()), ..Launch::default() }).unwrap().names()
        };
        assert_eq!(names("xterm -e top"), ["xterm"]);
        assert_eq!(names("LANG=C exec /usr/bin/XTerm"), ["xterm"]);
        assert_eq!(names("A=1"), Vec::<String>::new());
    }

    #[test]
    fn a_wait_is_0_to_60_seconds() {
        assert_eq!(window_timeout(None).unwrap(), Duration::from_secs(10));
        assert_eq!(window_timeout(Some(0.0)).unwrap(), Duration::ZERO);
        for bad in [-0.1, 60.1, f64::NAN, f64::INFINITY] {
            assert!(window_timeout(Some(bad)).is_err(), "{bad}");
        }
    }
}
