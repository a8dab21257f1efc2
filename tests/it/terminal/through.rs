//! Is it the same through the controller, in a computer?

use super::*;
use crate::harness::controller::RunningController;

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_s_terminal_is_reached_through_the_controller() {
    let Some((house, _, id)) = RunningController::with_a_computer().await else { return };
    let got = house.get(&format!("/computers/{id}/vnc-password")).await;
    let password = got.body["password"].as_str().expect("a password").to_owned();
    let path = format!("/desktops/{id}/ws/terminal?token={password}&cols=200&rows=50");
    let mut terminal = Terminal::at(house.address(), &path).await;
    assert_eq!(terminal.run("stty size; pwd; echo $DISPLAY").await, "50 200\r\n/root/Desktop\r\n:99\r\n");
    terminal.say(json!({ "type": "resize", "cols": 100, "rows": 20 })).await;
    assert_eq!(terminal.run("stty size").await, "20 100\r\n");

    // A flood is interrupted through both sockets; the best of three, since a loaded machine holds one up.
    let mut took = Duration::MAX;
    for _ in 0..3 {
        terminal.input("yes\r").await;
        let flooded = Instant::now();
        while flooded.elapsed() < Duration::from_secs(1) {
            assert_eq!(terminal.next().await, None);
        }
        terminal.text.clear();
        let asked = Instant::now();
        terminal.input("\u{3}").await;
        terminal.input("echo af''ter\r").await;
        terminal.until("after\r\n").await;
        took = took.min(asked.elapsed());
    }
    assert!(took < Duration::from_secs(1), "{took:?}");

    let megabyte = format!("{}\r", "0123456789".repeat(10)).repeat(10_000);
    // Once a command runs, the shell has given the terminal back its own way with carriage returns.
    terminal.input("echo go''ing; cat >/root/pasted; wc -c </root/pasted; echo do''ne\r").await;
    terminal.until("going\r\n").await;
    terminal.input(&megabyte).await;
    terminal.input("\u{4}").await;
    assert!(terminal.until("done\r\n").await.ends_with("\r\n1010000\r\ndone\r\n"));

    terminal.input("exit 3\r").await;
    assert_eq!(terminal.other().await, exit(3));
    assert_eq!(terminal.other().await, Said::Closed(1000));

    let mut refused = Terminal::at(house.address(), &format!("{path}&cols=0").replace("cols=200&", "")).await;
    assert!(matches!(refused.other().await, Said::Other(message) if message["type"] == "error"));
    assert_eq!(refused.other().await, Said::Closed(4500));

    // The same as an agent says itself.
    let mut nowhere = Terminal::at(house.address(), &format!("{path}&screen=nowhere")).await;
    assert!(matches!(nowhere.other().await, Said::Other(message) if message["type"] == "error"));
    assert_eq!(nowhere.other().await, Said::Closed(4404));
}
