//! RTMP streams of real computers: to a real server, through the computer's network, and never to a private
//! address.

use std::io::Write as _;
use std::time::Duration;

use hotdesk::base::wait;
use reqwest::Method;
use serde_json::json;

use crate::harness::caller::id_of;
use crate::harness::capability::Capability;
use crate::harness::controller::{RunningController, gvisor};
use crate::harness::host;
use crate::harness::network::TestNetwork;
use crate::harness::rtmp::{RtmpServer, colours, loudness, probe, tone};

const TIMEOUT: Duration = Duration::from_secs(60);
const KEY: &str = "hunter2secret?token=correct-horse";

/// On gVisor: a stream reaches its server, and a recording plays.
#[tokio::test(flavor = "multi_thread")]
async fn a_computer_over_gvisor_streams_and_is_recorded() {
    let Some(runtime) = gvisor() else { return };
    let configuration = format!("{runtime}[streaming]\nallow_private = true\n");
    let Some(controller) = RunningController::boot_full_with(&configuration).await else { return };
    let network = TestNetwork::new();
    let Some(server) = RtmpServer::in_network(&network).await else { return };
    let workspace = controller.workspace("w").await;
    let id = id_of(&controller.computer(&workspace, "desk").await);
    let to = json!({"name": "world", "url": server.url("live"), "key": KEY});
    controller.create("/stream/connections", to).await;
    let at = |what: &str| format!("/computers/{id}/{what}");
    let started = controller.post(&at("stream/start"), json!({"connection_name": "world"})).await;
    assert_eq!((started.status, &started.body["status"]), (200, &json!("streaming")), "{}", started.body);
    let recording_started = controller.post(&at("recordings"), json!({"fps": 5, "max_seconds": 120})).await;
    assert_eq!(recording_started.status, 201, "{}", recording_started.body);
    let recording = at(&format!("recordings/{}", id_of(&recording_started.body)));
    let long_enough = wait::until(TIMEOUT, || async {
        controller.get(&recording).await.body["seconds"].as_f64().filter(|seconds| *seconds > 2.0)
    });
    assert!(long_enough.await.is_some(), "{}", controller.get(&recording).await.body);
    let ended = controller.post(&format!("{recording}/stop"), json!({})).await;
    assert_eq!((ended.status, &ended.body["status"]), (200, &json!("stopped")), "{}", ended.body);
    let video =
        controller.request(Method::GET, &format!("{recording}/video")).send().await.expect("an answer");
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(&video.bytes().await.expect("a video")).expect("written");
    assert_eq!(probe(file.path()), (vec!["h264".to_owned()], 1280, 720));
    let file = server.received(20_000).await;
    assert_eq!(controller.get(&at("stream/status")).await.body["status"], "streaming");
    assert_eq!(controller.post(&at("stream/stop"), json!({})).await.status, 200);
    assert_eq!(probe(&file), (vec!["aac".to_owned(), "h264".to_owned()], 1280, 720));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_streams_to_the_world_and_its_key_shows_nowhere() {
    // The address check of the API is off: here, the computer's network refuses the private address.
    let configuration = "log = \"trace\"\n[streaming]\nallow_private = true\n";
    let Some(controller) = RunningController::boot_full_with(configuration).await else { return };
    let network = TestNetwork::new();
    let Some(mut server) = RtmpServer::in_network(&network).await else { return };
    let workspace = controller.workspace("w").await;
    let id = id_of(&controller.computer(&workspace, "desk").await);
    let at = |what: &str| format!("/computers/{id}/stream/{what}");
    let save = async |name: &str, url: &str| {
        controller.create("/stream/connections", json!({"name": name, "url": url, "key": KEY})).await
    };
    save("world", &server.url("live")).await;
    save("private", &format!("rtmp://{}/live", network.private)).await;
    let blocked = controller.post(&at("start"), json!({"connection_name": "private"})).await;
    assert_eq!((blocked.status, &blocked.body["code"]), (503, &json!("stream_refused")), "{}", blocked.body);
    assert_eq!(controller.get(&at("status")).await.body, json!({"status": "idle"}));

    // TLS: a certificate that the computer does not trust is refused.
    match server.certificate() {
        None => Capability::Rtmp.skip("no nginx with its stream module (make deps-test)"),
        Some(certificate) => {
            save("secure", &format!("rtmps://{}/live", network.public)).await;
            let unknown = controller.post(&at("start"), json!({"connection_name": "secure"})).await;
            assert_eq!(
                (unknown.status, &unknown.body["code"]),
                (503, &json!("stream_refused")),
                "{}",
                unknown.body
            );
            assert!(unknown.body["error"].as_str().is_some_and(|error| error.contains("certificate")));
            let trust = format!("cat >>/etc/ssl/certs/ca-certificates.crt <<'END'\n{certificate}END\n");
            controller.bash(&id, &trust).await;
            let known = controller.post(&at("start"), json!({"connection_name": "secure"})).await;
            assert_eq!(known.status, 200, "{}", known.body);
            assert_eq!(controller.post(&at("stop"), json!({})).await.status, 200);
        }
    }

    // A red bar over the middle of the screen.
    controller
        .bash(
            &id,
            "(DISPLAY=:99 setsid python3 -c 'import tkinter as t; w = t.Tk(); w.overrideredirect(1); \
             w.geometry(\"400x200+400+200\"); w.configure(bg=\"#ff0000\"); w.update(); \
             open(\"/tmp/shown\", \"w\"); w.mainloop()' >/dev/null 2>&1 &); \
             until [ -e /tmp/shown ] && pactl info >/dev/null 2>&1; do sleep 0.1; done",
        )
        .await;
    let started = controller.post(&at("start"), json!({"connection_name": "World"})).await;
    assert_eq!((started.status, &started.body["status"]), (200, &json!("streaming")), "{}", started.body);
    let twice = controller.post(&at("start"), json!({"connection_name": "world"})).await;
    assert_eq!((twice.status, &twice.body["code"]), (409, &json!("already_streaming")));
    let status = controller.get(&at("status")).await.body;
    assert_eq!((&status["status"], &status["sound"]), (&json!("streaming"), &json!(true)), "{status}");
    assert!(server.log().contains("name='hunter2secret' args='token=correct-horse'"), "{}", server.log());

    // All places where the key could show: process lists inside and outside, verbose logs, responses.
    let listed = controller.get("/stream/connections").await.body.to_string();
    let inside = "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | tr '\\0' ' '; ps axeww; \
                  cat /var/log/hotdesk/* 2>/dev/null";
    let inside = controller.bash(&id, inside).await;
    assert!(inside.contains("-fpre /dev/stdin"), "the encoder must be in the process list: {inside}");
    let mut texts = vec![listed, status.to_string(), twice.body.to_string(), inside];
    for pid in host::processes(&id) {
        for part in ["cmdline", "environ"] {
            texts.push(
                String::from_utf8_lossy(&std::fs::read(format!("/proc/{pid}/{part}")).unwrap_or_default())
                    .into(),
            );
        }
    }
    let sent = controller
        .request(Method::PUT, &format!("/computers/{id}/files/content?path=tone"))
        .body(tone(440.0, 2.0));
    let sent = sent.send().await.expect("an answer");
    assert!(sent.status().is_success(), "{}", sent.text().await.unwrap_or_default());
    controller.bash(&id, "pacat --playback --raw --format=s16le --rate=48000 --channels=1 <~/tone").await;
    let file = server.received(1).await;
    server.received(file.metadata().expect("facts").len() + 10_000).await;
    server.kill();
    let ended = wait::until(TIMEOUT, || async {
        Some(controller.get(&at("status")).await.body).filter(|status| status["status"] == "terminated")
    });
    let ended = ended.await.expect("the stream is terminated");
    assert_eq!(ended["reason"], "server_gone", "{ended}");
    assert_eq!(controller.post(&at("stop"), json!({})).await.status, 200);
    assert_eq!(controller.get(&at("status")).await.body, json!({"status": "idle"}));
    texts.push(ended.to_string());
    texts.push(controller.log());
    for text in &texts {
        let line = text.lines().find(|line| line.contains("hunter2") || line.contains("correct-horse"));
        assert!(line.is_none(), "the key is in: {line:?}");
    }
    assert!(controller.log().contains("/stream/start"), "the log must be verbose");

    assert_eq!(probe(&file), (vec!["aac".to_owned(), "h264".to_owned()], 1280, 720));
    let [r, g, b] = *colours(&file, "200:100:500:250").last().expect("pictures");
    assert!(r > 180 && g < 70 && b < 70, "the bar is {r} {g} {b}");
    let [r, g, b] = *colours(&file, "100:100:100:100").last().expect("pictures");
    assert!(r < 120 && g < 120, "the screen beside it is {r} {g} {b}");
    let level = loudness(&file, 440.0);
    assert!(level > 0.4, "440 Hz at {level:.3}");
}
