//! Added computers of a plan, and their return (docs/api/accounts.md).

use futures_util::future::{join, join_all};
use hotdesk::base::ids::AccountId;
use reqwest::Method;
use serde_json::{Value, json};

use super::{SmallAccount, config, small_account};
use crate::harness::agent::{HttpAnswer, fetch_json};
use crate::harness::caller::id_of;
use crate::harness::simulation::Simulation;

/// A controller, and an account with the plan `small`: two computers, and two that it may add.
struct Scene {
    controller: Simulation,
    account: AccountId,
    key: String,
    workspace: String,
}

impl Scene {
    async fn boot() -> Self {
        let controller = Simulation::boot_configured(config()).await;
        let SmallAccount { account, key, workspace } = small_account(&controller).await;
        Self { controller, account, key, workspace }
    }

    async fn change(&self, body: Value) -> HttpAnswer {
        fetch_json(self.controller.request_with(&self.key, Method::POST, "/account/capacity").json(&body))
            .await
    }

    async fn capacity(&self) -> Value {
        fetch_json(self.controller.request_with(&self.key, Method::GET, "/account/capacity")).await.body
    }

    async fn create(&self, name: &str) -> HttpAnswer {
        let body = json!({"workspace_id": self.workspace, "name": name});
        fetch_json(self.controller.request_with(&self.key, Method::POST, "/computers").json(&body)).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn capacity_goes_up_to_its_cap_and_back_to_what_is_used() {
    let scene = Scene::boot().await;
    let before = scene.capacity().await;
    let expected = json!({"plan": "small", "included_computers": 2, "added_computers": 0, "max_added_computers": 2,
        "max_computers": 2, "computers_used": 0, "account_ram_gb": 12, "account_ram_used_gb": 0,
        "account_disk_gb": 24, "account_disk_used_gb": 0, "dry_run": false});
    assert_eq!(before, expected);
    for name in ["a", "b"] {
        assert_eq!(scene.create(name).await.status, 201);
    }
    let full = scene.create("c").await;
    assert_eq!((full.status, &full.body["code"]), (403, &json!("VM_SLOT_ADDON")), "{}", full.body);

    let tried = scene.change(json!({"add": 1, "dry_run": true})).await;
    assert_eq!(
        (tried.status, &tried.body["max_computers"], &tried.body["dry_run"]),
        (200, &json!(3), &json!(true))
    );
    assert_eq!(scene.capacity().await["max_computers"], 2, "a dry run must change nothing");
    let far = scene.change(json!({"add": 3})).await;
    assert_eq!((far.status, &far.body["code"]), (403, &json!("capacity_cap")), "{}", far.body);
    assert_eq!(far.body["max_added_computers"], 2);
    let added = scene.change(json!({"add": 2})).await;
    assert_eq!((added.status, &added.body["added_computers"]), (200, &json!(2)), "{}", added.body);
    // Each added computer adds RAM and disk, which is enough for two more computers of 4 GB.
    for name in ["c", "d"] {
        let created = scene.create(name).await;
        assert_eq!(created.status, 201, "{}", created.body);
    }
    let full = scene.create("e").await;
    assert_eq!(full.body["code"], "DESKTOP_LIMIT", "no further computer can be added: {}", full.body);

    let needed = scene.change(json!({"give_back": 1})).await;
    assert_eq!((needed.status, &needed.body["code"]), (409, &json!("CAPACITY_IN_USE")), "{}", needed.body);
    let listed = fetch_json(scene.controller.request_with(&scene.key, Method::GET, "/computers")).await.body;
    let id = id_of(&listed["computers"][0]);
    let path = format!("/computers/{id}");
    assert_eq!(
        fetch_json(scene.controller.request_with(&scene.key, Method::DELETE, &path)).await.status,
        200
    );
    assert_eq!(scene.change(json!({"give_back": 1})).await.body["max_computers"], 3);
    for bad in [
        json!({}),
        json!({"add": 0}),
        json!({"give_back": 0}),
        json!({"add": 1, "give_back": 1}),
        json!({"give_back": 2}),
        json!({"add": -1}),
        json!({"add": 1.5}),
    ] {
        assert_eq!(scene.change(bad.clone()).await.status, 400, "{bad}");
    }
    assert_eq!(scene.capacity().await["added_computers"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn t23_a_slot_is_not_given_back_and_taken_at_once() {
    let scene = Scene::boot().await;
    assert_eq!(scene.change(json!({"add": 2})).await.status, 200);
    for round in 0..8 {
        let names: Vec<String> = (0..5).map(|number| format!("{round} {number}")).collect();
        let creates = join_all(names.iter().map(|name| scene.create(name)));
        let returns = join_all([0; 3].map(|_| scene.change(json!({"give_back": 1}))));
        let (created, returned) = join(creates, returns).await;
        let capacity = scene.capacity().await;
        let (most, used) = (capacity["max_computers"].as_u64(), capacity["computers_used"].as_u64());
        assert!(used <= most, "{capacity}: {created:?} {returned:?}");
        for one in created.iter().filter(|answer| answer.status == 201) {
            let path = format!("/computers/{}", id_of(&one.body));
            assert_eq!(
                fetch_json(scene.controller.request_with(&scene.key, Method::DELETE, &path)).await.status,
                200
            );
        }
        let added = scene.capacity().await["added_computers"].as_u64().expect("a number");
        if added < 2 {
            assert_eq!(scene.change(json!({"add": 2 - added})).await.status, 200);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_default_plan_takes_nothing_and_a_scoped_key_sees_no_plan() {
    let scene = Scene::boot().await;
    let operator = &scene.controller;
    let refused = operator.post("/account/capacity", json!({"add": 1})).await;
    assert_eq!((refused.status, &refused.body["code"]), (403, &json!("capacity_cap")), "{}", refused.body);
    let plan = operator.get("/user/subscription").await.body;
    assert_eq!((&plan["tier"], &plan["planLimits"]["maxDesktops"]), (&json!("default"), &json!(3)));
    assert_eq!(plan["templateAuthoring"], true, "{plan}");
    let own = fetch_json(operator.request_with(&scene.key, Method::GET, "/user/subscription")).await.body;
    assert_eq!((&own["tier"], &own["templateAuthoring"]), (&json!("small"), &json!(false)), "{own}");
    assert_eq!(
        (&own["planLimits"]["maxDesktops"], &own["planLimits"]["maxRamPerUser"]),
        (&json!(2), &json!(12))
    );
    let scoped = operator.key_of(scene.account, Some(&scene.workspace)).await;
    for (method, path) in [
        (Method::GET, "/account/capacity"),
        (Method::POST, "/account/capacity"),
        (Method::GET, "/user/subscription"),
        (Method::GET, "/v1/accounts"),
        (Method::GET, "/agent-accounts/claim-link"),
    ] {
        let answer = fetch_json(operator.request_with(&scoped, method, path).json(&json!({"add": 1}))).await;
        assert_eq!(
            (answer.status, &answer.body["code"]),
            (403, &json!("workspace_scope_mismatch")),
            "{path}"
        );
        assert_eq!(answer.body["key_workspace_id"], scene.workspace.as_str(), "{path}");
    }
    let limits = format!("/billing/compute-limits?workspace_id={}", scene.workspace);
    assert_eq!(fetch_json(operator.request_with(&scoped, Method::GET, &limits)).await.status, 200);
}
