//! Terminal of a computer through the controller.

use super::*;
use crate::harness::controller::RunningController;

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_s_terminal_is_reached_through_the_controller() {
    let Some((controller, _, id)) = RunningController::with_a_computer().await else { return };
    let got = controller.get(&format!("/computers/{id}/vnc-password")).await;
    let password = got.body["password"].as_str().expect("a password").to_owned();
    let path = format!("/desktops/{id}/ws/terminal?token={password}&cols=200&rows=50");
    let mut terminal = Terminal::at(controller.address(), &path).await;
    assert_eq!(terminal.run("stty size; pwd; echo $DISPLAY").await, "50 200\r\n/root/Desktop\r\n:99\r\n");
    terminal.send_message(json!({ "type": "resize", "cols": 100, "rows": 20 })).await;
    assert_eq!(terminal.run("stty size").await, "20 100\r\n");

    // A flood is interrupted through both sockets. The best of three attempts counts, because a loaded
    // machine may delay one.
    let mut took = Duration::MAX;
    for _ in 0..3 {
        terminal.input("yes\r").await;
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(1) {
            assert_eq!(terminal.read_output().await, None);
        }
        terminal.text.clear();
        let interrupted = Instant::now();
        terminal.input("\u{3}").await;
        terminal.input("echo af''ter\r").await;
        terminal.until("after\r\n").await;
        took = took.min(interrupted.elapsed());
    }
    assert!(took < Duration::from_secs(1), "{took:?}");

    let megabyte = format!("{}\r", "0123456789".repeat(10)).repeat(10_000);
    // While a command runs, the shell has restored the terminal's handling of carriage returns. Without echo:
    // the kernel may show the echo of input after what a program writes later.
    terminal.input("stty -echo; echo go''ing; cat >/root/pasted; wc -c </root/pasted; echo do''ne\r").await;
    terminal.until("going\r\n").await;
    terminal.input(&megabyte).await;
    terminal.input("\u{4}").await;
    assert_eq!(terminal.until("done\r\n").await, "1010000\r\ndone\r\n");

    terminal.input("exit 3\r").await;
    assert_eq!(terminal.next_message().await, exit(3));
    assert_eq!(terminal.next_message().await, ServerMessage::Closed(1000));

    let mut refused =
        Terminal::at(controller.address(), &format!("{path}&cols=0").replace("cols=200&", "")).await;
    assert!(
        matches!(refused.next_message().await, ServerMessage::Other(message) if message["type"] == "error")
    );
    assert_eq!(refused.next_message().await, ServerMessage::Closed(4500));

    // The controller passes the agent's error on.
    let mut nowhere = Terminal::at(controller.address(), &format!("{path}&screen=nowhere")).await;
    assert!(
        matches!(nowhere.next_message().await, ServerMessage::Other(message) if message["type"] == "error")
    );
    assert_eq!(nowhere.next_message().await, ServerMessage::Closed(4404));
}
