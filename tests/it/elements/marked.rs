//! Numbered marks in screenshots and the elements that they belong to.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hotdesk::base::wait;
use serde_json::{Value, json};

use super::stage::{Stage, TIMEOUT};

/// Requests the marked screenshot until no program is left out as slow.
async fn marked(stage: &Stage, query: &str) -> Value {
    let path = format!("/elements/marked?timeout_ms=10000&{query}");
    let whole = wait::until(TIMEOUT, || async {
        let answer = stage.agent.get(&path).await;
        let whole = answer.body.get("skipped").is_none() && answer.body["reason"] != "timeout";
        (answer.status == 200 && whole).then_some(answer.body)
    });
    match whole.await {
        Some(body) => body,
        None => panic!("{query}: {}", stage.agent.get(&path).await.body),
    }
}

fn pixels(body: &Value) -> (u32, u32, Vec<u8>) {
    let bytes = STANDARD.decode(body["image"].as_str().expect("an image")).expect("base64");
    let mut reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().expect("a PNG");
    let mut rgb = vec![0; reader.output_buffer_size().expect("a size")];
    let info = reader.next_frame(&mut rgb).expect("a whole PNG");
    (info.width, info.height, rgb)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_picture_has_a_numbered_mark_on_every_listed_box() {
    let Some(mut stage) = Stage::boot().await else { return };
    let _program = stage.start("Marks", 0).await;
    let body = marked(&stage, "").await;
    let elements = body["elements"].as_array().expect("elements").clone();
    assert!(elements.len() >= 6, "{elements:?}");
    let marks: Vec<_> = elements.iter().map(|element| element["mark"].as_u64().expect("a mark")).collect();
    assert_eq!(marks, (1..=elements.len() as u64).collect::<Vec<_>>());
    assert!(elements.iter().all(|element| element["role"] != "label" && element["role"] != "frame"));
    let (width, height, rgb) = pixels(&body);
    assert_eq!((width, height, &body["mime_type"]), (800, 600, &json!("image/png")));
    let plain = stage.agent.get("/screenshot").await.body;
    let (_, _, before) = pixels(&plain);
    let at = |rgb: &[u8], x: i64, y: i64| {
        let from = usize::try_from(y * 800 + x).expect("inside") * 3;
        rgb[from..from + 3].to_vec()
    };
    for element in &elements {
        let (x, y) = (element["x"].as_i64().unwrap(), element["y"].as_i64().unwrap());
        let (right, bottom) =
            (x + element["width"].as_i64().unwrap() - 1, y + element["height"].as_i64().unwrap() - 1);
        // The corner away from the element's own badge and from others.
        assert_ne!(at(&rgb, right, bottom), at(&before, right, bottom), "{element}");
    }
    let half = marked(&stage, "scale=0.5&format=jpeg&quality=90").await;
    assert_eq!((&half["width"], &half["mime_type"]), (&json!(400), &json!("image/jpeg")));
    assert_eq!(half["elements"][0]["id"], body["elements"][0]["id"]);
    let labels = marked(&stage, "role=label&max_nodes=1").await;
    assert_eq!((&labels["elements"][0]["mark"], &labels["reason"]), (&json!(1), &json!("max_nodes")));
    for bad in ["max_nodes=501", "format=gif", "scale=0", "quality=0", "timeout_ms=1"] {
        assert_eq!(stage.agent.get(&format!("/elements/marked?{bad}")).await.status, 400, "{bad}");
    }
}
