//! Every command once against a real controller with a real computer.

use serde_json::Value;

use super::person::Shell;
use crate::harness::controller::{RunningController, skip_reason};

const PNG: [u8; 8] = [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n'];

fn image_size(file: &std::path::Path) -> (u32, u32) {
    let content = std::fs::read(file).expect("an image");
    assert_eq!(content[..8], PNG, "a PNG");
    let side = |at: usize| u32::from_be_bytes(content[at..at + 4].try_into().expect("four bytes"));
    (side(16), side(20))
}

#[tokio::test]
async fn fleet_shell_and_files_work_on_a_real_computer() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let controller = RunningController::boot().await;
    let shell = Shell::new();
    let set = ["profile", "set", "here", "--url", controller.base()];
    shell.run_with_input(&set, controller.key()).await.expect_success();
    let mut printed = String::new();

    printed += &shell.run(&["workspaces", "create", "demo"]).await.expect_success();
    shell.run(&["workspaces", "create", "DEMO"]).await.expect_failure(1, &["name", "request"]);
    let isolated = shell.run(&["workspaces", "isolate", "demo", "shared"]).await.expect_success();
    assert_eq!(isolated, "New computers of demo have isolation: shared.\n");
    shell.run(&["workspaces", "isolate", "demo", "glass"]).await.expect_failure(1, &["isolation", "request"]);
    let isolated = shell.run(&["workspaces", "isolate", "demo", "default"]).await.expect_success();
    assert_eq!(isolated, "New computers of demo have isolation: the default of the service.\n");
    let create = ["computers", "create", "first light", "--workspace", "demo", "--resolution", "800x600x24"];
    printed += &shell.run(&create).await.expect_success();
    assert!(printed.contains("first light is running"), "{printed}");
    let record = shell.run(&["computers", "get", "first light", "--json"]).await.json();
    assert_eq!(
        (&record["resolution"], &record["status"]),
        (&Value::from("800x600x24"), &Value::from("running"))
    );
    let id = record["id"].as_str().expect("an id").to_owned();
    let instance = record["instance_id"].as_str().expect("an instance").to_owned();
    printed += &shell
        .run(&["computers", "list", "--workspace", "Demo", "--status", "running"])
        .await
        .expect_success();
    assert!(printed.contains(&id) && printed.contains(&instance), "{printed}");

    let result = shell.run(&["bash", "first light", "echo out; echo err >&2; exit 7"]).await;
    assert_eq!((result.code, &*result.out, &*result.err), (7, "out\n", "err\n"), "{result:?}");
    let killed = shell.run(&["bash", "--timeout", "1", "first light", "sleep", "60"]).await;
    assert_eq!(killed.code, 124, "{killed:?}");

    std::fs::write(shell.file("ä b.txt"), "Grüße").expect("a file");
    let sent = shell.run(&["cp", "ä b.txt", "first light:"]).await.expect_success();
    assert_eq!(sent, "first light:/root/Desktop/ä b.txt\n");
    shell.run(&["cp", "ä b.txt", "first light:c.txt"]).await.expect_success();
    shell.run(&["cp", "first light:~/c.txt", "back.txt"]).await.expect_success();
    assert_eq!(std::fs::read_to_string(shell.file("back.txt")).expect("copied"), "Grüße");

    let report = shell.run(&["computers", "selftest", "first light"]).await.expect_success();
    assert!(report.contains("type") && report.contains("first light works: "), "{report}");
    printed += &report;

    let before = shell.run(&["computers", "password", "first light"]).await.expect_success();
    printed += &shell.run(&["computers", "restart", "first light"]).await.expect_success();
    assert_ne!(shell.run(&["computers", "password", "first light"]).await.expect_success(), before);
    printed += &shell.run(&["computers", "rename", "first light", "second"]).await.expect_success();
    printed += &shell.run(&["computers", "stop", "second"]).await.expect_success();
    std::fs::write(shell.file("late.txt"), "late").expect("a file");
    shell.run(&["cp", "late.txt", "second:"]).await.expect_failure(1, &["not running"]);
    shell.run(&["bash", "second", "true"]).await.expect_failure(255, &["not running"]);
    printed += &shell.run(&["computers", "start", "second"]).await.expect_success();
    shell.run(&["cp", "late.txt", "second:"]).await.expect_success();
    assert_eq!(shell.run(&["bash", "second", "cat", "Desktop/late.txt"]).await.expect_success(), "late");
    printed += &shell.run(&["computers", "delete", "second"]).await.expect_success();
    shell.run(&["computers", "get", &id]).await.expect_failure(1, &["request"]);
    printed += &shell.run(&["workspaces", "delete", "demo"]).await.expect_success();
    printed += &shell.run(&["workspaces", "list"]).await.expect_success();
    assert!(printed.contains("There are no workspaces"), "{printed}");
    assert!(!printed.contains(controller.key()));
}

#[tokio::test]
async fn screens_pointer_and_keyboard_work_on_a_real_computer() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let controller = RunningController::boot().await;
    let shell = Shell::with_key(controller.base(), controller.key());
    shell.run(&["workspaces", "create", "demo"]).await.expect_success();
    let create =
        ["computers", "create", "first light", "--workspace", "demo", "--resolution", "800x600x24", "--json"];
    let created = shell.run(&create).await.json();
    let id = created["id"].as_str().expect("an id").to_owned();
    let instance = created["instance_id"].as_str().expect("an instance").to_owned();

    shell.run(&["screenshot", "first light", "-o", "shot.png"]).await.expect_success();
    assert_eq!(image_size(&shell.file("shot.png")), (800, 600));
    shell.run(&["screenshot", &id, "-o", "half.png", "--scale", "0.5"]).await.expect_success();
    assert_eq!(image_size(&shell.file("half.png")), (400, 300));
    shell.run(&["screenshot", &instance, "-o", "shot.jpg"]).await.expect_success();
    assert_eq!(std::fs::read(shell.file("shot.jpg")).expect("an image")[..2], [0xff, 0xd8]);
    shell.run(&["screenshot", &id[..8], "-o", "shot.webp"]).await.expect_success();
    assert_eq!(&std::fs::read(shell.file("shot.webp")).expect("an image")[8..12], b"WEBP");
    shell.run(&["screenshot", &id, "-o", "really.webp", "--format", "png"]).await.expect_success();
    assert_eq!(image_size(&shell.file("really.webp")), (800, 600));
    assert_eq!(shell.run(&["screenshot", &id, "--json"]).await.json()["mime_type"], "image/png");
    shell.run(&["click", "first light", "400", "300", "--double"]).await.expect_success();
    shell.run(&["type", "first light", "ü"]).await.expect_success();
    shell.run(&["key", "first light", "Escape"]).await.expect_success();
    shell.run(&["click", "first light", "5000", "1"]).await.expect_failure(1, &["request"]);
}
