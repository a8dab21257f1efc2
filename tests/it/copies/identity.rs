//! Is the clone of a real computer another one from the first moment at which it can be reached? (threats.md T28)

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;

use crate::harness::caller::id_of;
use crate::harness::controller::{RunningController, gvisor};

/// What tells a computer from others, by its own programs: a name and what it is, a line each.
const WHO: &str = "echo machine-id $(cat /etc/machine-id); echo bus-id $(cat /var/lib/dbus/machine-id); \
    echo name $(hostname) $(cat /etc/hostname); echo mac $(ip -o link show eth0 | grep -o 'ether [^ ]*'); \
    echo token $(sha256sum </run/hotdesk/token); echo random $(head -c 16 /dev/urandom | base64); \
    for key in /etc/ssh/ssh_host_*_key; do echo $key $(sha256sum <$key) $(sha256sum <$key.pub); done; ls -A /etc/ssh | grep -c new";

async fn a_clone_is_another_one(house: RunningController, types: &str) {
    let workspace = house.workspace("demo").await;
    let source = house.computer(&workspace, "one").await;
    let first = id_of(&source);
    let keys = format!(
        "for type in {types}; do ssh-keygen -q -N '' -t $type -f /etc/ssh/ssh_host_${{type}}_key; done; \
         rm -f /var/lib/dbus/machine-id; cp /etc/machine-id /var/lib/dbus/machine-id; echo mine >/root/note"
    );
    house.bash(&first, &keys).await;
    let before = house.bash(&first, WHO).await;
    let cloned = house.post(&format!("/computers/{first}/clone"), json!({})).await;
    assert_eq!(cloned.status, 201, "{}", cloned.body);
    let second = id_of(&cloned.body);
    assert_ne!(cloned.body["vnc_password"], source["vnc_password"]);
    assert_eq!(house.bash(&second, "cat /root/note").await, "mine\n");

    let after = house.bash(&second, WHO).await;
    let told: Vec<(&str, &str)> = before.lines().zip(after.lines()).collect();
    assert_eq!(told.len(), 7 + types.split(' ').count(), "{before}\n{after}");
    let (left, kept) = told.split_last().expect("lines");
    for (was, is) in kept {
        assert_eq!(was.split(' ').next(), is.split(' ').next(), "{after}");
        assert_ne!(was, is, "{after}");
    }
    assert_eq!(*left, ("0", "0"), "nothing is left of making keys");
    let line = |name: &str| {
        after.lines().find(|line| line.starts_with(name)).and_then(|line| line.split(' ').nth(1))
    };
    assert!(line("machine-id").is_some() && line("machine-id") == line("bus-id"), "{after}");
    let kinds = house.bash(&second, "for key in /etc/ssh/ssh_host_*.pub; do ssh-keygen -lf $key; done").await;
    assert_eq!(kinds.lines().count(), types.split(' ').count(), "{kinds}");
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64();
    let began = now();
    let there: f64 = house.bash(&second, "date +%s.%N").await.trim().parse().expect("a time");
    assert!(there > began - 0.5 && there < now() + 0.5, "its clock says {there} at {began}");

    // The source is who it was, and the clone stays who it is.
    let same =
        |text: String| text.lines().filter(|line| !line.starts_with("random")).collect::<Vec<_>>().join("\n");
    assert_eq!(same(house.bash(&first, WHO).await), same(before.clone()));
    let lasting = |text: &str| {
        let own =
            |line: &&str| ["machine-id", "bus-id", "name", "/etc/ssh"].iter().any(|it| line.starts_with(it));
        text.lines().filter(own).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(house.act(&second, "restart", json!({})).await.status, 200);
    assert_eq!(lasting(&house.bash(&second, WHO).await), lasting(&after));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clone_shares_nothing_that_tells_its_source_from_others() {
    let Some(house) = RunningController::boot_full().await else { return };
    a_clone_is_another_one(house, "rsa ecdsa ed25519").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clone_of_a_computer_over_gvisor_shares_nothing_either() {
    let Some(configuration) = gvisor() else { return };
    let Some(house) = RunningController::boot_full_with(&configuration).await else { return };
    a_clone_is_another_one(house, "ed25519").await;
}
