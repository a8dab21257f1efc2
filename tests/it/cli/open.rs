//! `hotdesk open`: the link, the browser, and the privacy of the link's token.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use hotdesk::base::wait;

use super::person::Shell;
use crate::harness::browser::Browser;
use crate::harness::simulation::Simulation;

/// Longest time until the opener has run, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);

/// An opener that records its argument, and the mode and content of the file that it should open.
const OPENER: &str =
    "#!/bin/sh\necho \"$1\" >argument\nstat -c %a \"$1\" >mode\ncat \"$1\" >page.part\nmv page.part page\n";

/// The token in a text that contains a link.
fn token(text: &str) -> &str {
    let (_, rest) = text.split_once("/sign-in/link#token=").unwrap_or_else(|| panic!("no link in {text}"));
    rest.split(|c: char| !c.is_ascii_alphanumeric()).next().expect("a token")
}

#[tokio::test(flavor = "multi_thread")]
async fn open_makes_a_link_and_shows_it_to_the_browser_alone() {
    let controller = Simulation::boot().await;
    let home = controller.workspace("home").await;
    controller.computer(&home, "desk").await;
    let shell = Shell::with_key(&controller.base, controller.key());
    let browser = Browser::new(&controller.base);

    let link = shell.run(&["open", "--print"]).await.expect_success();
    assert_eq!(link, format!("{}/sign-in/link#token={}\n", controller.base, token(&link)));
    let entered = browser.send("/sign-in/link", &[("token", token(&link)), ("sure", "true")]).await;
    assert_eq!(entered.location(), "/console", "{}", entered.text);
    let json = shell.run(&["open", "desk", "--json"]).await.json();
    assert!(json["url"].is_string() && json["expires_at"].is_string(), "{json}");
    let without_desktop = shell.run(&["open", "desk"]).await.expect_success();
    assert!(
        without_desktop.starts_with("No browser was opened: there is no desktop session"),
        "{without_desktop}"
    );
    shell.run(&["open", "nobody"]).await.expect_failure(1, &["there is no computer \"nobody\""]);

    let (opener, runtime) = (shell.file("xdg-open"), shell.file("runtime"));
    std::fs::write(&opener, OPENER).expect("written");
    std::fs::set_permissions(&opener, PermissionsExt::from_mode(0o755)).expect("executable");
    std::fs::create_dir(&runtime).expect("a folder");
    let path = format!("{}:/usr/bin:/bin", shell.home().display());
    let shell = shell.env("PATH", &path).env("DISPLAY", ":0");
    let shell = shell.env("XDG_RUNTIME_DIR", runtime.to_str().expect("UTF-8"));
    let printed = shell.run(&["open", "desk"]).await.expect_success();
    assert!(printed.starts_with("Opening a browser with this link. It works once, until "), "{printed}");
    let page = shell.file("page");
    let opened = wait::until(TIMEOUT, || std::future::ready(page.exists().then_some(()))).await;
    assert!(opened.is_some(), "the opener must run");
    let read = |name: &str| std::fs::read_to_string(shell.file(name)).expect("the opener wrote it");
    assert_eq!(token(&read("page")), token(&printed), "the file leads to the link");
    assert!(!read("argument").contains(token(&printed)), "other users see arguments: {}", read("argument"));
    assert_eq!(read("mode"), "600\n");
    let entered = browser.send("/sign-in/link", &[("token", token(&printed)), ("sure", "true")]).await;
    assert!(entered.location().ends_with("/view"), "{entered:?}");

    // `BROWSER` comes first, and needs no desktop session.
    let named = Shell::with_key(&controller.base, controller.key());
    let named = named.env("BROWSER", &format!("{} %s:w3m", opener.display()));
    let named = named.env("XDG_RUNTIME_DIR", runtime.to_str().expect("UTF-8"));
    let printed = named.run(&["open", "desk"]).await.expect_success();
    let page = named.file("page");
    let opened = wait::until(TIMEOUT, || std::future::ready(page.exists().then_some(()))).await;
    assert!(opened.is_some(), "the browser must run");
    assert_eq!(token(&std::fs::read_to_string(page).expect("a page")), token(&printed));
}
