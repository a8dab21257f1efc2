//! Completion scripts and manual pages.

use serde_json::json;

use super::person::Shell;
use super::{ID, OTHER, one_computer};
use crate::harness::simulation::Simulation;

#[tokio::test(flavor = "multi_thread")]
async fn shells_complete_the_names_of_computers_workspaces_snapshots_and_templates() {
    let controller = Simulation::boot().await;
    let home = controller.workspace("home").await;
    controller.computer(&home, "desk").await;
    let spaced = controller.computer(&home, "two words").await;
    let shell = Shell::with_key(&controller.base, controller.key());
    shell.run(&["snapshots", "create", "desk", "first"]).await.expect_success();
    let bash = async |words: &str| {
        let complete = format!(
            "source <(hotdesk completions bash); COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); COMP_TYPE=9; \
             _clap_complete_hotdesk hotdesk \"${{COMP_WORDS[-1]}}\" x; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        shell.run_in_bash(&complete).await.expect_success()
    };
    assert_eq!(bash("hotdesk screenshot de").await, "desk\n");
    let all = bash("hotdesk computers get ''").await;
    // A name that the shell would have to quote is offered as its id.
    assert!(all.contains("desk\n") && all.contains(&spaced) && !all.contains("two words"), "{all}");
    assert_eq!(bash("hotdesk computers list --workspace ho").await, "home\n");
    assert_eq!(bash("hotdesk snapshots rollback desk fi").await, "first\n");
    let own = "api_version: hotdesk/v1\nname: lab@1.0.0\n";
    let publish = ["templates", "publish", "-"];
    shell.run_with_input(&publish, own).await.expect_success();
    assert_eq!(bash("hotdesk templates show la").await, "lab@1.0.0\n");
    assert_eq!(bash("hotdesk computers create one --template system/des").await, "system/desktop@1.0.0\n");
    assert_eq!(bash("hotdesk computers save-template desk la").await, "\n");
    assert!(bash("hotdesk comp").await.contains("computers\n"));

    for (dialect, index) in [("zsh", "3"), ("fish", "3")] {
        let ask = format!(
            "_HOTDESK_COMPLETE={dialect} _CLAP_COMPLETE_INDEX={index} hotdesk -- hotdesk computers get de"
        );
        let offered = shell.run_in_bash(&ask).await.expect_success();
        assert!(offered.starts_with("desk") && offered.contains("running"), "{dialect}: {offered}");
        let script = shell.run(&["completions", dialect]).await.expect_success();
        assert!(script.contains("_HOTDESK_COMPLETE"), "{script}");
    }
    let unreachable = Shell::with_key("http://127.0.0.1:1", "sk_live_none");
    let ask = "_HOTDESK_COMPLETE=fish hotdesk -- hotdesk computers get x";
    let ended = unreachable.run_in_bash(ask).await;
    assert_eq!((ended.code, ended.out.as_str(), ended.err.as_str()), (0, "", ""), "{ended:?}");
}

#[tokio::test]
async fn shells_complete_the_names_of_clients_and_of_what_a_computer_has() {
    let (server, shell) = one_computer().await;
    let service = |name: &str| {
        json!({"name": name, "status": "running", "pid": 1, "exit_code": null, "signal": null,
            "since_seconds": 1, "log": "/var/log/web"})
    };
    // A name from a computer is offered only if it is one plain word.
    let services = ["web", "a b", "$(reboot)", "\u{1b}[2J"].map(service);
    let to = format!("GET /api/computers/{ID}/services");
    server.respond(&to, 200, json!({"services": services, "hooks": [], "health": []}));
    let trigger = json!({"name": "nightly", "title": null, "source": "cron", "status": "watching", "error": null,
        "next_at": null, "run_count": 0, "dropped": 0, "runs": []});
    server.respond(&format!("GET /api/computers/{ID}/triggers"), 200, json!({"triggers": [trigger]}));
    let client = json!({"id": OTHER, "external_id": "acme", "name": "Acme", "workspace_id": ID,
        "max_computers": null, "computers_used": 0, "monthly_ai_cap_usd": null, "billed_to": "operator",
        "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z"});
    server.respond("GET /api/v1/accounts", 200, json!({"accounts": [client], "clients": [client]}));
    for (words, expected) in [
        (format!("services stop {ID}"), "web\n"),
        (format!("triggers fire {ID}"), "nightly\n"),
        ("clients delete".to_owned(), "acme\tAcme\n"),
    ] {
        let ask = format!("_HOTDESK_COMPLETE=fish hotdesk -- hotdesk {words} ''");
        let offered = shell.run_in_bash(&ask).await.expect_success();
        let names: String = offered.split_inclusive('\n').filter(|line| !line.starts_with('-')).collect();
        assert_eq!(names, expected, "{words}: {offered}");
    }
}

#[tokio::test]
async fn manual_pages_exist_for_every_command() {
    let shell = Shell::new();
    std::fs::create_dir(shell.file("man")).expect("a folder");
    shell.run(&["man", "--dir", "man"]).await.expect_success();
    let page = |name: &str| std::fs::read_to_string(shell.file("man").join(name)).expect("a page");
    assert!(page("hotdesk.1").contains("computers(1)"));
    assert!(page("hotdesk-computers-create.1").contains("\\-\\-workspace"));
    assert!(!shell.file("man/hotdesk-exec-shim.1").exists(), "internal commands have no page");
    shell.run(&["man", "--dir", "nowhere"]).await.expect_failure(1, &["nowhere"]);
}
