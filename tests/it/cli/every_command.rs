//! Every command once, against a real controller with a real computer.

use serde_json::Value;

use super::person::Person;
use crate::harness::controller::{RunningController, no_computers_here};

const PNG: [u8; 8] = [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n'];

fn image_size(file: &std::path::Path) -> (u32, u32) {
    let content = std::fs::read(file).expect("an image");
    assert_eq!(content[..8], PNG, "a PNG");
    let side = |at: usize| u32::from_be_bytes(content[at..at + 4].try_into().expect("four bytes"));
    (side(16), side(20))
}

#[tokio::test]
async fn fleet_shell_and_files_work_on_a_real_computer() {
    if let Some(why) = no_computers_here() {
        return println!("{why}");
    }
    let house = RunningController::boot().await;
    let person = Person::new();
    let set = ["profile", "set", "here", "--url", house.base()];
    person.runs_with_input(&set, house.key()).await.well();
    let mut printed = String::new();

    printed += &person.runs(&["workspaces", "create", "demo"]).await.well();
    person.runs(&["workspaces", "create", "DEMO"]).await.badly(1, &["name", "request"]);
    let create = ["computers", "create", "first light", "--workspace", "demo", "--resolution", "800x600x24"];
    printed += &person.runs(&create).await.well();
    assert!(printed.contains("first light is running"), "{printed}");
    let got = person.runs(&["computers", "get", "first light", "--json"]).await.json();
    assert_eq!((&got["resolution"], &got["status"]), (&Value::from("800x600x24"), &Value::from("running")));
    let id = got["id"].as_str().expect("an id").to_owned();
    let instance = got["instance_id"].as_str().expect("an instance").to_owned();
    printed +=
        &person.runs(&["computers", "list", "--workspace", "Demo", "--status", "running"]).await.well();
    assert!(printed.contains(&id) && printed.contains(&instance), "{printed}");

    let ran = person.runs(&["bash", "first light", "echo out; echo err >&2; exit 7"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (7, "out\nerr\n"), "{ran:?}");
    let killed = person.runs(&["bash", "--timeout", "1", "first light", "sleep", "60"]).await;
    assert_eq!(killed.code, 124, "{killed:?}");

    std::fs::write(person.file("ä b.txt"), "Grüße").expect("a file");
    let sent = person.runs(&["cp", "ä b.txt", "first light:"]).await.well();
    assert_eq!(sent, "first light:/root/Desktop/ä b.txt\n");
    person.runs(&["cp", "ä b.txt", "first light:"]).await.badly(1, &["left alone"]);
    person.runs(&["cp", "ä b.txt", "first light:c.txt"]).await.well();
    person.runs(&["cp", "first light:~/Desktop/c.txt", "back.txt"]).await.well();
    assert_eq!(std::fs::read_to_string(person.file("back.txt")).expect("copied"), "Grüße");
    person.runs(&["cp", "first light:/etc/shadow", "."]).await.badly(1, &["request"]);

    let proved = person.runs(&["computers", "selftest", "first light"]).await.well();
    assert!(proved.contains("type") && proved.contains("first light works: "), "{proved}");
    printed += &proved;

    let before = person.runs(&["computers", "password", "first light"]).await.well();
    printed += &person.runs(&["computers", "restart", "first light"]).await.well();
    assert_ne!(person.runs(&["computers", "password", "first light"]).await.well(), before);
    printed += &person.runs(&["computers", "rename", "first light", "second"]).await.well();
    printed += &person.runs(&["computers", "stop", "second"]).await.well();
    std::fs::write(person.file("late.txt"), "late").expect("a file");
    assert!(person.runs(&["cp", "late.txt", "second:"]).await.well().contains("when that starts"));
    printed += &person.runs(&["computers", "start", "second"]).await.well();
    assert_eq!(person.runs(&["bash", "second", "cat", "Desktop/late.txt"]).await.well(), "late");
    printed += &person.runs(&["computers", "delete", "second"]).await.well();
    person.runs(&["computers", "get", &id]).await.badly(1, &["request"]);
    printed += &person.runs(&["workspaces", "delete", "demo"]).await.well();
    printed += &person.runs(&["workspaces", "list"]).await.well();
    assert!(printed.contains("There are no workspaces"), "{printed}");
    assert!(!printed.contains(house.key()));
}

#[tokio::test]
async fn screens_pointer_and_keyboard_work_on_a_real_computer() {
    if let Some(why) = no_computers_here() {
        return println!("{why}");
    }
    let house = RunningController::boot().await;
    let person = Person::knowing(house.base(), house.key());
    person.runs(&["workspaces", "create", "demo"]).await.well();
    let create =
        ["computers", "create", "first light", "--workspace", "demo", "--resolution", "800x600x24", "--json"];
    let made = person.runs(&create).await.json();
    let id = made["id"].as_str().expect("an id").to_owned();
    let instance = made["instance_id"].as_str().expect("an instance").to_owned();

    person.runs(&["screenshot", "first light", "-o", "shot.png"]).await.well();
    assert_eq!(image_size(&person.file("shot.png")), (800, 600));
    person.runs(&["screenshot", &id, "-o", "half.png", "--scale", "0.5"]).await.well();
    assert_eq!(image_size(&person.file("half.png")), (400, 300));
    person.runs(&["screenshot", &instance, "-o", "shot.jpg"]).await.well();
    assert_eq!(std::fs::read(person.file("shot.jpg")).expect("an image")[..2], [0xff, 0xd8]);
    assert_eq!(person.runs(&["screenshot", &id, "--json"]).await.json()["mime_type"], "image/png");
    person.runs(&["click", "first light", "400", "300", "--double"]).await.well();
    person.runs(&["type", "first light", "ü"]).await.well();
    person.runs(&["key", "first light", "Escape"]).await.well();
    person.runs(&["click", "first light", "5000", "1"]).await.badly(1, &["request"]);
}
