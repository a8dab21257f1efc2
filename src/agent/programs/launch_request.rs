//! What exactly is to be started? Read from a request before anything is.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hotdesk_domain::error::{Error, Result};
use hotdesk_wire::program::Launch;

/// Seconds that a window is waited for when a request does not say.
const DEFAULT_WAIT: f64 = 10.0;
/// The most seconds that a window is waited for.
const MAX_WAIT: f64 = 60.0;
/// Most arguments of a program, and most variables added to its environment.
const MAX_ITEMS: usize = 256;
/// Longest argument, variable or command in bytes: what Linux passes on (`MAX_ARG_STRLEN`, with its NUL).
const MAX_ITEM: usize = 128 * 1024 - 1;
/// Browsers by the names that images have them under, and how each is told to open a window of its own.
const BROWSERS: [(&str, &[&str]); 2] = [("chromium", &["--new-window"]), ("x-www-browser", &[])];

/// A program to start.
#[derive(Debug)]
pub(super) struct Order {
    /// The program and its arguments.
    pub(super) argv: Vec<String>,
    /// Whether the program is only the shell of a command.
    pub(super) shell: bool,
    /// The command, where a shell runs it.
    command: String,
    /// Where it starts.
    pub(super) directory: PathBuf,
    /// Its whole environment; later entries win.
    pub(super) environment: Vec<(String, String)>,
}

impl Order {
    /// Reads a request; `environment` is what programs have anyhow.
    pub(super) fn parse(
        request: Launch,
        home: &Path,
        mut environment: Vec<(String, String)>,
    ) -> Result<Self> {
        let directory = request.cwd.as_deref().map_or_else(|| home.to_owned(), |cwd| folder(cwd, home));
        if !directory.is_dir() {
            return Err(Error::invalid("cwd is not a folder"));
        }
        let added = request.env.unwrap_or_default();
        if added.len() > MAX_ITEMS {
            return Err(Error::invalid(format!("env has more than {MAX_ITEMS} variables")));
        }
        for (name, value) in added {
            if name.is_empty() || name.contains('=') {
                return Err(Error::invalid("env has a name that no variable can have"));
            }
            check(&name)?;
            check(&value)?;
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
            (None, None, Some(url)) => (browser(&url, &environment, home)?, String::new()),
            _ => {
                return Err(Error::invalid(
                    "one of command, argv and url is needed, and it may not be empty",
                ));
            }
        };
        if argv.len() > MAX_ITEMS {
            return Err(Error::invalid(format!("argv has more than {MAX_ITEMS} items")));
        }
        argv.iter().try_for_each(|item| check(item))?;
        Ok(Self { argv, shell: !command.is_empty(), command, directory, environment })
    }

    /// What the classes of its windows may be called: its own name, or for a shell's command the first word's that is
    /// no variable and no `exec`.
    pub(super) fn names(&self) -> Vec<String> {
        let program = if self.shell {
            let mut words = self.command.split_whitespace();
            words.find(|word| !["exec", "env", "nohup", "setsid"].contains(word) && !word.contains('='))
        } else {
            self.argv.first().map(String::as_str)
        };
        let name = Path::new(program.unwrap_or_default()).file_name();
        let name = name.map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
        // A browser is started under its package's name or another's, and shows its own.
        let real = std::fs::canonicalize(find(&name, &self.path(), &self.directory).unwrap_or_default());
        let real = real.ok().and_then(|path| Some(path.file_name()?.to_string_lossy().to_lowercase()));
        [Some(name), real].into_iter().flatten().filter(|name| !name.is_empty()).collect()
    }

    fn path(&self) -> String {
        let found = self.environment.iter().rev().find(|(name, _)| name == "PATH");
        found.map(|(_, path)| path.clone()).unwrap_or_default()
    }
}

/// How long a window is waited for.
pub(super) fn wait(seconds: Option<f64>) -> Result<Duration> {
    let seconds = seconds.unwrap_or(DEFAULT_WAIT);
    if !(0.0..=MAX_WAIT).contains(&seconds) {
        return Err(Error::invalid(format!("wait_seconds must be 0 to {MAX_WAIT}")));
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| Error::invalid("wait_seconds must be a number"))
}

/// The program of a name: in the folders of `path`, or from `directory` where it has a slash.
pub(super) fn find(name: &str, path: &str, directory: &Path) -> Option<PathBuf> {
    let runs = |file: &PathBuf| {
        std::fs::metadata(file).is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
    };
    if name.is_empty() {
        return None;
    }
    if name.contains('/') {
        return Some(directory.join(name)).filter(runs);
    }
    std::env::split_paths(path).map(|folder| directory.join(folder).join(name)).find(runs)
}

fn folder(cwd: &str, home: &Path) -> PathBuf {
    match cwd.strip_prefix('~') {
        Some("") => home.to_owned(),
        Some(rest) if rest.starts_with('/') => home.join(rest.trim_start_matches('/')),
        _ => home.join(cwd),
    }
}

fn check(item: &str) -> Result<()> {
    if item.contains('\0') {
        return Err(Error::invalid("a part of the command holds a NUL character"));
    }
    if item.len() > MAX_ITEM {
        return Err(Error::invalid(format!("a part of the command is longer than {MAX_ITEM} bytes")));
    }
    Ok(())
}

/// The browser's command line for a URL.
fn browser(url: &str, environment: &[(String, String)], home: &Path) -> Result<Vec<String>> {
    if !is_openable(url) {
        return Err(Error::invalid("url must begin with http://, https:// or file:/// and hold no spaces"));
    }
    let path = environment.iter().rev().find(|(name, _)| name == "PATH");
    let path = path.map_or("", |(_, path)| path);
    let installed = BROWSERS.iter().find(|(name, _)| find(name, path, home).is_some());
    let Some((name, options)) = installed else {
        return Err(Error::conflict("No browser is installed on this computer").code("no_browser"));
    };
    let before = [*name].into_iter().chain(options.iter().copied());
    Ok(before.chain([url]).map(str::to_owned).collect())
}

/// Whether a URL is one that a browser opens as a page, and can be taken for nothing else on a command line.
fn is_openable(url: &str) -> bool {
    let starts = |scheme: &str| url.get(..scheme.len()).is_some_and(|head| head.eq_ignore_ascii_case(scheme));
    let known = ["http://", "https://", "file:///"].into_iter().find(|scheme| starts(scheme));
    let odd = |c: char| c.is_whitespace() || c.is_control();
    known.is_some_and(|scheme| url.len() > scheme.len()) && !url.contains(odd)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(request: Launch) -> Result<Order> {
        let path = std::env::temp_dir().join("nothing-is-here").to_string_lossy().into_owned();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        Order::parse(request, Path::new("/"), vec![pair("PATH", &path), pair("LANG", "C")])
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
        assert_eq!(parse(url).unwrap_err().code, Some("no_browser"));
    }

    #[test]
    fn added_variables_win() {
        let env = Some([("LANG".to_owned(), "de_DE.UTF-8".to_owned())].into());
        let order = parse(Launch { argv: Some(vec!["x".to_owned()]), env, ..Launch::default() }).unwrap();
        let values: Vec<_> = order.environment.iter().filter(|(name, _)| name == "LANG").collect();
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
    fn a_window_s_class_is_looked_for_under_the_program_s_name() {
        let names = |command: &str| {
            parse(Launch { command: Some(command.to_owned()), ..Launch::default() }).unwrap().names()
        };
        assert_eq!(names("xterm -e top"), ["xterm"]);
        assert_eq!(names("LANG=C exec /usr/bin/XTerm"), ["xterm"]);
        assert_eq!(names("A=1"), Vec::<String>::new());
    }

    #[test]
    fn a_wait_is_0_to_60_seconds() {
        assert_eq!(wait(None).unwrap(), Duration::from_secs(10));
        assert_eq!(wait(Some(0.0)).unwrap(), Duration::ZERO);
        for bad in [-0.1, 60.1, f64::NAN, f64::INFINITY] {
            assert!(wait(Some(bad)).is_err(), "{bad}");
        }
    }
}
