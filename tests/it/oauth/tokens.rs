//! Codes and tokens: binding, single use, expiry and revocation. A45, A51-A63, A66
//! (docs/authentication-rules.md).

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use super::scene::{MAX_WRONG, REDIRECT, Scene, VERIFIER, fetch_page, form, token_pair};
use crate::harness::agent::{HttpAnswer, fetch_json};

fn error(answer: &HttpAnswer) -> (u16, &str) {
    (answer.status, answer.body["error"].as_str().unwrap_or("none"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a51_a45_a_code_is_bound_to_all_that_it_was_given_for() {
    let scene = Scene::boot().await;
    let other = scene.register(json!({"redirect_uris": [REDIRECT]})).await.body["client_id"].clone();
    let other = other.as_str().expect("an id");
    let code = scene.code().await;
    let sound = [
        ("grant_type", "authorization_code"),
        ("client_id", &scene.client),
        ("code", &code),
        ("code_verifier", VERIFIER),
        ("redirect_uri", REDIRECT),
    ];
    let foreign = "https://evil.example/mcp";
    let wrong_verifier = VERIFIER.replace('d', "e");
    for (name, value, expected) in [
        ("code", "nonsense", "invalid_grant"),
        ("code_verifier", &*wrong_verifier, "invalid_grant"),
        ("code_verifier", "short", "invalid_grant"),
        ("code_verifier", "", "invalid_request"),
        ("redirect_uri", "https://app.example/cb", "invalid_grant"),
        ("client_id", other, "invalid_grant"),
        ("resource", foreign, "invalid_target"),
        ("scope", "admin", "invalid_scope"),
        ("code", "", "invalid_request"),
    ] {
        let mut fields: Vec<(&str, &str)> = sound.into_iter().filter(|(given, _)| *given != name).collect();
        fields.push((name, value));
        let refused = scene.exchange(&fields).await;
        assert_eq!(error(&refused), (400, expected), "{name} = {value:?}");
        let why = refused.body["error_description"].as_str().expect("a sentence");
        assert_eq!(why.contains("code_verifier"), name == "code_verifier", "{name} = {value:?}: {why}");
    }
    // No failed attempt used the code up.
    let redeemed = scene.exchange(&sound).await;
    assert_eq!(redeemed.status, 200, "{}", redeemed.body);
    // A code expires after a minute.
    let late = scene.code().await;
    scene
        .age("UPDATE oauth_grants SET code_expires_at = code_expires_at - 60000 WHERE refresh IS NULL")
        .await;
    assert_eq!(error(&scene.redeem(&late).await), (400, "invalid_grant"));
    let (access, _) = token_pair(&redeemed.body);
    assert_eq!(scene.mcp(&access).await.status, 200, "the token of the other code stays valid");
}

#[tokio::test(flavor = "multi_thread")]
async fn a52_a_code_that_is_used_twice_ends_its_connection() {
    let scene = Scene::boot().await;
    let code = scene.code().await;
    let (access, refresh) = token_pair(&scene.redeem(&code).await.body);
    let (bystander, _) = scene.connect().await;
    // Without the verifier, a second use does not end the connection.
    let guess = "x".repeat(43);
    let fields = [
        ("grant_type", "authorization_code"),
        ("client_id", &scene.client),
        ("code", &code),
        ("code_verifier", &guess),
    ];
    assert_eq!(error(&scene.exchange(&fields).await), (400, "invalid_grant"));
    assert_eq!(scene.mcp(&access).await.status, 200);
    assert_eq!(error(&scene.redeem(&code).await), (400, "invalid_grant"));
    assert_eq!(scene.mcp(&access).await.status, 401);
    assert_eq!(error(&scene.refresh(&refresh).await), (400, "invalid_grant"));
    assert_eq!(scene.mcp(&bystander).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a18_codes_and_tokens_that_lead_nowhere_are_limited_by_source_and_shut_no_right_one_out() {
    let scene = Scene::boot().await;
    let code = scene.code().await;
    let unknown = "x".repeat(54);
    // A real code with a wrong verifier does not count as a guess.
    let wrong = [
        ("grant_type", "authorization_code"),
        ("client_id", &*scene.client),
        ("code", &code),
        ("code_verifier", &unknown),
    ];
    assert_eq!(error(&scene.exchange(&wrong).await), (400, "invalid_grant"));
    for turn in 0..MAX_WRONG {
        let refused = match turn % 3 {
            0 => scene.redeem("nonsense").await,
            1 => scene.refresh("nonsense").await,
            _ => scene.refresh(&unknown).await,
        };
        assert_eq!(error(&refused), (400, "invalid_grant"), "{turn}");
    }
    for refused in [scene.redeem("nonsense").await, scene.refresh(&unknown).await] {
        assert_eq!(refused.status, 429, "{}", refused.body);
        let wait = refused.body["retry_after"].as_u64().expect("whole seconds");
        assert!((1..=61).contains(&wait), "{wait}");
    }
    // The right code passes and resets the count.
    let redeemed = scene.redeem(&code).await;
    assert_eq!(redeemed.status, 200, "{}", redeemed.body);
    assert_eq!(error(&scene.redeem("nonsense").await), (400, "invalid_grant"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a53_of_fifty_who_redeem_a_code_at_once_one_gets_tokens() {
    let scene = Scene::boot().await;
    let code = scene.code().await;
    let all = join_all((0..50).map(|_| scene.redeem(&code))).await;
    let redeemed = all.iter().filter(|answer| answer.status == 200).count();
    assert_eq!(redeemed, 1);
    assert!(all.iter().all(|answer| answer.status == 200 || error(answer) == (400, "invalid_grant")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a54_a_token_is_asked_for_by_a_form_from_a_known_client() {
    let scene = Scene::boot().await;
    let token = || scene.controller.bare(Method::POST, "/oauth/token");
    let json_body = json!({"grant_type": "authorization_code", "client_id": scene.client, "code": "x"});
    for (what, request, expected) in [
        ("JSON", token().json(&json_body), (400, "invalid_request")),
        ("no body", token(), (400, "invalid_request")),
        ("no grant type", form(token(), &[("client_id", &scene.client)]), (400, "invalid_request")),
        ("no client", form(token(), &[("grant_type", "refresh_token")]), (400, "invalid_request")),
        (
            "a repeated field",
            form(token(), &[("grant_type", "refresh_token"), ("grant_type", "refresh_token")]),
            (400, "invalid_request"),
        ),
        (
            "an unknown client",
            form(token(), &[("grant_type", "refresh_token"), ("client_id", "nobody")]),
            (401, "invalid_client"),
        ),
        (
            "a client's URL that is none",
            form(token(), &[("grant_type", "refresh_token"), ("client_id", "http://x/y")]),
            (401, "invalid_client"),
        ),
        (
            "a secret",
            form(token().basic_auth(&scene.client, Some("x")), &[("grant_type", "refresh_token")]),
            (401, "invalid_client"),
        ),
        (
            "a password grant",
            form(token(), &[("grant_type", "password"), ("username", "x")]),
            (400, "unsupported_grant_type"),
        ),
        (
            "client credentials",
            form(token(), &[("grant_type", "client_credentials"), ("client_id", &scene.client)]),
            (400, "unsupported_grant_type"),
        ),
    ] {
        let page = fetch_page(request).await;
        let body: Value = serde_json::from_str(&page.text).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!((page.status, body["error"].as_str().unwrap()), expected, "{what}: {body}");
        assert!(body["error_description"].is_string(), "{what}: {body}");
        assert_eq!(page.headers["cache-control"], "no-store", "{what}");
        assert_eq!(page.headers.contains_key("www-authenticate"), page.status == 401, "{what}");
    }
    let in_the_query = scene
        .controller
        .bare(Method::POST, "/oauth/token?grant_type=refresh_token&client_id=x&refresh_token=y");
    assert_eq!(fetch_json(in_the_query).await.body["error"], "invalid_request");
    let long = form(token(), &[("grant_type", &"x".repeat(20_000))]);
    assert_eq!(fetch_json(long).await.status, 413);
}

#[tokio::test(flavor = "multi_thread")]
async fn a55_a56_tokens_are_told_once_kept_as_hashes_and_die_after_an_hour() {
    let scene = Scene::boot().await;
    let (code, resource) = (scene.code().await, scene.resource());
    let fields = [
        ("grant_type", "authorization_code"),
        ("client_id", &scene.client),
        ("code", &code),
        ("code_verifier", VERIFIER),
        ("resource", &resource),
    ];
    let page = fetch_page(form(scene.controller.bare(Method::POST, "/oauth/token"), &fields)).await;
    assert_eq!((page.status, &page.headers["content-type"]), (200, &"application/json".parse().unwrap()));
    assert_eq!(page.headers["cache-control"], "no-store");
    let body: Value = serde_json::from_str(&page.text).expect("JSON");
    assert_eq!((&body["token_type"], &body["scope"]), (&json!("Bearer"), &json!("mcp:tools")));
    assert!(body["expires_in"].as_i64().is_some_and(|seconds| (3590..=3600).contains(&seconds)), "{body}");
    let (access, refresh) = token_pair(&body);
    assert!(access.len() >= 32 && refresh.len() >= 32 && !access.contains('.'), "opaque, and no JWT");

    let folder = scene.controller.store_file();
    let folder = folder.parent().expect("the data folder");
    let mut read = 0;
    for file in
        std::fs::read_dir(folder).expect("the data folder").flatten().filter(|file| file.path().is_file())
    {
        let bytes = std::fs::read(file.path()).expect("a file");
        read += bytes.len();
        for secret in [&access, &refresh, &code] {
            let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "{:?} has a secret", file.file_name());
        }
    }
    assert!(read > 4096, "the store's files were read");

    let seen = scene.mcp(&access).await;
    let seen: Value = serde_json::from_str(&seen.text).expect("JSON");
    assert_eq!(seen, json!({"account": scene.account.to_string(), "workspace": scene.workspace}));
    scene.age("UPDATE oauth_grants SET access_expires_at = access_expires_at - 3600000").await;
    let dead = scene.mcp(&access).await;
    assert_eq!(dead.status, 401);
    assert!(dead.headers["www-authenticate"].to_str().unwrap().contains("error=\"invalid_token\""));
    assert_eq!(scene.refresh(&refresh).await.status, 200, "the connection continues");
}

#[tokio::test(flavor = "multi_thread")]
async fn a57_a_token_is_no_key_and_a_key_is_no_token() {
    let scene = Scene::boot().await;
    let (access, refresh) = scene.connect().await;
    for token in [&access, &refresh] {
        for path in ["/workspaces", "/computers"] {
            let answer = fetch_json(scene.controller.request_with(token, Method::GET, path)).await;
            let refused =
                answer.body["error"].as_str().is_some_and(|error| error.starts_with("Invalid API key"));
            assert!(answer.status == 401 && refused, "{path}: {}", answer.body);
        }
    }
    assert_eq!(scene.mcp(scene.controller.key()).await.status, 401);
    assert_eq!(scene.mcp(&refresh).await.status, 401, "a refresh token is no access token");
    let in_the_query =
        fetch_page(scene.controller.bare(Method::POST, &format!("/mcp?access_token={access}"))).await;
    assert_eq!(in_the_query.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a58_a_refresh_token_works_once_and_its_second_use_ends_the_connection() {
    let scene = Scene::boot().await;
    let (access, refresh) = scene.connect().await;
    let second = scene.refresh(&refresh).await;
    assert_eq!((second.status, &second.body["scope"]), (200, &json!("mcp:tools")), "{}", second.body);
    let (newer, next) = token_pair(&second.body);
    assert!(newer != access && next != refresh);
    assert_eq!((scene.mcp(&access).await.status, scene.mcp(&newer).await.status), (401, 200));
    let (newest, last) = token_pair(&scene.refresh(&next).await.body);
    assert_eq!(scene.mcp(&newest).await.status, 200);
    assert_eq!(error(&scene.refresh(&refresh).await), (400, "invalid_grant"));
    assert_eq!(scene.mcp(&newest).await.status, 401);
    assert_eq!(error(&scene.refresh(&last).await), (400, "invalid_grant"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a59_of_twenty_who_refresh_at_once_one_gets_tokens_at_most_one_of_them_living() {
    let scene = Scene::boot().await;
    let (_, refresh) = scene.connect().await;
    let all = join_all((0..20).map(|_| scene.refresh(&refresh))).await;
    let redeemed: Vec<_> = all.iter().filter(|answer| answer.status == 200).collect();
    assert_eq!(redeemed.len(), 1);
    // The other requests count as second uses of the token.
    assert_eq!(scene.mcp(&token_pair(&redeemed[0].body).0).await.status, 401);
    assert!(scene.controller.store().await.connections(scene.account).await.expect("a list").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a59_a_controller_that_dies_over_a_refresh_leaves_one_living_token_at_most() {
    let mut scene = Scene::boot().await;
    let (access, refresh) = scene.connect().await;
    let lost = scene.refresh(&refresh).await;
    assert_eq!(lost.status, 200);
    // The client never got the response, so its tokens are no longer valid.
    scene.controller.kill().await;
    assert_eq!(scene.mcp(&access).await.status, 401);
    assert_eq!(error(&scene.refresh(&refresh).await), (400, "invalid_grant"));
    assert_eq!(scene.mcp(&token_pair(&lost.body).0).await.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a60_a_connection_ends_thirty_days_after_it_was_made_however_often_it_was_renewed() {
    let scene = Scene::boot().await;
    let (_, refresh) = scene.connect().await;
    // Half an hour before the end of the connection, a new access token lasts half an hour.
    scene.age("UPDATE oauth_grants SET expires_at = expires_at - (30 * 24 * 60 - 30) * 60000").await;
    let last = scene.refresh(&refresh).await;
    assert!(
        last.body["expires_in"].as_i64().is_some_and(|left| (1700..=1800).contains(&left)),
        "{}",
        last.body
    );
    let (access, refresh) = token_pair(&last.body);
    assert_eq!(scene.mcp(&access).await.status, 200);
    scene.age("UPDATE oauth_grants SET expires_at = expires_at - 30 * 60000").await;
    assert_eq!(scene.mcp(&access).await.status, 401);
    assert_eq!(error(&scene.refresh(&refresh).await), (400, "invalid_grant"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a61_a_refresh_widens_nothing_and_is_for_its_own_client() {
    let scene = Scene::boot().await;
    let (_, refresh) = scene.connect().await;
    let other = scene.register(json!({"redirect_uris": [REDIRECT]})).await.body["client_id"].clone();
    let foreign = scene.controller.workspace("foreign").await;
    let sound = [("grant_type", "refresh_token"), ("client_id", &scene.client), ("refresh_token", &refresh)];
    for (name, value, expected) in [
        ("client_id", other.as_str().expect("an id"), "invalid_grant"),
        ("scope", "admin", "invalid_scope"),
        ("resource", "https://evil.example/mcp", "invalid_target"),
    ] {
        let mut fields: Vec<(&str, &str)> = sound.into_iter().filter(|(given, _)| *given != name).collect();
        fields.push((name, value));
        assert_eq!(error(&scene.exchange(&fields).await), (400, expected), "{name} = {value}");
    }
    // No refused request used the token. The `workspace` parameter is ignored.
    let renewed = scene.exchange(&[&sound[..], &[("workspace", &foreign)]].concat()).await;
    assert_eq!(renewed.status, 200, "{}", renewed.body);
    let seen = scene.mcp(&token_pair(&renewed.body).0).await.text;
    assert!(seen.contains(&scene.workspace) && !seen.contains(&foreign), "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a63_a_client_that_gives_a_token_back_is_out() {
    let scene = Scene::boot().await;
    let revoke = |fields: Vec<(&'static str, String)>| {
        let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        fetch_json(form(scene.controller.bare(Method::POST, "/oauth/revoke"), &fields))
    };
    for unknown in ["nonsense".to_owned(), "x".repeat(54)] {
        assert_eq!(revoke(vec![("token", unknown)]).await.status, 200);
    }
    assert_eq!(revoke(vec![("token", String::new())]).await.body["error"], "invalid_request");
    let (access, refresh) = scene.connect().await;
    let foreign = revoke(vec![("token", refresh.clone()), ("client_id", "other".to_owned())]).await;
    assert_eq!(foreign.body["error"], "invalid_client");
    assert_eq!(scene.mcp(&access).await.status, 200);
    let (other, _) = scene.connect().await;
    assert_eq!(
        revoke(vec![("token", refresh.clone()), ("client_id", scene.client.clone())]).await.status,
        200
    );
    assert_eq!(scene.mcp(&access).await.status, 401);
    assert_eq!(error(&scene.refresh(&refresh).await), (400, "invalid_grant"));
    assert_eq!(scene.mcp(&other).await.status, 200, "another connection stays");
    assert_eq!(
        revoke(vec![("token", other.clone()), ("token_type_hint", "access_token".to_owned())]).await.status,
        200
    );
    assert_eq!(scene.mcp(&other).await.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a66_a_token_reaches_the_workspace_that_was_chosen() {
    let mut scene = Scene::boot().await;
    let (first, _) = scene.connect().await;
    scene.workspace = scene.controller.workspace("second").await;
    let (second, _) = scene.connect().await;
    let workspace = async |token: &str| {
        let body: Value = serde_json::from_str(&scene.mcp(token).await.text).expect("JSON");
        body["workspace"].as_str().expect("an id").to_owned()
    };
    let (of_first, of_second) = (workspace(&first).await, workspace(&second).await);
    assert_eq!(of_second, scene.workspace);
    assert_ne!(of_first, of_second);
}
