//! Lists on terminals and in pipes, short ids, and questions before a delete.

use serde_json::{Value, json};

use super::person::Shell;
use super::stand_in::{StubServer, computer};
use super::{ID, KEY, OTHER, one_computer};
use crate::harness::simulation::Simulation;

#[tokio::test]
async fn a_terminal_shows_short_ids_in_80_columns_and_a_pipe_whole_ones() {
    let (server, shell) = one_computer().await;
    server.add_computers(&[computer(ID, "First Light", "demo"), computer(OTHER, "twin", "demo")]);
    let shown = shell.run_in_terminal("hotdesk computers list", "").await.expect_success();
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines.len(), 3, "{shown}");
    assert!(lines[1].starts_with("First Light ") && lines[1].trim_end().ends_with(" 11111111"), "{shown}");
    assert!(lines[2].starts_with("twin ") && lines[2].trim_end().ends_with(" 22222222"), "{shown}");
    assert!(lines[1..].iter().all(|line| line.chars().count() <= 80), "{shown}");

    let wide = shell.run_in_terminal("hotdesk computers list --wide", "").await.expect_success();
    assert!(wide.contains(ID) && wide.contains("INSTANCE") && wide.lines().count() == 3, "{wide}");
    let piped = shell.run(&["computers", "list"]).await.expect_success();
    assert!(piped.contains(ID) && piped.contains("INSTANCE") && piped.lines().count() == 3, "{piped}");
    let ids = format!("{ID}\n{OTHER}\n");
    assert_eq!(shell.run(&["computers", "list", "-q"]).await.expect_success(), ids);
    let quiet = shell.run_in_terminal("hotdesk computers list --quiet", "").await.expect_success();
    assert!(quiet.contains(ID) && quiet.contains(OTHER) && !quiet.contains("NAME"), "{quiet}");
    shell.run(&["computers", "list", "-q", "--json"]).await.expect_failure(2, &["--quiet", "--json"]);
    let record = shell.run_in_terminal(&format!("hotdesk computers get {ID}"), "").await.expect_success();
    assert!(record.contains(ID), "{record}");

    server.add_computers(&[]);
    assert_eq!(shell.run(&["computers", "list", "-q"]).await.expect_success(), "");
    assert_eq!(shell.run(&["computers", "list"]).await.expect_success(), "No computers match.\n");
}

#[tokio::test]
async fn an_ambiguous_beginning_of_an_id_lists_its_matches() {
    let server = StubServer::start().await;
    let twins = ["c1d2e3f4-0000-4000-8000-000000000001", "c1d2e3f4-0000-4000-8000-000000000002"];
    server.add_computers(&[computer(twins[0], "one", "demo"), computer(twins[1], "two", "demo")]);
    let shell = Shell::with_key(&server.url, KEY);
    let delete = async |wanted: &'static str| shell.run(&["computers", "delete", wanted]).await;
    delete("c1d2e3f4").await.expect_failure(1, &["ambiguous", "one", twins[0], "two", twins[1]]);
    // A name that is gone must not match the id of another computer.
    delete("c1").await.expect_failure(1, &["there is no computer"]);
    assert!(!server.lines().iter().any(|line| line.starts_with("DELETE")));
    shell.run(&["computers", "get", "c1d2e3f4-0000-4000-8000-000000000002"]).await.expect_success();
}

/// First characters of an id, as a terminal shows them.
fn short(record: &Value) -> String {
    record["id"].as_str().expect("an id")[..8].to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_short_id_is_accepted_wherever_a_name_is() {
    let controller = Simulation::boot().await;
    let shell = Shell::with_key(&controller.base, controller.key());
    let home = short(&json!({ "id": controller.workspace("home").await }));
    let other = short(&json!({ "id": controller.workspace("other").await }));
    let desk = short(&shell.run(&["computers", "create", "desk", "-w", &home, "--json"]).await.json());
    let snapshot =
        short(&shell.run(&["snapshots", "create", &desk, "first", "--memory", "--json"]).await.json());
    assert_eq!(shell.run(&["computers", "list", "-w", &home, "-q"]).await.expect_success()[..8], desk);
    assert_eq!(shell.run(&["snapshots", "list", &desk, "-q"]).await.expect_success()[..8], snapshot);
    shell.run(&["computers", "fork", &desk, "copy", "--snapshot", &snapshot]).await.expect_success();
    shell.run(&["computers", "move", "copy", &other]).await.expect_success();
    shell.run(&["snapshots", "delete", &desk, &snapshot]).await.expect_success();
    assert_eq!(shell.run(&["snapshots", "list", "desk", "-q"]).await.expect_success(), "");

    shell.run(&["api-keys", "create", "--name", "ci"]).await.expect_success();
    let keys = shell.run(&["api-keys", "list", "--json"]).await.json();
    let keys = keys["keys"].as_array().expect("a list");
    let key = short(keys.iter().find(|key| key["name"] == "ci").expect("the key"));
    shell.run(&["audit", "--key", &key]).await.expect_success();
    shell.run(&["api-keys", "delete", &key]).await.expect_success();
    shell.run(&["api-keys", "delete", "ci"]).await.expect_failure(1, &["there is no API key"]);

    let client = short(&shell.run(&["clients", "create", "acme", "--json"]).await.json());
    shell.run(&["clients", "usage", &client]).await.expect_success();
    shell.run(&["clients", "delete", &client]).await.expect_success();
    assert_eq!(shell.run(&["clients", "list", "-q"]).await.expect_success(), "");
    shell.run(&["workspaces", "delete", &other]).await.expect_success();
    assert_eq!(shell.run(&["workspaces", "list", "-q"]).await.expect_success()[..8], home);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delete_asks_on_a_terminal_and_only_there() {
    let controller = Simulation::boot().await;
    let home = controller.workspace("home").await;
    controller.computer(&home, "desk").await;
    let shell = Shell::with_key(&controller.base, controller.key());
    shell.run(&["snapshots", "create", "desk", "first"]).await.expect_success();
    shell.run(&["api-keys", "create", "--name", "ci"]).await.expect_success();
    shell.run(&["clients", "create", "acme"]).await.expect_success();
    for (command, question) in [
        ("snapshots delete desk first", "Delete snapshot first of desk? [y/N]"),
        ("computers delete desk", "Delete desk in home (running) and its disk? [y/N]"),
        ("workspaces delete home", "Delete workspace home with its files and "),
        ("api-keys delete ci", "Delete API key ci and close its connections? [y/N]"),
        ("clients delete acme", "Delete client acme with its workspace and API key? [y/N]"),
    ] {
        for answer in ["n\n", "\n"] {
            let refused = shell.run_in_terminal(&format!("hotdesk {command}"), answer).await;
            assert_eq!(refused.code, 1, "{refused:?}");
            assert!(
                refused.out.contains(question) && refused.out.contains("nothing was deleted"),
                "{refused:?}"
            );
        }
        let deleted = shell.run_in_terminal(&format!("hotdesk {command}"), "y\n").await.expect_success();
        assert!(deleted.contains(question) && deleted.contains("Deleted "), "{deleted}");
    }
    for command in ["hotdesk workspaces delete --yes again", "hotdesk workspaces delete -y again"] {
        shell.run(&["workspaces", "create", "again"]).await.expect_success();
        let deleted = shell.run_in_terminal(command, "").await.expect_success();
        assert!(!deleted.contains("[y/N]"), "{deleted}");
    }
    shell.run(&["workspaces", "create", "again"]).await.expect_success();
    assert_eq!(
        shell.run(&["workspaces", "delete", "again"]).await.expect_success(),
        "Deleted workspace again.\n"
    );
}
