//! Suggestions for subcommands that people know from other programs, such as `docker`, `ssh` and `gh`.

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Words of other programs, and what they may mean here: command paths, the likeliest first. A path counts from the
/// command that got the word, so one row serves `hotdesk remove` and `hotdesk computers remove`.
const MEANINGS: &[(&[&str], &[&str])] = &[
    (&["terminal", "console", "attach", "connect", "sh"], &["shell", "ssh", "bash"]),
    (&["exec", "run", "cmd", "execute"], &["bash", "launch", "ps start", "computers create"]),
    (&["sftp", "sshfs", "remote"], &["ssh", "ssh-config"]),
    (&["ssh-add", "pubkey", "public-key", "public-keys"], &["ssh-keys add", "ssh-keys list"]),
    (&["list", "ls"], &["ls", "list"]),
    (&["remove", "destroy", "terminate", "del", "rm", "delete"], &["rm", "delete"]),
    (&["create", "new", "make", "add"], &["create", "computers create", "start", "set"]),
    (&["show", "inspect", "describe", "info", "get", "status"], &["get", "computers get", "show", "list"]),
    (&["boot", "wake", "start"], &["computers start", "up", "start", "create"]),
    (&["down", "halt", "poweroff", "shutdown", "stop"], &["computers stop", "stop", "kill"]),
    (&["reboot", "restart"], &["computers restart", "restart"]),
    (&["pause", "suspend", "hibernate", "sleep"], &["computers suspend", "suspend"]),
    (&["unpause", "continue", "resume"], &["computers resume", "resume"]),
    (&["rename", "mv"], &["computers rename", "rename"]),
    (&["move"], &["computers move"]),
    (&["clone", "duplicate"], &["computers clone", "clone"]),
    (&["fork", "branch"], &["computers fork", "fork"]),
    (&["resize", "scale"], &["computers resize", "resize"]),
    (&["selftest", "check", "test"], &["computers selftest", "selftest", "doctor", "validate"]),
    (&["lint", "verify"], &["templates validate", "validate"]),
    (&["commit", "save", "checkpoint"], &["snapshots create", "create"]),
    (&["restore", "rollback", "revert"], &["snapshots rollback", "rollback"]),
    (
        &["scp", "rsync", "copy", "upload", "download", "push", "pull", "put", "sync"],
        &["cp", "record download"],
    ),
    (&["log", "tail", "journal", "output"], &["logs", "services log"]),
    (&["watch", "follow", "monitor", "subscribe"], &["events"]),
    (&["top", "procs", "jobs", "process", "processes", "tasks"], &["ps list"]),
    (&["kill", "signal", "end"], &["ps kill", "kill", "close", "stop"]),
    (&["open", "view", "vnc", "viewer", "browse", "web", "rdp", "display"], &["open", "share", "launch"]),
    (&["link", "ticket", "invite", "url"], &["share", "ports link", "open"]),
    (&["paste", "pbcopy", "pbpaste", "xclip"], &["clipboard get", "clipboard set"]),
    (&["screencap", "shot", "capture", "snap", "image", "picture"], &["screenshot"]),
    (&["video", "rec", "recording", "recordings", "screencast"], &["record start", "record list"]),
    (&["press", "hotkey", "keypress"], &["key"]),
    (&["tap", "mouse"], &["click"]),
    (&["write", "input", "send-keys"], &["type"]),
    (&["app", "xdg-open", "application"], &["launch"]),
    (&["passwd", "token", "secret", "credentials"], &["password", "api-keys list"]),
    (&["auth", "signin", "sign-in", "log-in"], &["login"]),
    (&["logout", "signout", "sign-out"], &["profile show", "api-keys delete"]),
    (&["context", "use", "profiles", "whoami"], &["profile show", "profile use"]),
    (&["keys", "apikey", "apikeys", "tokens"], &["api-keys list"]),
    (&["projects", "project", "namespaces"], &["workspaces list"]),
    (
        &["desktops", "desktop", "vms", "vm", "instances", "instance", "containers", "machines", "sandboxes"],
        &["computers list"],
    ),
    (&["server", "daemon", "controller"], &["up", "serve"]),
    (&["ask", "prompt", "agent-run", "llm"], &["chat"]),
    (&["activate", "raise"], &["focus", "windows focus"]),
    (&["completion"], &["completions"]),
];

/// Replaces clap's suggestion, which goes by spelling alone, with commands of a like meaning, when the word is known.
/// `root` is the whole command line.
pub fn extend(mut error: clap::Error, root: &Command) -> clap::Error {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return error;
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else { return error };
    let usage = error.get(ContextKind::Usage).map(ToString::to_string).unwrap_or_default();
    let group = group(&usage, root);
    let mut found = meanings(word, group);
    let is_misspelt = error.get(ContextKind::SuggestedSubcommand).is_some();
    if found.is_empty() && !is_misspelt && group.get_name() != root.get_name() && exists("list", group) {
        // People name the computer first: `hotdesk screens c1`.
        found.push(format!("list {word}"));
    }
    if !found.is_empty() {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(found));
    }
    error
}

/// The command that got the word, from a usage such as `Usage: hotdesk computers [OPTIONS] <COMMAND>`.
fn group<'a>(usage: &str, root: &'a Command) -> &'a Command {
    // The first words are `Usage:` and the name under which the program was called.
    let words = usage.split_whitespace().skip(2);
    words
        .map_while(|word| Some(word).filter(|word| !word.starts_with(['[', '<'])))
        .fold(root, |at, word| at.find_subcommand(word).unwrap_or(at))
}

/// Command paths below `group` that a word may mean, the likeliest first.
fn meanings(word: &str, group: &Command) -> Vec<String> {
    let word = word.to_lowercase();
    let rows = MEANINGS.iter().filter(|(words, _)| words.contains(&word.as_str()));
    let paths = rows.flat_map(|(_, paths)| paths.iter()).filter(|path| exists(path, group));
    paths.map(|path| (*path).to_owned()).collect()
}

fn exists(path: &str, group: &Command) -> bool {
    let found = path.split(' ').try_fold(group, |at, name| at.find_subcommand(name));
    found.is_some_and(|command| !command.is_hide_set())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::Cli;

    #[test]
    fn every_word_means_a_command_that_exists() {
        let root = Cli::command();
        for (words, paths) in MEANINGS {
            for word in *words {
                let is_command = root.find_subcommand(word).is_some();
                assert!(is_command || !meanings(word, &root).is_empty(), "{word}: {paths:?}");
            }
        }
    }

    #[test]
    fn words_of_other_programs_lead_to_commands() {
        let root = Cli::command();
        for (line, expected) in [
            ("exec", "bash"),
            ("list", "ls"),
            ("run", "bash"),
            ("RUN", "bash"),
            ("stop", "computers stop"),
            ("start", "computers start"),
            ("scp", "cp"),
            ("log", "logs"),
            ("kill", "ps kill"),
            ("computers remove", "delete"),
            ("workspaces rm", "delete"),
            ("terminal", "shell"),
            ("ask", "chat"),
            ("sftp", "ssh"),
            ("snapshots new", "create"),
            ("computers inspect", "get"),
            ("windows kill", "close"),
            ("screens c1", "list c1"),
            ("--json snapshots c1", "list c1"),
        ] {
            let words = ["hotdesk"].into_iter().chain(line.split(' '));
            let error = root.clone().try_get_matches_from(words).unwrap_err();
            let text = extend(error, &root).to_string();
            assert!(text.contains(&format!("'{expected}'")), "{line}: {text}");
        }
    }
}
