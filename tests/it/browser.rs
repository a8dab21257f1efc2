//! Browser of the full guest image: its user, its own sandbox, and where it saves (T27, docs/security.md).

use std::time::Duration;

use hotdesk::base::wait;
use serde_json::json;

use crate::harness::caller::id_of;
use crate::harness::controller::{RunningController, gvisor};

/// Longest time of a browser's first start, on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(90);

/// A page, and a server in the guest whose file the browser saves because it cannot show it.
const SITE: &str = "echo '<title>Page</title><button>Push</button>' >/root/page.html; mkdir /tmp/site && cd /tmp/site && \
    head -c 4096 /dev/urandom >data.bin && \
    (setsid python3 -m http.server 8009 --bind 127.0.0.1 >/dev/null 2>&1 </dev/null &)";
/// Prints nothing until the saved file is complete; then its owner.
const SAVED: &str = "cd /root/Downloads && cmp -s data.bin /tmp/site/data.bin && stat -c %U data.bin";
/// Prints the users of the browser's processes, whether they can read the agent's token, and whether renderers have namespaces of
/// their own for processes and networks, which the browser's sandbox makes.
const PROCESSES: &str = r#"
ps -o user= -C chromium | sort -u
setpriv --reuid=browser --regid=browser --init-groups cat /run/hotdesk/token >/dev/null 2>&1 || echo no token
first=$(pgrep -o -x chromium)
for pid in $(pgrep -f -- '--type=[r]enderer'); do
    for kind in pid net; do
        if [ "$(readlink "/proc/$pid/ns/$kind")" = "$(readlink "/proc/$first/ns/$kind")" ]; then echo "shared $kind"; else echo "own $kind"; fi
    done
done | sort -u"#;

/// Opens a page in the browser, reads and clicks it, saves a file; returns what [`PROCESSES`] prints.
async fn browse(controller: &RunningController) -> String {
    let workspace = controller.workspace("demo").await;
    let id = id_of(&controller.computer(&workspace, "desk").await);
    controller.bash(&id, SITE).await;
    let page = json!({"url": "file:///root/page.html", "wait_seconds": 60});
    let opened = controller.act(&id, "launch", page).await;
    assert_eq!(opened.body["window"]["class"], json!("Chromium"), "{}", opened.body);
    let button = wait::until(START_TIMEOUT, || async {
        let list = controller.get(&format!("/computers/{id}/elements?role=button&name=push")).await;
        Some(list.body["elements"][0].clone()).filter(|it| it.is_object())
    });
    let button = button.await.expect("the elements of a page whose browser is another user's");
    assert_eq!(button["pid"], opened.body["window"]["pid"], "{button}");
    let processes = controller.bash(&id, PROCESSES).await;
    let file = json!({"url": "http://127.0.0.1:8009/data.bin", "wait_seconds": 0});
    controller.act(&id, "launch", file).await;
    let saved = wait::until(START_TIMEOUT, || async {
        Some(controller.bash(&id, SAVED).await).filter(|owner| !owner.is_empty())
    });
    assert_eq!(saved.await.as_deref(), Some("browser\n"), "the file is where people look for it");
    processes
}

#[tokio::test(flavor = "multi_thread")]
async fn t27_the_browser_is_not_root_and_saves_where_people_look() {
    let Some(controller) = RunningController::boot_full().await else { return };
    // Containers have no nested namespaces, without which the browser has no sandbox of its own.
    assert_eq!(browse(&controller).await, "browser\nno token\nshared net\nshared pid\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn t27_a_browser_over_gvisor_has_its_own_sandbox_too() {
    let Some(configuration) = gvisor() else { return };
    let Some(controller) = RunningController::boot_full_with(&configuration).await else { return };
    assert_eq!(browse(&controller).await, "browser\nno token\nown net\nown pid\n");
}
