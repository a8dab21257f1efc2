//! Identity of a clone of a real computer, from the first moment at which it can be reached.
//!
//! T28 (docs/security.md).

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;

use crate::harness::caller::id_of;
use crate::harness::controller::{RunningController, gvisor};

/// Properties that identify a computer, measured inside of it: one name and value a line.
const IDENTITY: &str = "echo machine-id $(cat /etc/machine-id); echo bus-id $(cat /var/lib/dbus/machine-id); \
    echo name $(hostname) $(cat /etc/hostname); echo mac $(ip -o link show eth0 | grep -o 'ether [^ ]*'); \
    echo token $(sha256sum </run/hotdesk/token); echo random $(head -c 16 /dev/urandom | base64); \
    for key in /etc/ssh/ssh_host_*_key; do echo $key $(sha256sum <$key) $(sha256sum <$key.pub); done; ls -A /etc/ssh | grep -c new";

async fn check_identity(controller: RunningController, types: &str) {
    let workspace = controller.workspace("demo").await;
    let source = controller.computer(&workspace, "one").await;
    let first = id_of(&source);
    let keys = format!(
        "for type in {types}; do ssh-keygen -q -N '' -t $type -f /etc/ssh/ssh_host_${{type}}_key; done; \
         rm -f /var/lib/dbus/machine-id; cp /etc/machine-id /var/lib/dbus/machine-id; echo mine >/root/note"
    );
    controller.bash(&first, &keys).await;
    let before = controller.bash(&first, IDENTITY).await;
    let cloned = controller.post(&format!("/computers/{first}/clone"), json!({})).await;
    assert_eq!(cloned.status, 201, "{}", cloned.body);
    let second = id_of(&cloned.body);
    assert_ne!(cloned.body["vnc_password"], source["vnc_password"]);
    assert_eq!(controller.bash(&second, "cat /root/note").await, "mine\n");

    let after = controller.bash(&second, IDENTITY).await;
    let lines: Vec<(&str, &str)> = before.lines().zip(after.lines()).collect();
    assert_eq!(lines.len(), 7 + types.split(' ').count(), "{before}\n{after}");
    let (key_directory, identity) = lines.split_last().expect("lines");
    for (before_line, after_line) in identity {
        assert_eq!(before_line.split(' ').next(), after_line.split(' ').next(), "{after}");
        assert_ne!(before_line, after_line, "{after}");
    }
    assert_eq!(*key_directory, ("0", "0"), "no temporary file of the key generation is left");
    let line = |name: &str| {
        after.lines().find(|line| line.starts_with(name)).and_then(|line| line.split(' ').nth(1))
    };
    assert!(line("machine-id").is_some() && line("machine-id") == line("bus-id"), "{after}");
    let kinds =
        controller.bash(&second, "for key in /etc/ssh/ssh_host_*.pub; do ssh-keygen -lf $key; done").await;
    assert_eq!(kinds.lines().count(), types.split(' ').count(), "{kinds}");
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64();
    let began = now();
    let clock: f64 = controller.bash(&second, "date +%s.%N").await.trim().parse().expect("a time");
    assert!(clock > began - 0.5 && clock < now() + 0.5, "the guest's clock shows {clock} at {began}");

    // The identity of the source is unchanged, and the clone's is stable.
    let stable_part =
        |text: String| text.lines().filter(|line| !line.starts_with("random")).collect::<Vec<_>>().join("\n");
    assert_eq!(stable_part(controller.bash(&first, IDENTITY).await), stable_part(before.clone()));
    let persistent = |text: &str| {
        let own =
            |line: &&str| ["machine-id", "bus-id", "name", "/etc/ssh"].iter().any(|it| line.starts_with(it));
        text.lines().filter(own).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(controller.act(&second, "restart", json!({})).await.status, 200);
    assert_eq!(persistent(&controller.bash(&second, IDENTITY).await), persistent(&after));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clone_shares_nothing_that_tells_its_source_from_others() {
    let Some(controller) = RunningController::boot_full().await else { return };
    check_identity(controller, "rsa ecdsa ed25519").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clone_of_a_computer_over_gvisor_shares_nothing_either() {
    let Some(configuration) = gvisor() else { return };
    let Some(controller) = RunningController::boot_full_with(&configuration).await else { return };
    check_identity(controller, "ed25519").await;
}
