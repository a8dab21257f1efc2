//! Programs of the full guest image, as a person meets them on the desktop.

use std::time::Duration;

use hotdesk::base::wait;
use serde_json::json;

use crate::harness::controller::RunningController;

/// Three files on the desktop. The file manager shows them by name, one below the other.
const FILES: &str = r#"cd /root/Desktop && python3 - <<'END'
import zipfile
from PIL import Image
zipfile.ZipFile("a.zip", "w").writestr("inside.txt", "text")
Image.new("RGB", (200, 100), "blue").save("b.pdf")
Image.new("RGB", (200, 100), "red").save("c.png")
END"#;
/// Middle of the first icon, and the distance to the next one, in pixels.
const ICON: (i32, i32) = (60, 33);
const ICON_DISTANCE: i32 = 100;
/// A viewer starts within seconds; a busy machine needs longer.
const TIMEOUT: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn documents_pictures_and_archives_open_by_a_double_click() {
    let Some(controller) = RunningController::boot_full().await else { return };
    let workspace = controller.workspace("files").await;
    let computer = controller.computer(&workspace, "desk").await;
    let id = computer["id"].as_str().expect("an id").to_owned();
    controller.bash(&id, FILES).await;
    for (place, (file, program)) in
        (0..).zip([("a.zip", "file-roller"), ("b.pdf", "evince"), ("c.png", "gpicview")])
    {
        let position = json!({"x": ICON.0, "y": ICON.1 + place * ICON_DISTANCE, "double": true});
        // The file manager may not have painted the icon yet.
        let opened = wait::until(TIMEOUT, || async {
            controller.act(&id, "click", position.clone()).await;
            let shown = format!("for i in $(seq 50); do wmctrl -lp | grep {file} && exit; sleep 0.1; done");
            let window = controller.bash(&id, &shown).await;
            (!window.is_empty()).then_some(window)
        });
        let window = opened.await.unwrap_or_else(|| panic!("{file} opens no window"));
        let pid = window.split_whitespace().nth(2).expect("the window's process");
        let command = controller.bash(&id, &format!("tr '\\0' ' ' </proc/{pid}/cmdline")).await;
        assert!(command.contains(program), "{file} was opened by {command}");
        // A repeated click opens a second window, maybe later.
        let close = format!(
            "while wmctrl -lp | grep {file}; do wmctrl -lp | awk '/{file}/ {{print $3}}' | xargs -r kill; sleep 0.1; done"
        );
        controller.bash(&id, &close).await;
    }
    let tools = controller
        .bash(
            &id,
            "cd /tmp; echo 'int main(){return 7;}' >t.c; gcc t.c -o t; ./t; echo $?; \
        uv --version; rg --version; tmux -V; htop --version",
        )
        .await;
    assert!(tools.starts_with("7\nuv ") && tools.contains("ripgrep") && tools.contains("tmux"), "{tools}");
}
