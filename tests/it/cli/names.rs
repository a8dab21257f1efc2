//! Names of the commands: short forms, suggestions for words of other programs, and their list in the documentation.

use serde_json::json;

use super::person::Shell;
use super::{ID, one_computer};
use crate::floors::root;

#[tokio::test]
async fn short_forms_do_the_same_as_the_long_ones() {
    let (server, shell) = one_computer().await;
    let listed = shell.run(&["ls"]).await.expect_success();
    assert!(listed.contains("First Light"), "{listed}");
    assert_eq!(shell.run(&["computers", "list"]).await.expect_success(), listed);
    assert_eq!(shell.run(&["ls", "--json"]).await.json()["total"], 1);
    server.respond(&format!("GET /api/computers/{ID}/vnc-password"), 200, json!({"password": "pw"}));
    assert_eq!(shell.run(&["password", "first light"]).await.expect_success(), "pw\n");
    server.respond(&format!("DELETE /api/computers/{ID}"), 200, json!({"success": true}));
    assert_eq!(shell.run(&["rm", "first light"]).await.expect_success(), "Deleted first light.\n");
    assert_eq!(shell.run(&["computers", "rm", ID]).await.expect_success(), format!("Deleted {ID}.\n"));
    assert_eq!(server.lines().iter().filter(|line| line.starts_with("DELETE")).count(), 2);
}

#[tokio::test]
async fn words_of_other_programs_get_a_suggestion() {
    let shell = Shell::new();
    for (line, expected) in [
        (&["exec", "c1", "ls"][..], "'bash'"),
        (&["stop", "c1"], "'computers stop'"),
        (&["list"], "'ls'"),
        (&["computers", "inspect", "c1"], "'get'"),
        (&["--json", "workspaces", "rm", "w"], "'delete'"),
        (&["screenshoot"], "'screenshot'"),
        (&["screens", "c1"], "'list c1'"),
    ] {
        shell.run(line).await.expect_failure(2, &["unrecognized subcommand", expected]);
    }
}

#[tokio::test]
async fn the_page_lists_every_command() {
    let help = Shell::new().run(&["help"]).await.expect_success();
    let (_, commands) = help.split_once("Commands:\n").expect("a list of commands");
    let (commands, _) = commands.split_once("\n\n").expect("an end of the list");
    // A command has two spaces before it; its wrapped description has more.
    let names = commands.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names: Vec<&str> = names.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.len() > 30, "{names:?}");
    let page = std::fs::read_to_string(root().join("docs/cli.md")).expect("the page");
    let is_listed = |name: &str| {
        let rows = page.lines().filter(|line| line.starts_with('|'));
        let mut words = rows.flat_map(|row| row.split('`').skip(1).step_by(2));
        words.any(|word| word.split(' ').next() == Some(name))
    };
    let missing: Vec<&str> = names.into_iter().filter(|name| *name != "help" && !is_listed(name)).collect();
    assert!(missing.is_empty(), "docs/cli.md has no row for {missing:?}");
}
