//! Commands for templates, and for what a computer has from its template.

use super::{ID, one_computer};

#[tokio::test]
async fn a_log_is_followed_until_its_end() {
    let (server, shell) = one_computer().await;
    let path = format!("GET /api/computers/{ID}/services/site/log");
    let events = "data: {\"line\":\"one\"}\n\n:\n\ndata: {\"line\":\"two  words\"}\n\n";
    server.respond(&path, 200, events);
    let follow = ["services", "log", "first light", "site", "--follow", "--bytes", "9"];
    let followed = shell.run(&follow).await;
    assert_eq!((followed.code, &*followed.out), (0, "one\ntwo  words\n"), "{followed:?}");
    assert!(followed.err.starts_with("The log has ended"), "{followed:?}");
    let json = shell.run(&[&follow[..], &["--json"]].concat()).await.expect_success();
    assert_eq!(json, "{\"line\":\"one\"}\n{\"line\":\"two  words\"}\n");
    assert!(server.lines().contains(&format!("{path}?follow=true&bytes=9")), "{:?}", server.lines());
    server.respond(&path, 503, "{\"error\": \"Too many follow\", \"code\": \"too_many_followers\"}");
    shell.run(&follow).await.expect_failure(1, &["Too many follow (too_many_followers)"]);
    server.respond(&path, 200, "data: nonsense\n\n");
    shell.run(&follow).await.expect_failure(1, &["cannot parse the server's log entry"]);
}
