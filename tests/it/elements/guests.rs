//! Do the images show the trees of their programs, through the controller?

use hotdesk::base::wait;
use serde_json::{Value, json};

use super::stage::{PATIENCE, has};
use crate::harness::controller::{RunningController, no_computers_here};

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_s_editor_is_read_and_written_through_the_controller() {
    if let Some(reason) = no_computers_here() {
        return println!("{reason}");
    }
    let house = RunningController::boot().await;
    let workspace = house.workspace("demo").await;
    let made = house.computer(&workspace, "desk").await;
    let id = made["id"].as_str().expect("an id");
    house.bash(id, "mousepad >/dev/null 2>&1 &").await;
    let path = |more: &str| format!("/computers/{id}/elements{more}");
    let find = async |query: &str| {
        let found = wait::until(PATIENCE, || async {
            let list = house.get(&path(&format!("?{query}"))).await;
            let first: Value = list.body["elements"][0].clone();
            (list.status == 200 && first.is_object()).then_some(first)
        });
        found.await.unwrap_or_else(|| panic!("nothing has {query}"))
    };
    let text = find("window=mousepad&role=text").await;
    assert!(has(&text, "editable") && text["width"].as_i64() > Some(100), "{text}");
    let text = text["id"].as_str().expect("an id");
    let set = house.post(&path(&format!("/{text}/set_value")), json!({"value": "Hello\nworld"})).await;
    assert_eq!((set.status, &set.body["success"]), (200, &json!(true)), "{}", set.body);
    assert_eq!(set.body["element"]["text"], json!("Hello\nworld"), "{}", set.body);
    let menu = find("window=mousepad&role=menu&name=file").await;
    let menu = menu["id"].as_str().expect("an id");
    let clicked = house.post(&path(&format!("/{menu}/click")), json!({})).await;
    assert_eq!((clicked.status, &clicked.body["success"]), (200, &json!(true)), "{}", clicked.body);
    let entry = find("role=menu%20item&name=open").await;
    assert_eq!(entry["app"].as_str().map(str::to_lowercase).as_deref(), Some("mousepad"), "{entry}");
    let marked = house.get(&path("/marked?format=jpeg")).await;
    assert_eq!(marked.status, 200, "{}", marked.body);
    assert_eq!(marked.body["elements"][0]["mark"], json!(1));
    let gone = house.post(&path("/e-000000000000/focus"), json!({})).await;
    assert_eq!((gone.status, &gone.body["code"]), (404, &json!("element_gone")), "{}", gone.body);
}
