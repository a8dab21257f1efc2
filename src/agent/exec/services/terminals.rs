//! Sessions of tmux that each boot starts.

use std::path::Path;
use std::time::Duration;

use super::Parts;
use super::script::{MARK, ScriptName, ScriptRun, path_word};
use hotdesk_wire::programs::service::TerminalProgram;

/// Marks that the sessions of the boot were started: an agent that starts again does not bring back those that were closed.
const STARTED: &str = "terminals-started";
/// Longest time to start all sessions: each takes some milliseconds.
const START_TIMEOUT: Duration = Duration::from_secs(60);

impl Parts {
    /// Starts the sessions, once for a boot.
    pub(super) async fn start_terminals(&self, terminals: &[TerminalProgram], prelude: &str) {
        if terminals.is_empty() || self.is_done(STARTED) {
            return;
        }
        let script = format!("{prelude}{}", script(terminals));
        let run = ScriptRun {
            name: ScriptName { kind: "terminals", name: "start" },
            script: &script,
            environment: &self.environment(),
            cwd: Path::new("/root"),
            folder: &self.folder,
            timeout: START_TIMEOUT,
        };
        if let Err(why) = run.run_command().await {
            tracing::warn!(why, "could not start all terminals of the template");
        }
        self.mark_done(STARTED);
    }
}

/// The script that starts the sessions which do not exist. It goes on after one that fails.
fn script(terminals: &[TerminalProgram]) -> String {
    // The sessions outlive the script.
    let mut script = format!("unset {MARK}\nfailed=0\n");
    for terminal in terminals {
        let quote = |text: &str| shell_words::quote(text).into_owned();
        let name = quote(&terminal.name);
        let title =
            terminal.title.as_deref().map_or_else(String::new, |title| format!(" -n {}", quote(title)));
        let cwd = path_word(terminal.cwd.as_deref().unwrap_or("~"));
        let run =
            terminal.run.as_deref().map_or_else(String::new, |run| format!(" {}", quote(&command(run))));
        script.push_str(&format!(
            "tmux has-session -t ={name} 2>/dev/null || tmux -u new-session -d -s {name}{title} -c {cwd}{run} || failed=1\n"
        ));
    }
    script.push_str("exit $failed\n");
    script
}

/// The command line of a session that goes on with a shell when its program has ended, also by Ctrl-C.
fn command(run: &str) -> String {
    format!("trap : INT QUIT\nbash -c {}\ntrap - INT QUIT\nexec bash -l", shell_words::quote(run))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_a_terminal_are_single_words() {
        let terminal =
            |name: &str, title: Option<&str>, cwd: Option<&str>, run: Option<&str>| TerminalProgram {
                name: name.to_owned(),
                title: title.map(ToOwned::to_owned),
                cwd: cwd.map(ToOwned::to_owned),
                run: run.map(ToOwned::to_owned),
            };
        let all = [
            terminal("main", Some("My $HOME"), Some("~/a b"), Some("echo 'x'")),
            terminal("other", None, None, None),
        ];
        let text = script(&all);
        for part in [
            "tmux -u new-session -d -s main -n 'My $HOME' -c \"$HOME\"/'a b' '",
            "tmux has-session -t =other 2>/dev/null || tmux -u new-session -d -s other -c \"$HOME\" || failed=1\n",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        let checked = std::process::Command::new("bash").args(["-n", "-c", &text]).status().unwrap();
        assert!(checked.success(), "{text}");
        let printed =
            std::process::Command::new("bash").args(["-c", &command("echo \"a 'b'\"")]).output().unwrap();
        assert!(printed.stdout.starts_with(b"a 'b'\n"), "{printed:?}");
    }
}
