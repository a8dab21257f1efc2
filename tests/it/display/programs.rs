//! Launched programs: their screen, their environment, their window and their end.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hotdesk::agent::display::ScreenSession;
use hotdesk::base::wait;
use serde_json::{Value, json};

use super::fixture::{DisplayFixture, TIMEOUT, processes_of};
use super::windows::boot_with_window_manager;
use crate::harness::capability::Capability;

fn write_script(folder: &Path, name: &str, text: &str) -> PathBuf {
    let file = folder.join(name);
    std::fs::write(&file, format!("#!/bin/sh\n{text}\n")).expect("a script");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).expect("the mode is set");
    file
}

async fn read_when_written(file: &Path) -> String {
    let read = || async { std::fs::read_to_string(file).ok().filter(|text| text.ends_with('\n')) };
    wait::until(TIMEOUT, read).await.unwrap_or_else(|| panic!("{} was not written", file.display()))
}

fn alive(pid: &Value) -> bool {
    crate::harness::agent::alive(&pid.to_string())
}

#[tokio::test]
async fn a_program_starts_on_its_screen_with_the_session_s_environment() {
    let fixture = DisplayFixture::bare(320, 240).await;
    fixture.ok("POST", "/screens", Value::Null).await;
    let folder = fixture.home().join("a folder");
    std::fs::create_dir(&folder).expect("a folder");
    let command = "echo \"$PWD $DISPLAY $WORD $HOME\" > \"$HOME/note\"";
    let request = json!({"command": command, "cwd": "a folder", "env": {"WORD": "hi"}, "wait_seconds": 0});
    let launched = fixture.ok("POST", "/launch?screen=screen-100", request).await;
    assert_eq!((launched["window"].clone(), launched["pid"].is_u64()), (Value::Null, true));
    let home = fixture.home().to_string_lossy().into_owned();
    let display = format!(":{}", fixture.claim.base + 1);
    assert_eq!(
        read_when_written(&fixture.home().join("note")).await,
        format!("{home}/a folder {display} hi {home}\n")
    );
    fixture.close().await;
}

#[tokio::test]
async fn the_window_is_found_whoever_of_the_program_opens_it() {
    let Some(fixture) = boot_with_window_manager().await else { return };
    let home = fixture.home().to_owned();
    // A window that a shell opens by itself.
    let launched = fixture
        .ok("POST", "/launch", json!({"command": "xterm -T plain -e sleep 1000", "wait_seconds": 30}))
        .await;
    assert_eq!(
        (&launched["window"]["title"], &launched["window"]["pid"]),
        (&json!("plain"), &launched["pid"])
    );
    // A window of a daemon, while the launched program ends at once with success.
    let daemon = write_script(
        &home,
        "daemon",
        "(setsid sh -c 'sleep 0.3; exec xterm -T daemon -class Other -e sleep 1000' &)",
    );
    let launched = fixture.ok("POST", "/launch", json!({"argv": [daemon], "wait_seconds": 30})).await;
    assert_eq!(launched["window"]["title"], "daemon", "{launched}");
    assert!(launched.get("exit_code").is_none(), "{launched}");
    // A program that already runs opens the window on request, as browsers do.
    let pipe = home.join("pipe");
    let first_instance = write_script(
        &home,
        "waiter",
        "mkfifo pipe.new && mv pipe.new pipe && cat pipe && exec xterm -T handed -class Notes -e sleep 1000",
    );
    fixture.ok("POST", "/launch", json!({"argv": [first_instance], "wait_seconds": 0})).await;
    wait::until(TIMEOUT, || async { pipe.exists().then_some(()) }).await.expect("the pipe");
    let second_instance = write_script(&home, "notes", "echo > pipe");
    let launched =
        fixture.ok("POST", "/launch", json!({"argv": [second_instance], "wait_seconds": 30})).await;
    assert_eq!(launched["window"]["title"], "handed", "{launched}");
    // Windows of other programs do not count.
    let request = json!({"argv": ["sleep", "1000"], "wait_seconds": 0.5});
    let other = fixture.call("POST", "/launch", json!({"argv": ["xterm", "-e", "sleep", "1000"]}));
    let (launched, _) = tokio::join!(fixture.ok("POST", "/launch", request), other);
    assert_eq!(launched["window"], Value::Null);
    assert!(alive(&launched["pid"]), "{launched}");
    fixture.close().await;
}

#[tokio::test]
async fn what_does_not_start_or_ends_at_once_is_told() {
    let fixture = DisplayFixture::bare(320, 240).await;
    let not_a_program = fixture.home().join("text");
    std::fs::write(&not_a_program, "text").expect("a file");
    for bad in [
        json!({"argv": ["no-such-program-here"]}),
        json!({"argv": ["/no/such/program"], "wait_seconds": 0}),
        json!({"argv": [not_a_program]}),
        json!({"command": "no-such-program-here --now"}),
        json!({"argv": ["true"], "cwd": "no/such/folder"}),
        json!({"argv": ["true"], "command": "true"}),
        json!({"argv": ["true"], "wait_seconds": 61}),
        json!({"argv": ["true"], "env": {"A=B": "1"}}),
        json!({"url": "javascript:alert(1)"}),
        json!({}),
    ] {
        fixture.fails("POST", "/launch", bad, 400).await;
    }
    for (command, code) in [("exit 3", 3), ("kill -TERM $$", 143)] {
        let started = Instant::now();
        let launched = fixture.ok("POST", "/launch", json!({"command": command, "wait_seconds": 30})).await;
        assert_eq!((&launched["window"], &launched["exit_code"]), (&Value::Null, &json!(code)), "{launched}");
        assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    }
    // A program that succeeded may have asked another one to open a window, so the agent waits briefly.
    let started = Instant::now();
    let launched = fixture.ok("POST", "/launch", json!({"argv": ["true"], "wait_seconds": 60})).await;
    assert_eq!(launched["exit_code"], 0, "{launched}");
    assert!(started.elapsed() < Duration::from_secs(40), "{:?}", started.elapsed());
    fixture.fails("POST", "/launch?screen=nosuch", json!({"argv": ["true"]}), 404).await;
    fixture.close().await;
}

#[tokio::test]
async fn a_url_opens_in_a_new_window_of_the_browser_that_is_there() {
    let Some(fixture) = boot_with_window_manager().await else { return };
    let folder = fixture.home().join("bin");
    std::fs::create_dir(&folder).expect("a folder");
    let url = "https://example.com/?q=$(id)&b='x'";
    let path = folder.to_string_lossy().into_owned();
    let request = json!({"url": url, "env": {"PATH": path}, "wait_seconds": 30});
    let (status, answer) = fixture.call("POST", "/launch", request.clone()).await;
    assert_eq!((status.as_u16(), &answer["code"]), (409, &json!("no_browser")), "{answer}");
    write_script(&folder, "x-www-browser", "exec /usr/bin/xterm -T \"other $*\" -e /bin/sleep 1000");
    let launched = fixture.ok("POST", "/launch", request.clone()).await;
    assert_eq!(launched["window"]["title"], format!("other {url}"));
    write_script(&folder, "chromium", "exec /usr/bin/xterm -T \"$*\" -e /bin/sleep 1000");
    let launched = fixture.ok("POST", "/launch", request).await;
    assert_eq!(launched["window"]["title"], format!("--new-window {url}"));
    fixture.close().await;
}

#[tokio::test]
async fn a_program_outlives_its_request_and_ends_with_its_screen() {
    let fixture = DisplayFixture::with_session(320, 240, ScreenSession::None).await;
    fixture.ok("POST", "/screens", Value::Null).await;
    let display = format!(":{}", fixture.claim.base + 1);
    // The client disconnects during the wait for a window.
    let request = json!({"command": "setsid sleep 1000 & trap '' TERM HUP; sleep 1000", "wait_seconds": 60});
    let call = fixture.call("POST", "/launch?screen=screen-100", request);
    // The shell or its replacement, the process that left the session, and the X server.
    let all_running = || processes_of(&display).len() >= 3;
    let begun = wait::until(TIMEOUT, || async { all_running().then_some(()) });
    tokio::select! {
        begun = begun => begun.expect("the program runs"),
        answer = call => panic!("answered before the program was seen: {answer:?}"),
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(all_running(), "only {:?} run", processes_of(&display));
    fixture.ok("DELETE", "/screens/screen-100", Value::Null).await;
    let gone = || async { processes_of(&display).is_empty().then_some(()) };
    wait::until(TIMEOUT, gone).await.expect("every process of the screen must end");
    fixture.close().await;
}

#[tokio::test]
async fn a_gtk_program_is_found_pasted_into_and_closed() {
    let Some(fixture) = boot_with_window_manager().await else { return };
    let code = "import gi; gi.require_version('Gtk', '3.0'); from gi.repository import Gtk";
    let has_gtk = std::process::Command::new("/usr/bin/python3")
        .args(["-c", code])
        .status()
        .is_ok_and(|status| status.success());
    if !has_gtk {
        return Capability::Toolkits.skip("GTK 3 for Python is not installed");
    }
    let program = format!(
        "{code}, Gdk\nwindow = Gtk.Window(title='Paste here')\nentry = Gtk.Entry()\nwindow.add(entry)\n\
        entry.connect('changed', lambda entry: open('got', 'w').write(entry.get_text() + '\\n'))\n\
        window.connect('destroy', Gtk.main_quit)\nwindow.show_all()\nentry.grab_focus()\nGtk.main()\n"
    );
    std::fs::write(fixture.home().join("entry.py"), program).expect("a program");
    let launched = fixture
        .ok("POST", "/launch", json!({"argv": ["/usr/bin/python3", "entry.py"], "wait_seconds": 30}))
        .await;
    assert_eq!(launched["window"]["title"], "Paste here", "{launched}");
    let path = format!("/windows/{}", launched["window"]["id"].as_str().expect("an id"));
    assert_eq!(fixture.ok("POST", &format!("{path}/focus"), Value::Null).await["focused"], true);
    let text = "grüße € 漢字 😀".to_owned();
    let content = hotdesk::agent::display::ClipboardItem::Text(text.clone());
    let boot = fixture.boot();
    let selection = hotdesk::agent::display::Selection::Clipboard;
    let mut loan = boot.clipboard_set_temporarily(selection, content).await.expect("a loan");
    let before = loan.fetches();
    fixture.ok("POST", "/key", json!({"key": "ctrl+v"})).await;
    assert!(loan.wait_for_fetch_after(before, TIMEOUT).await, "the program must fetch the pasted text");
    assert!(boot.clipboard_restore(loan).await.expect("an answer"));
    assert_eq!(read_when_written(&fixture.home().join("got")).await, format!("{text}\n"));
    // A copy in the other direction.
    fixture.ok("POST", "/key", json!({"key": "ctrl+a"})).await;
    fixture.ok("POST", "/key", json!({"key": "ctrl+c"})).await;
    let copied = || async {
        let observed = fixture.ok("GET", "/clipboard", Value::Null).await;
        (observed["text"] == text.as_str()).then_some(())
    };
    wait::until(TIMEOUT, copied).await.expect("the copied text must arrive");
    assert_eq!(fixture.ok("POST", &format!("{path}/close"), Value::Null).await, json!({"closed": true}));
    fixture.close().await;
}
