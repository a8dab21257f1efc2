//! Workspaces, and responses to malformed requests (docs/api/workspaces.md, docs/api/conventions.md,
//! docs/api/errors.md).

use reqwest::Method;
use serde_json::json;

use crate::harness::agent::fetch_json;
use crate::harness::controller::RunningController;

#[tokio::test]
async fn workspaces_are_made_listed_found_changed_and_removed() {
    let controller = RunningController::boot().await;
    let created = controller
        .post("/workspaces", json!({"name": "  Demo  ", "icon_url": "https://x.example/i.png"}))
        .await;
    assert_eq!(created.status, 201);
    assert_eq!(created.body["name"], "Demo");
    assert_eq!(created.body["status"], "active");
    assert_eq!(created.body["icon_url"], "https://x.example/i.png");
    let id = created.body["id"].as_str().unwrap().to_owned();

    let listed = controller.get("/workspaces").await;
    assert_eq!(listed.body["workspaces"], listed.body["projects"]);
    assert_eq!(listed.body["workspaces"][0]["id"], id.as_str());
    assert_eq!(listed.body["workspaces"][0]["desktops"], json!([]));
    for alias in ["/projects", "/workspaces?order=x&unknown=1"] {
        assert_eq!(controller.get(alias).await.body, listed.body, "{alias}");
    }
    let doubled =
        fetch_json(controller.bare(Method::GET, "/api/api/projects").bearer_auth(controller.key())).await;
    assert_eq!(doubled.body, listed.body);

    for path in ["/projects/by-name/demo", "/workspaces/by-name/DEMO"] {
        assert_eq!(controller.get(path).await.body["id"], id.as_str(), "{path}");
    }
    assert_eq!(controller.get("/projects/by-name/none").await.status, 404);

    let changed =
        controller.patch(&format!("/workspaces/{id}"), json!({"name": "語", "status": "inactive"})).await;
    assert_eq!(
        (changed.status, &changed.body["name"], &changed.body["status"]),
        (200, &json!("語"), &json!("inactive"))
    );
    assert_eq!(changed.body["icon_url"], "https://x.example/i.png");
    assert_eq!(
        controller.patch(&format!("/workspaces/{id}"), json!({"icon_url": ""})).await.body["icon_url"],
        json!(null)
    );

    let other = controller.workspace("other").await;
    assert_eq!(controller.delete(&format!("/projects/{id}")).await.body, json!({"success": true}));
    assert_eq!(controller.get(&format!("/workspaces/{id}")).await.status, 404);
    assert_eq!(
        controller.post(&format!("/projects/{other}/delete"), json!({})).await.body,
        json!({"success": true})
    );
    assert_eq!(controller.get("/projects").await.body["projects"], json!([]));
}

#[tokio::test]
async fn a_taken_name_is_refused_with_400_whatever_its_case() {
    let controller = RunningController::boot().await;
    let first = controller.workspace("Demo").await;
    let second = controller.workspace("second").await;
    for name in ["Demo", "demo", " DEMO "] {
        let refused = controller.post("/workspaces", json!({ "name": name })).await;
        assert_eq!((refused.status, &refused.body["code"]), (400, &json!("NAME_TAKEN")));
        assert!(refused.body["error"].as_str().unwrap().contains("already exists"));
    }
    let renamed = controller.patch(&format!("/workspaces/{second}"), json!({"name": "demo"})).await;
    assert_eq!((renamed.status, &renamed.body["code"]), (400, &json!("NAME_TAKEN")));
    // The older path answers with the workspace, for a client that creates it again (docs/api/compatibility.md).
    for name in ["Demo", " DEMO "] {
        let existing = controller.post("/projects", json!({ "name": name })).await;
        assert_eq!((existing.status, existing.body["id"].as_str()), (200, Some(first.as_str())));
    }
    assert_eq!(controller.get("/workspaces").await.body["workspaces"].as_array().map(Vec::len), Some(2));
    // Its own name in another case is no conflict.
    assert_eq!(controller.patch(&format!("/workspaces/{first}"), json!({"name": "DEMO"})).await.status, 200);
}

#[tokio::test]
async fn of_twenty_at_once_one_gets_the_name() {
    let controller = RunningController::boot().await;
    let requests = (0..20).map(|_| controller.post("/workspaces", json!({"name": "race"})));
    let statuses: Vec<u16> =
        futures_util::future::join_all(requests).await.iter().map(|created| created.status).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 201).count(), 1, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 400).count(), 19, "{statuses:?}");
}

#[tokio::test]
async fn bad_bodies_are_refused_with_400_in_json() {
    let controller = RunningController::boot().await;
    let deep = format!("{{\"name\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let bodies: [(&[u8], &str); 14] = [
        (b"", "none"),
        (b"   ", "white space"),
        (b"{", "broken"),
        (b"[]", "array"),
        (b"[\"name\"]", "array of one"),
        (b"\"name\"", "string"),
        (b"null", "null"),
        (b"{\"name\":1}", "number"),
        (b"{\"name\":null}", "null name"),
        (b"{\"name\":\"\"}", "empty"),
        (b"{\"name\":\"a\\u0000b\"}", "NUL"),
        (b"{\"name\":\"\xff\xfe\"}", "invalid UTF-8"),
        (b"{\"name\":\"x\"}garbage", "more after it"),
        (deep.as_bytes(), "deep"),
    ];
    for (body, what) in bodies {
        let request =
            controller.request(Method::POST, "/workspaces").header("content-type", "application/json");
        let refused = fetch_json(request.body(body.to_vec())).await;
        assert_eq!(refused.status, 400, "{what}: {}", refused.body);
        assert!(refused.body["error"].is_string() && refused.body["request_id"].is_string(), "{what}");
    }
    let long = "a".repeat(256);
    assert_eq!(controller.post("/workspaces", json!({ "name": long })).await.body["code"], "INVALID_REQUEST");
    assert_eq!(controller.post("/workspaces", json!({"name": "語".repeat(255)})).await.status, 201);
    assert_eq!(
        controller.post("/workspaces", json!({"name": "../../etc; $(reboot) `x` \"y\""})).await.status,
        201
    );
    for status in ["", "deleted", "Active"] {
        assert_eq!(controller.post("/workspaces", json!({"name": "s", "status": status})).await.status, 400);
    }
    let huge =
        fetch_json(controller.request(Method::POST, "/workspaces").body(vec![b' '; 3 * 1024 * 1024])).await;
    assert_eq!(huge.status, 413);
    assert_eq!(controller.get("/projects").await.body["projects"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn unknown_paths_and_methods_answer_in_json() {
    let controller = RunningController::boot().await;
    for path in ["/nothing", "/builds/latest?orgId=a&projectId=b&name=c", "/workspaces/x/y/z"] {
        let missing = controller.get(path).await;
        assert_eq!(missing.status, 404, "{path}");
        assert!(missing.body["error"].is_string() && missing.body["request_id"].is_string());
    }
    for (method, path, allowed) in [
        (Method::PUT, "/api/workspaces", "GET,HEAD,POST"),
        (Method::DELETE, "/api/computers", "GET,HEAD,POST"),
        (Method::GET, "/api/computers/x/click", "POST"),
        (Method::POST, "/health", "GET,HEAD"),
    ] {
        let response = controller.bare(method, path).bearer_auth(controller.key()).send().await.unwrap();
        assert_eq!(response.status(), 405, "{path}");
        let mut allow: Vec<&str> = response.headers()["allow"].to_str().unwrap().split(',').collect();
        allow.sort_unstable();
        assert_eq!(allow.join(","), allowed, "{path}");
        assert!(response.json::<serde_json::Value>().await.unwrap()["error"].is_string());
    }
    // Malformed ids are not found.
    for path in [
        "/workspaces/x",
        "/computers/x",
        "/computers/..%2f..",
        "/computers/00000000-0000-4000-8000-000000000000",
    ] {
        assert_eq!(controller.get(path).await.status, 404, "{path}");
    }
    assert_eq!(controller.get("/computers/deadbeef").await.body["error"], "Desktop not found");
}

#[tokio::test]
async fn the_service_tells_how_it_is_without_a_key() {
    let controller = RunningController::boot().await;
    for path in ["/health", "/api/health"] {
        let health = fetch_json(controller.bare(Method::GET, path)).await;
        assert_eq!((health.status, &health.body["status"]), (200, &json!("ok")));
    }
    controller.get("/workspaces").await;
    let metrics = controller.bare(Method::GET, "/metrics").send().await.unwrap().text().await.unwrap();
    let counter = "hotdesk_http_requests_total{method=\"GET\",route=\"/workspaces\",status=\"200\"} 1";
    assert!(metrics.contains(counter), "{metrics}");
    let response = controller.request(Method::GET, "/workspaces").send().await.unwrap();
    assert_eq!(response.headers()["x-request-id"].len(), 32);
}

#[tokio::test]
async fn keys_are_needed_exact_and_never_kept() {
    let controller = RunningController::boot().await;
    let wrong = "Bearer error=\"invalid_token\"";
    for (header, text, challenge) in [
        (None, "Missing API key", "Bearer"),
        (Some("Bearer sk_live_unknown"), "Invalid API key", wrong),
        (Some("Bearer nonsense"), "Invalid API key", wrong),
        (Some("Basic abc"), "Invalid API key", wrong),
    ] {
        let mut request = controller.bare(Method::GET, "/api/workspaces");
        if let Some(header) = header {
            request = request.header("authorization", header);
        }
        let response = request.send().await.unwrap();
        assert_eq!(
            (response.status().as_u16(), response.headers()["www-authenticate"].to_str().unwrap()),
            (401, challenge)
        );
        let body: serde_json::Value = response.json().await.unwrap();
        assert!(body["error"].as_str().unwrap().starts_with(text), "{header:?}: {body}");
    }
    let query =
        fetch_json(controller.bare(Method::GET, &format!("/api/workspaces?api_key={}", controller.key())))
            .await;
    assert_eq!(query.status, 401);
    let lower = controller
        .bare(Method::GET, "/api/workspaces")
        .header("authorization", format!("bearer {}", controller.key()));
    assert_eq!(fetch_json(lower).await.status, 200);
    // Neither the store nor its write-ahead log contains the key.
    for entry in std::fs::read_dir(controller.data_dir()).unwrap().flatten() {
        if entry.path().is_file() {
            let bytes = std::fs::read(entry.path()).unwrap();
            let found =
                bytes.windows(controller.key().len()).any(|window| window == controller.key().as_bytes());
            assert!(!found, "{} contains the key", entry.path().display());
        }
    }
}
