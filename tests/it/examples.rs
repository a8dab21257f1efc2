//! The samples of README and `docs/`: each fenced block is run, parsed or checked as its language says.
//!
//! | block | check |
//! |---|---|
//! | `bash` | the blocks of a page run in order in one shell, with the small image; `docs/lifecycle.md` over gVisor |
//! | `python` | runs with the libraries of the tests; those of `docs/channels.md` by their heading, with arguments |
//! | `ts` | only in `docs/clients/typescript.md`: compiled and run by `typescript_library` |
//! | `json` | parses |
//! | `yaml` | is a valid definition file of a template, or a part of one |
//! | `toml` | is read as configuration |
//! | `console`, `text` | not run: they need a host of their own, or show output |

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use hotdesk::controller::config::Config;
use hotdesk::domain::error_code::ErrorCode;
use hotdesk::wire::template::validate_with_files;

use crate::clients::python;
use crate::floors::{root, rust_files};
use crate::harness::controller::{RunningController, gvisor, skip_reason};

/// A fenced block of a page.
pub struct Block {
    /// The word behind the fence.
    pub language: String,
    /// The last heading above it, without its hashes.
    heading: String,
    /// Its lines, each with its end.
    pub text: String,
}

/// The Markdown files that people read, as paths inside the repository.
fn pages() -> Vec<PathBuf> {
    fn below(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).expect("a folder of documents").flatten() {
            let path = entry.path();
            if path.is_dir() {
                below(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    let named = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"];
    let mut found: Vec<PathBuf> = named.map(|name| root().join(name)).to_vec();
    below(&root().join("docs"), &mut found);
    found.sort();
    found
}

fn read(page: &Path) -> String {
    fs::read_to_string(page).unwrap_or_else(|error| panic!("{}: {error}", page.display()))
}

/// The fenced blocks of a page, in order.
pub fn blocks(text: &str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let (mut heading, mut open) = (String::new(), false);
    for line in text.lines() {
        match (open, line.strip_prefix("```")) {
            (false, Some(language)) => {
                found.push(Block {
                    language: language.to_owned(),
                    heading: heading.clone(),
                    text: String::new(),
                });
                open = true;
            }
            (true, Some("")) => open = false,
            (true, _) => {
                if let Some(block) = found.last_mut() {
                    block.text.push_str(line);
                    block.text.push('\n');
                }
            }
            (false, None) if line.starts_with('#') => {
                line.trim_start_matches('#').trim().clone_into(&mut heading);
            }
            (false, None) => {}
        }
    }
    assert!(!open, "a fenced block is not closed");
    found
}

async fn output_of(mut command: Command) -> Output {
    tokio::task::spawn_blocking(move || command.output())
        .await
        .expect("no panic")
        .expect("the program starts")
}

/// Standard output of a program that has to succeed.
fn stdout_of(name: &str, output: &Output) -> String {
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{name}: {}\n{stdout}\n{stderr}", output.status);
    stdout.into_owned()
}

#[test]
fn every_json_sample_parses() {
    let mut count = 0;
    for page in pages() {
        for block in blocks(&read(&page)).iter().filter(|block| block.language == "json") {
            count += 1;
            if let Err(error) = serde_json::from_str::<serde_json::Value>(&block.text) {
                panic!("{}, \"{}\": {error}\n{}", page.display(), block.heading, block.text);
            }
        }
    }
    assert!(count > 5, "found only {count} samples");
}

#[test]
fn every_yaml_sample_is_a_valid_definition_file() {
    let mut count = 0;
    for page in pages() {
        for block in blocks(&read(&page)).iter().filter(|block| block.language == "yaml") {
            count += 1;
            // A part of a file has no API version.
            let is_whole = block.text.contains("api_version");
            let head = if is_whole { "" } else { "api_version: hotdesk/v1\nname: sample@1.0.0\n" };
            let files = Box::new(|_: &str| Ok("a file beside it".to_owned()));
            if let Err(errors) = validate_with_files(format!("{head}{}", block.text).as_bytes(), files) {
                panic!("{}, \"{}\": {errors:#?}\n{}", page.display(), block.heading, block.text);
            }
        }
    }
    assert!(count > 5, "found only {count} samples");
}

#[test]
fn every_toml_sample_is_a_configuration() {
    let mut count = 0;
    for page in pages() {
        for block in blocks(&read(&page)).iter().filter(|block| block.language == "toml") {
            count += 1;
            if let Err(error) = toml::from_str::<Config>(&block.text) {
                panic!("{}, \"{}\": {error}\n{}", page.display(), block.heading, block.text);
            }
        }
    }
    assert!(count > 3, "found only {count} samples");
}

#[test]
fn every_block_has_a_language_that_says_how_it_is_checked() {
    for page in pages() {
        for block in blocks(&read(&page)) {
            let known = ["bash", "python", "json", "yaml", "toml", "console", "text"];
            let is_program = block.language == "ts" && page.ends_with("docs/clients/typescript.md");
            assert!(
                is_program || known.contains(&block.language.as_str()),
                "{}: {:?}",
                page.display(),
                block.language
            );
        }
    }
}

/// The anchor that a heading gets: lower case, words joined by dashes, everything else dropped.
fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase().replace(' ', "-");
    kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect()
}

#[test]
fn every_link_between_pages_leads_somewhere() {
    let mut wrong = Vec::new();
    for page in pages() {
        let text = read(&page);
        for rest in text.split("](").skip(1) {
            let target = rest.split([')', ' ', '\n']).next().unwrap_or_default();
            if target.contains("://") || target.starts_with("mailto:") || target.is_empty() {
                continue;
            }
            let (file, fragment) = target.split_once('#').unwrap_or((target, ""));
            let path = match file {
                "" => page.clone(),
                file => page.parent().expect("a folder").join(file),
            };
            let is_there = path.exists();
            let has_anchor = fragment.is_empty()
                || path.extension().is_none_or(|extension| extension != "md")
                || (is_there
                    && read(&path).lines().any(|line| {
                        (line.starts_with('#') && anchor(line.trim_start_matches('#').trim()) == fragment)
                            || line.contains(&format!("id=\"{fragment}\""))
                    }));
            if !is_there || !has_anchor {
                wrong.push(format!("{}: {target}", page.strip_prefix(root()).expect("inside").display()));
            }
        }
    }
    assert!(wrong.is_empty(), "links that lead nowhere:\n{}", wrong.join("\n"));
}

/// The paths of this repository that a line has in code font. A pattern or a placeholder is none.
fn paths_in_code(line: &str) -> impl Iterator<Item = &str> {
    const FOLDERS: [&str; 6] = ["src/", "tests/", "packaging/", "benches/", "docs/", "xsession/"];
    let in_code = line.split('`').skip(1).step_by(2);
    in_code.filter(|text| {
        let is_plain = !text.contains([' ', '<', '*', '{', '…', '$']);
        is_plain && FOLDERS.iter().any(|folder| text.starts_with(folder))
    })
}

#[test]
fn every_path_in_code_font_exists() {
    assert!(paths_in_code("`src/a.rs`, `tests/<name>.rs` and `make`").eq(["src/a.rs"]));
    let comments = ["src", "tests", "benches"].map(|folder| rust_files(&root().join(folder))).concat();
    let is_comment = |line: &&str| line.trim_start().starts_with("//");
    let mut wrong = Vec::new();
    let mut check = |file: &Path, line: &str| {
        for path in paths_in_code(line) {
            if !root().join(path.split('#').next().unwrap_or_default()).exists() {
                wrong.push(format!("{}: {path}", file.strip_prefix(root()).expect("inside").display()));
            }
        }
    };
    for page in pages() {
        read(&page).lines().for_each(|line| check(&page, line));
    }
    for file in comments {
        read(&file).lines().filter(is_comment).for_each(|line| check(&file, line));
    }
    assert!(wrong.is_empty(), "paths that do not exist:\n{}", wrong.join("\n"));
}

#[test]
fn every_error_code_is_documented() {
    let page = read(&root().join("docs/api/errors.md"));
    let is_listed =
        |code: &str| page.lines().any(|line| line.starts_with('|') && line.contains(&format!("`{code}`")));
    let codes = ErrorCode::ALL.iter().map(|code| code.as_str());
    let missing: Vec<&str> = codes.filter(|code| !is_listed(code)).collect();
    assert!(missing.is_empty(), "docs/api/errors.md has no row for {missing:?}");
}

/// Runs the shell samples of pages against a controller; the errors.
async fn run_shell_samples(controller: &RunningController, pages: Vec<PathBuf>) -> Vec<String> {
    let program = Path::new(env!("CARGO_BIN_EXE_hotdesk"));
    let path = std::env::var("PATH").expect("a PATH");
    let path = format!("{}:{path}", program.parent().expect("a folder").display());
    let mut failures = Vec::new();
    for page in pages {
        let text = read(&page);
        let script: String = blocks(&text)
            .iter()
            .filter(|block| block.language == "bash")
            .map(|block| block.text.as_str())
            .collect();
        if script.is_empty() {
            continue;
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut shell = Command::new("bash");
        shell.args(["-euo", "pipefail", "-c", &script]).current_dir(folder.path());
        shell.env_clear().env("PATH", &path).env("HOME", folder.path()).env("LANG", "C.UTF-8");
        shell.env("HOTDESK_URL", controller.base()).env("HOTDESK_API_KEY", controller.key());
        let output = output_of(shell).await;
        if !output.status.success() {
            let (stdout, stderr) =
                (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            failures.push(format!("{}: {}\n{stdout}\n{stderr}", page.display(), output.status));
        }
    }
    failures
}

/// The page whose samples save memory.
fn page_with_memory() -> PathBuf {
    root().join("docs/lifecycle.md")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_shell_sample_runs() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let controller = RunningController::boot_with("[agent_accounts]\nenabled = true\n").await;
    let pages = pages().into_iter().filter(|page| *page != page_with_memory()).collect();
    let failures = run_shell_samples(&controller, pages).await;
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn shell_samples_that_save_memory_run_over_gvisor() {
    let Some(configuration) = gvisor() else { return };
    let controller = RunningController::boot_with(&configuration).await;
    let failures = run_shell_samples(&controller, vec![page_with_memory()]).await;
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_python_sample_runs() {
    let Some(python) = python() else { return };
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let controller = RunningController::boot().await;
    // Samples with arguments, and those of the library `hotdesk` (`python_library`).
    let others = ["docs/channels.md", "docs/clients/python.md"].map(|page| root().join(page));
    for page in pages().into_iter().filter(|page| !others.contains(page)) {
        let text = read(&page);
        for block in blocks(&text).iter().filter(|block| block.language == "python") {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let mut sample = Command::new(&python);
            // orgo_banner lets the client load on older Pythons.
            sample.arg("-c").arg(format!("import orgo_banner\n{}", block.text)).current_dir(folder.path());
            sample.env("PYTHONPATH", root().join("tests/python")).env("HOTDESK_URL", controller.base());
            sample.env("HOTDESK_API_KEY", controller.key()).env("ORGO_API_KEY", controller.key());
            stdout_of(&page.display().to_string(), &output_of(sample).await);
        }
    }
}

/// Runs the Python sample below a heading of `docs/channels.md`.
async fn run_channel_sample(python: &Path, folder: &Path, heading: &str, arguments: &[&str]) -> String {
    let page = read(&root().join("docs/channels.md"));
    let blocks = blocks(&page);
    let sample = blocks.iter().find(|block| block.language == "python" && block.heading == heading);
    let sample = sample.unwrap_or_else(|| panic!("no Python sample below \"{heading}\""));
    let mut client = Command::new(python);
    client.arg("-c").arg(&sample.text).args(arguments).current_dir(folder);
    stdout_of(heading, &output_of(client).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_heard_as_the_page_says() {
    let Some(python) = python() else { return };
    let Some((controller, _, id)) = RunningController::with_a_computer().await else { return };
    let answer = controller.get(&format!("/computers/{id}/vnc-password")).await;
    let password = answer.body["password"].as_str().expect("a password");
    let url = format!("ws://{}/desktops/{id}/ws/events?token={password}", controller.address());
    let folder = tempfile::tempdir().expect("a temporary folder");
    let arguments = [url.as_str()];
    let client = run_channel_sample(&python, folder.path(), "Events", &arguments);
    // The client ends with the first event, and does not say when it has subscribed: files are made until then.
    let causes = async {
        for number in 0.. {
            controller.bash(&id, &format!("touch ~/Desktop/file-{number}; sleep 0.2")).await;
        }
    };
    let output = tokio::select! {
        output = client => output,
        () = causes => unreachable!("files are made without end"),
    };
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!((lines.len(), lines[0]), (2, r#"{"type":"subscribed","message":"ok"}"#), "{output}");
    assert!(lines[1].starts_with(r#"{"type":"event","event":{"timestamp":""#), "{output}");
    assert!(lines[1].contains("/Desktop/file-"), "{output}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_terminal_and_the_sound_are_reached_as_the_page_says() {
    let Some(python) = python() else { return };
    let Some((controller, _, id)) = RunningController::with_a_computer().await else { return };
    let answer = controller.get(&format!("/computers/{id}/vnc-password")).await;
    let password = answer.body["password"].as_str().expect("a password").to_owned();
    let url = |channel| format!("ws://{}/desktops/{id}/ws/{channel}?token={password}", controller.address());
    let folder = tempfile::tempdir().expect("a temporary folder");

    let output = run_channel_sample(&python, folder.path(), "Terminal", &[&url("terminal")]).await;
    assert!(output.contains("Grüße aus /root/Desktop\r\n"), "{output}");
    assert!(output.ends_with("{'type': 'exit', 'code': 7}"), "{output}");

    let output = run_channel_sample(&python, folder.path(), "Audio", &[&url("audio")]).await;
    assert!(output.contains(r#"{"type":"started","sample_rate":24000,"channels":1}"#), "{output}");
    let bytes = fs::metadata(folder.path().join("heard.wav")).expect("the recording").len();
    // A WAV header, then 5 s of 16-bit samples.
    assert_eq!(bytes, 44 + 5 * 24_000 * 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_screen_is_reached_by_a_ticket_as_the_page_says() {
    let Some(python) = python() else { return };
    let Some((controller, _, id)) = RunningController::with_a_computer().await else { return };
    let computer = format!("{}/api/computers/{id}", controller.base());
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output =
        run_channel_sample(&python, folder.path(), "Screens and VNC", &[&computer, controller.key()]).await;
    assert!(output.contains("/view?screen=default#ticket="), "{output}");
    // 1280 by 720 pixels, and the screen's name at the end.
    assert!(output.contains(r"b'\x05\x00\x02\xd0") && output.ends_with("hotdesk'\n"), "{output}");
}
