//! Authorization endpoint: validation, the consent page and the redirect. A43-A50, A62, A64, A65
//! (docs/authentication-rules.md).

use hotdesk::domain::identity::access::Role;
use hotdesk::store::identity::oauth::grants::MAX_CONNECTIONS;
use reqwest::Method;
use serde_json::json;

use super::scene::{Browser, REDIRECT, Scene, csrf, fetch_page, form, parameter};
use crate::harness::agent::fetch_json;
use crate::harness::caller::id_of;

#[tokio::test(flavor = "multi_thread")]
async fn a43_a44_a46_a49_a62_an_unsound_request_is_told_to_a_known_client_with_its_state_and_the_issuer() {
    let scene = Scene::boot().await;
    let unsound = [
        (("response_type", None), "invalid_request"),
        (("response_type", Some("token")), "unsupported_response_type"),
        // A46: a request without a challenge never gets a code.
        (("code_challenge", None), "invalid_request"),
        (("code_challenge", Some("")), "invalid_request"),
        (("code_challenge_method", None), "invalid_request"),
        (("code_challenge_method", Some("plain")), "invalid_request"),
        (("response_mode", Some("fragment")), "invalid_request"),
        (("response_mode", Some("form_post")), "invalid_request"),
        (("request", Some("e30.e30.")), "request_not_supported"),
        (("request_uri", Some("https://app.example/request")), "request_uri_not_supported"),
        (("scope", Some("admin")), "invalid_scope"),
        (("resource", Some("https://evil.example/mcp")), "invalid_target"),
        (("resource", Some("#x")), "invalid_target"),
    ];
    for (change, _) in unsound {
        let page = scene.me.get(&scene.authorize_url(&[change])).await;
        assert_eq!((page.status, page.location()), (400, None), "{change:?}: nobody let this client in");
        assert!(page.text.contains("authorization request is invalid"), "{}", page.text);
    }
    scene.connect().await;
    for (change, error) in unsound {
        let parameters = scene.me.get(&scene.authorize_url(&[change])).await.redirect_parameters(REDIRECT);
        assert_eq!(parameter(&parameters, "error"), Some(error), "{change:?}");
        assert_eq!(parameter(&parameters, "state"), Some("a state"), "{change:?}");
        assert_eq!(parameter(&parameters, "iss"), Some(scene.controller.base.as_str()), "{change:?}");
        assert_eq!(parameter(&parameters, "code"), None, "{change:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a48_whom_nobody_knows_is_told_nothing_and_the_person_sees_a_page() {
    let scene = Scene::boot().await;
    let local = scene.register(json!({"redirect_uris": ["http://127.0.0.1:3000/cb"]})).await;
    let local = id_of_client(&local.body);
    let mut requests = vec![
        scene.authorize_url(&[("client_id", None)]),
        scene.authorize_url(&[("client_id", Some("nobody"))]),
        scene.authorize_url(&[("redirect_uri", None)]),
        format!("{}&client_id={}", scene.authorize_url(&[]), scene.client),
        format!("{}&redirect_uri=https%3A%2F%2Fevil.example%2F", scene.authorize_url(&[])),
    ];
    for hostile in [
        "https://app.example/cb",
        "https://app.example/cb?from=hotdesk&x=1",
        "https://app.example/cb/?from=hotdesk",
        "https://app.example/CB?from=hotdesk",
        "https://APP.example/cb?from=hotdesk",
        "https://app.example/%63b?from=hotdesk",
        "https://app.example/%2e/cb?from=hotdesk",
        "https://app.example/x/../cb?from=hotdesk",
        "https://app.example:443/cb?from=hotdesk",
        "https://app.example:8443/cb?from=hotdesk",
        "https://user@app.example/cb?from=hotdesk",
        "https://app.example/cb?from=hotdesk#x",
        "https://app.example.evil.example/cb?from=hotdesk",
        "https://evil.example\\@app.example/cb?from=hotdesk",
        "https://evil.example/cb?from=hotdesk",
        "http://app.example/cb?from=hotdesk",
        "//evil.example/cb",
        "javascript:alert(1)",
    ] {
        requests.push(scene.authorize_url(&[("redirect_uri", Some(hostile))]));
    }
    for hostile in [
        "http://127.0.0.1.evil.example:3000/cb",
        "http://127.0.0.2:3000/cb",
        "http://localhost:3000/cb",
        "http://[::1]:3000/cb",
        "http://127.0.0.1:3000/cb?x=1",
        "https://127.0.0.1:3000/cb",
    ] {
        requests.push(scene.authorize_url(&[("client_id", Some(&local)), ("redirect_uri", Some(hostile))]));
    }
    for request in requests {
        let page = scene.me.get(&request).await;
        assert_eq!((page.status, page.location()), (400, None), "{request}: {}", page.text);
        assert!(page.text.contains("role=\"alert\""), "{request}: {}", page.text);
    }
    // A47: the port of a redirect to the person's own machine is free.
    let other_port = scene
        .authorize_url(&[("client_id", Some(&local)), ("redirect_uri", Some("http://127.0.0.1:51234/cb"))]);
    assert_eq!(scene.me.get(&other_port).await.status, 200);
}

fn id_of_client(registered: &serde_json::Value) -> String {
    registered["client_id"].as_str().expect("an id").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a49_a50_the_state_comes_back_exactly_and_parameters_count_once() {
    let scene = Scene::boot().await;
    let allow = [("decision", "allow"), ("workspace", scene.workspace.as_str())];
    for state in ["x", "a b+c%20&d=e#f?", "é☕\u{0}\"'<>", &"long".repeat(500)] {
        let parameters = scene
            .me
            .submit(&scene.authorize_url(&[("state", Some(state))]), &allow)
            .await
            .redirect_parameters(REDIRECT);
        assert_eq!(parameter(&parameters, "state"), Some(state));
        assert_eq!(parameter(&parameters, "iss"), Some(scene.controller.base.as_str()));
        assert!(parameter(&parameters, "code").is_some_and(|code| code.len() >= 32), "{parameters:?}");
        assert_eq!(parameters.len(), 3, "{parameters:?}");
    }
    // An empty or missing state is not returned. Other empty or unknown parameters are ignored.
    for change in [("state", None), ("state", Some("")), ("scope", Some("")), ("prompt", Some("login"))] {
        let parameters =
            scene.me.submit(&scene.authorize_url(&[change]), &allow).await.redirect_parameters(REDIRECT);
        assert_eq!(parameter(&parameters, "state").is_some(), change.0 != "state", "{parameters:?}");
        assert!(parameter(&parameters, "code").is_some(), "{parameters:?}");
    }
    // An error goes to a client that the person has let in.
    scene.connect().await;
    for name in ["state", "response_type", "code_challenge", "code_challenge_method", "scope", "resource"] {
        let parameters = scene
            .me
            .get(&format!("{}&{name}=x", scene.authorize_url(&[])))
            .await
            .redirect_parameters(REDIRECT);
        assert_eq!(parameter(&parameters, "error"), Some("invalid_request"), "{name}");
        assert_eq!(parameter(&parameters, "state"), (name != "state").then_some("a state"), "{name}");
    }
    let twice_unknown = format!("{}&x=1&x=2", scene.authorize_url(&[]));
    assert_eq!(scene.me.get(&twice_unknown).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a64_the_person_sees_who_asks_where_the_answer_goes_and_only_workspaces_to_give() {
    let scene = Scene::boot().await;
    let (other, _) = scene.add_account().await;
    let store = scene.controller.store().await;
    let name = |text: &str| hotdesk::domain::name::Name::parse(text).expect("a name");
    let plans = hotdesk::controller::config::Config::default().plans();
    let mut workspaces = Vec::new();
    for (called, role) in [
        ("as viewer", Some(Role::Viewer)),
        ("as member", Some(Role::Member)),
        ("as admin", Some(Role::Admin)),
        ("as stranger", None),
    ] {
        let workspace = store.add_workspace(other, &name(called), None, "active", &plans).await;
        let workspace = workspace.expect("a workspace");
        if let Some(role) = role {
            store.set_member(workspace.id, scene.account, role).await.expect("a member");
        }
        workspaces.push((called, workspace.id.to_string()));
    }
    let hostile = "<script>alert(1)</script>\"'&";
    let registered = scene.register(json!({"client_name": hostile, "redirect_uris": [REDIRECT]})).await;
    let authorize_url = scene.authorize_url(&[("client_id", Some(&id_of_client(&registered.body)))]);
    let page = scene.me.get(&authorize_url).await;
    assert_eq!(page.status, 200, "{}", page.text);
    assert!(!page.text.contains("<script"), "{}", page.text);
    assert!(page.text.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "{}", page.text);
    assert!(page.text.contains("app.example") && page.text.contains("me@desk.example"), "{}", page.text);
    assert!(page.text.contains("nobody has checked it"), "{}", page.text);
    let why = "You only view as viewer: a client needs a workspace in which you are more than a viewer.";
    assert!(page.text.contains(why), "{}", page.text);
    for (called, id) in &workspaces {
        let offered = ["as member", "as admin"].contains(called);
        assert_eq!(page.text.contains(id.as_str()), offered, "{called}");
        // A workspace that is not offered cannot be chosen.
        let chosen = scene.me.submit(&authorize_url, &[("decision", "allow"), ("workspace", id)]).await;
        assert_eq!(chosen.status, if offered { 303 } else { 403 }, "{called}: {}", chosen.text);
        assert_eq!(chosen.location().is_some(), offered, "{called}");
    }
    for wrong in ["", "nonsense", "00000000-0000-4000-8000-000000000000"] {
        let chosen = scene.me.submit(&authorize_url, &[("decision", "allow"), ("workspace", wrong)]).await;
        assert_eq!((chosen.status, chosen.location()), (403, None), "{wrong}");
    }
    // Any program on the person's own machine can use a local redirect.
    assert!(!page.text.contains("can pretend to be it"), "{}", page.text);
    let local =
        scene.register(json!({"redirect_uris": ["http://localhost/cb", "http://127.0.0.1/cb"]})).await;
    let redirect = ("redirect_uri", Some("http://localhost:4000/cb"));
    let page = scene
        .me
        .get(&scene.authorize_url(&[("client_id", Some(&id_of_client(&local.body))), redirect]))
        .await;
    assert!(page.text.contains("can pretend to be it") && page.text.contains("localhost"), "{}", page.text);
    let policy = page.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.ends_with("form-action 'self' http://localhost:4000"), "{policy}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a64_who_has_no_workspace_can_only_refuse() {
    let scene = Scene::boot().await;
    let (_, other) = scene.add_account().await;
    let page = other.get(&scene.authorize_url(&[])).await;
    assert!(
        page.text.contains("You have no workspace")
            && !page.text.contains("value=\"allow\"")
            && !page.text.contains("You only view"),
        "{}",
        page.text
    );
    let refused =
        other.submit(&scene.authorize_url(&[]), &[("decision", "deny")]).await.redirect_parameters(REDIRECT);
    assert_eq!(
        (parameter(&refused, "error"), parameter(&refused, "state")),
        (Some("access_denied"), Some("a state"))
    );
    assert_eq!(parameter(&refused, "iss"), Some(scene.controller.base.as_str()));
    assert_eq!(parameter(&refused, "code"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a65_only_the_person_s_own_click_on_our_own_page_lets_a_client_in() {
    let scene = Scene::boot().await;
    let authorize_url = scene.authorize_url(&[]);
    let page = scene.me.get(&authorize_url).await;
    let policy = page.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.contains("frame-ancestors 'none'") && policy.contains("default-src 'none'"), "{policy}");
    assert!(policy.ends_with("form-action 'self' https://app.example"), "{policy}");
    for (name, value) in
        [("x-frame-options", "DENY"), ("referrer-policy", "no-referrer"), ("cache-control", "no-store")]
    {
        assert_eq!(page.headers[name], value);
    }
    assert!(
        !page.headers.keys().any(|name| name.as_str().starts_with("access-control")),
        "{:?}",
        page.headers
    );
    let token = csrf(&page.text).to_owned();
    let sound = [("decision", "allow"), ("workspace", scene.workspace.as_str()), ("csrf", token.as_str())];
    let post = |fields: &[(&str, &str)]| form(scene.me.request(Method::POST, &authorize_url), fields);
    let foreign = Browser::sign_in(&scene.controller.base, "me@desk.example").await;
    let other_sign_in = csrf(&foreign.get(&authorize_url).await.text).to_owned();
    for (what, request) in [
        ("no token", post(&sound[..2])),
        ("an empty token", post(&[sound[0], sound[1], ("csrf", "")])),
        ("another sign-in's token", post(&[sound[0], sound[1], ("csrf", &other_sign_in)])),
        ("another origin", post(&sound).header("origin", "https://evil.example")),
        (
            "a page with an opaque origin",
            post(&sound).header("origin", "null").header("sec-fetch-site", "cross-site"),
        ),
        ("another site", post(&sound).header("sec-fetch-site", "cross-site")),
    ] {
        let answer = fetch_page(request).await;
        assert_eq!((answer.status, answer.location()), (403, None), "{what}: {}", answer.text);
    }
    // The decision must come in the form, and both pages need a sign-in.
    assert_eq!(scene.me.get(&format!("{authorize_url}&decision=allow&csrf={token}")).await.status, 200);
    for request in [
        scene.controller.bare(Method::GET, &authorize_url),
        form(scene.controller.bare(Method::POST, &authorize_url), &sound),
    ] {
        let url = fetch_page(request).await;
        assert!(url.text.contains("name=\"password\""), "{}", url.text);
    }
    let origin = scene.controller.base.as_str();
    let let_in =
        fetch_page(post(&sound).header("origin", origin).header("sec-fetch-site", "same-origin")).await;
    assert_eq!((let_in.status, &let_in.headers["cache-control"]), (303, &"no-store".parse().unwrap()));
    assert_eq!(let_in.headers["referrer-policy"], "no-referrer");
    assert!(parameter(&let_in.redirect_parameters(REDIRECT), "code").is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_that_goes_takes_its_connections_along() {
    let mut scene = Scene::boot().await;
    let second = id_of(&scene.controller.create("/workspaces", json!({"name": "second"})).await);
    scene.workspace = second.clone();
    let (access, refresh) = scene.connect().await;
    assert_eq!(scene.mcp(&access).await.status, 200);
    let gone = scene.controller.request(Method::DELETE, &format!("/workspaces/{second}"));
    assert_eq!(fetch_json(gone).await.status, 200);
    assert_eq!(scene.mcp(&access).await.status, 401);
    assert_eq!(scene.refresh(&refresh).await.body["error"], "invalid_grant");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_has_so_many_connections_and_no_more() {
    let scene = Scene::boot().await;
    let (access, _) = scene.connect().await;
    let many = format!(
        "WITH RECURSIVE n (i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < {MAX_CONNECTIONS}) \
         INSERT INTO oauth_grants (id, account_id, workspace_id, client_id, redirect_uri, resource, challenge, code, \
         code_expires_at, refresh, created_at, expires_at) SELECT 'grant ' || i, account_id, workspace_id, client_id, \
         redirect_uri, resource, challenge, 'code ' || i, code_expires_at, 'refresh', created_at, expires_at \
         FROM n, oauth_grants"
    );
    scene.controller.sql(&many).await;
    let allowed = [("decision", "allow"), ("workspace", scene.workspace.as_str())];
    let refused = scene.me.submit(&scene.authorize_url(&[]), &allowed).await;
    assert_eq!((refused.status, refused.location()), (403, None), "{}", refused.text);
    assert!(refused.text.contains(&format!("{MAX_CONNECTIONS} connections")), "{}", refused.text);
    assert_eq!(scene.mcp(&access).await.status, 200, "existing connections continue to work");
    scene.controller.sql("DELETE FROM oauth_grants WHERE id = 'grant 2'").await;
    scene.connect().await;
}
