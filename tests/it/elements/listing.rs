//! Element lists: completeness, order, limits, and programs that do not answer.

use hotdesk::base::wait;
use nix::sys::signal::Signal;
use serde_json::json;

use super::stage::{Stage, TIMEOUT, has};

#[tokio::test(flavor = "multi_thread")]
async fn what_a_program_shows_is_listed_with_roles_values_and_boxes() {
    let Some(mut stage) = Stage::boot().await else { return };
    let program = stage.start("Everything", 0).await;
    let list = stage.whole("").await;
    assert_eq!((&list["truncated"], &list["screen"]), (&json!(false), &json!("default")), "{list}");
    assert!(list.get("skipped").is_none() && list.get("reason").is_none(), "{list}");
    let elements = list["elements"].as_array().expect("elements");
    assert!(list["nodes_seen"].as_u64() >= Some(elements.len() as u64));
    assert_eq!(
        (&elements[0]["role"], &elements[0]["name"]),
        (&json!("frame"), &json!("Everything")),
        "the window must be first"
    );
    for (name, role) in [
        ("A label", "label"),
        ("Save", "button"),
        ("Agree", "check box"),
        ("Name", "text"),
        ("Password", "password text"),
        ("Volume", "slider"),
        ("First page", "page tab"),
        ("On the first page", "label"),
    ] {
        let found = elements.iter().find(|element| element["name"] == name);
        let element = found.unwrap_or_else(|| panic!("{name} must be in {list}"));
        assert_eq!(element["role"], role, "{element}");
        assert_eq!((&element["window"], &element["pid"]), (&json!("Everything"), &json!(program.pid())));
        assert!(has(element, "showing"), "{element}");
        let number = |name: &str| element[name].as_i64().expect("a number");
        assert!(number("width") > 0 && number("height") > 0, "{element}");
        assert!(number("x") >= 0 && number("x") + number("width") <= 800, "{element}");
        let parent = element["parent"].as_str().expect("a parent");
        assert!(
            elements.iter().any(|other| other["id"] == parent),
            "{element} must have its parent in the list"
        );
    }
    // Elements on the other page of the notebook are not visible.
    let names = |all: &serde_json::Value| {
        let all = all["elements"].as_array().expect("elements").clone();
        all.iter().map(|element| element["name"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    assert!(!names(&list).contains(&"On the second page".to_owned()));
    let all = stage.whole("include=all").await;
    let position = names(&all).iter().position(|name| name == "On the second page").expect("listed");
    let visible = names(&list).len();
    assert!(position >= visible, "hidden elements must come after the {visible} visible ones: {position}");
    let (name, password, volume) =
        (stage.named("Name").await, stage.named("Password").await, stage.named("Volume").await);
    assert_eq!((&name["text"], has(&name, "editable")), (&json!("old"), true), "{name}");
    assert!(password.get("text").is_none(), "{password}");
    assert_eq!(volume["value"], json!(10), "{volume}");
    assert!(stage.named("Save").await["actions"].as_array().is_some_and(|all| !all.is_empty()));
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_bounds_and_ids_hold() {
    let Some(mut stage) = Stage::boot().await else { return };
    let _program = stage.start("Long", 60).await;
    for (query, most, reason) in [
        ("max_nodes=5", 5, Some("max_nodes")),
        ("max_depth=0", 1, Some("max_depth")),
        ("role=button&name=row", 60, None),
        ("role=check%20box", 1, None),
        ("window=no%20such", 0, None),
        ("include=all&name=row%205&role=push%20button", 11, None),
    ] {
        let list = stage.whole(query).await;
        let count = list["elements"].as_array().expect("elements").len();
        assert!(count <= most, "{query}: {count}");
        assert_eq!(list["truncated"], json!(reason.is_some()), "{query}: {list}");
        assert_eq!(list.get("reason").and_then(|it| it.as_str()), reason, "{query}");
        assert!(query != "include=all&name=row%205&role=push%20button" || count == 11, "{count}");
    }
    // With a small limit, elements that take input are preferred over containers.
    let limited = stage.whole("max_nodes=3&window=long").await;
    for element in limited["elements"].as_array().expect("elements") {
        assert!(["button", "check box", "text"].contains(&element["role"].as_str().unwrap()), "{element}");
    }
    let ids = |list: &serde_json::Value| {
        let all = list["elements"].as_array().expect("elements").clone();
        all.iter().map(|element| element["id"].clone()).collect::<Vec<_>>()
    };
    let (first, second) = (stage.whole("include=all").await, stage.whole("include=all").await);
    assert_eq!(ids(&first), ids(&second), "equal objects must have equal ids");
    let mut different = ids(&first);
    different.sort_by_key(ToString::to_string);
    different.dedup();
    assert_eq!(different.len(), ids(&first).len(), "ids must be unique");
    for bad in
        ["max_nodes=0", "max_nodes=5001", "max_depth=101", "timeout_ms=10001", "include=x", "max_nodes=-1"]
    {
        assert_eq!(stage.agent.get(&format!("/elements?{bad}")).await.status, 400, "{bad}");
    }
    assert_eq!(stage.agent.get("/elements?screen=screen-100").await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_hangs_is_left_out_and_named_and_holds_up_nobody() {
    let Some(mut stage) = Stage::boot().await else { return };
    let unresponsive = stage.start("Hung", 0).await;
    let responsive = stage.start("Well", 0).await;
    let id = stage.whole("window=hung&name=save").await["elements"][0]["id"].clone();
    let id = id.as_str().expect("an id");
    unresponsive.signal(Signal::SIGSTOP);
    for _ in 0..3 {
        // On a busy machine the other program may be slow as well.
        let list = wait::until(TIMEOUT, || async {
            let list = stage.elements("timeout_ms=3000").await;
            let one_skipped = list["skipped"].as_array().is_some_and(|all| all.len() == 1);
            (one_skipped && list["took_ms"].as_u64() < Some(3000)).then_some(list)
        });
        let Some(list) = list.await else { panic!("{}", stage.elements("timeout_ms=3000").await) };
        assert_eq!(list["skipped"][0]["pid"], json!(unresponsive.pid()), "{list}");
        assert_eq!(
            (&list["skipped"][0]["reason"], &list["truncated"]),
            (&json!("does not answer"), &json!(true))
        );
        let responsive_elements = list["elements"].as_array().expect("elements");
        assert!(
            responsive_elements.iter().any(|it| it["name"] == "Save" && it["pid"] == json!(responsive.pid())),
            "{list}"
        );
        assert!(responsive_elements.iter().all(|it| it["pid"] == json!(responsive.pid())), "{list}");
    }
    let clicked = stage.click(id).await;
    assert_eq!(clicked.status, 504, "{}", clicked.body);
    unresponsive.signal(Signal::SIGCONT);
    let back = wait::until(TIMEOUT, || async {
        let list = stage.try_elements("window=hung").await?;
        (list.get("skipped").is_none() && list["elements"][0]["window"] == "Hung").then_some(())
    });
    assert!(back.await.is_some(), "the program must be listed again");
    assert_eq!(stage.click(id).await.body["success"], json!(true));
    unresponsive.wait_for_line("Save").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_focused_program_is_first_and_other_screens_are_apart() {
    let Some(mut stage) = Stage::boot().await else { return };
    let first = stage.start("First", 0).await;
    let second = stage.start("Second", 0).await;
    for program in [&first, &second, &first] {
        let id =
            stage.whole(&format!("window={}&name=Name", program.title)).await["elements"][0]["id"].clone();
        let focused = stage.act(id.as_str().expect("an id"), "focus", json!({})).await;
        assert_eq!(focused.body["success"], json!(true), "{}", focused.body);
        let list = wait::until(TIMEOUT, || async {
            let list = stage.try_elements("").await?;
            (list.get("skipped").is_none() && list["elements"][0]["window"] == program.title).then_some(list)
        });
        let Some(list) = list.await else { panic!("{}: {}", program.title, stage.elements("").await) };
        let windows: Vec<_> =
            list["elements"].as_array().expect("elements").iter().map(|it| it["window"].clone()).collect();
        let changes = windows.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert_eq!(changes, 1, "one window after the other: {windows:?}");
    }
    let created = stage.agent.post("/screens", json!({"width": 640, "height": 480})).await;
    assert_eq!(created.status, 200, "{}", created.body);
    let other = created.body["id"].as_str().expect("an id");
    let empty = stage.elements(&format!("screen={other}")).await;
    assert_eq!((&empty["elements"], &empty["screen"]), (&json!([]), &json!(other)));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_table_of_many_rows_those_in_sight_are_listed() {
    let Some(mut stage) = Stage::boot().await else { return };
    let _program = stage.start_with("Table", &["0", "20000"]).await;
    let found = wait::until(TIMEOUT, || async {
        let list = stage.try_elements("name=cell%2010").await?;
        (list["truncated"] == false && list["elements"][0].is_object()).then_some(list)
    });
    let Some(list) = found.await else { panic!("no visible row: {}", stage.elements("").await) };
    let rows = list["elements"].as_array().expect("elements");
    assert!((2..20).contains(&rows.len()) && list["truncated"] == json!(false), "{list}");
    assert!(rows.iter().all(|row| row["role"] == "table cell" && has(row, "showing")), "{list}");
    // The table has more rows than the agent reads, and the answer reports that.
    let all = stage.elements("include=all&timeout_ms=10000").await;
    assert_eq!(all["truncated"], json!(true), "{}", all["reason"]);
}
