//! Checks whether an Incus server can run computers.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::driver::checks::Check;
use crate::incus::client::Client;
use crate::incus::hosts::list_hosts;
use crate::incus::image::{GuestImage, list_members};
use crate::incus::network::Bridge;
use crate::incus::settings::IncusSettings;
use crate::{EngineError, EngineResult, HostSettings};
use hotdesk_domain::computer::isolation::Isolation;

/// Oldest version whose API is used: that with long-term support.
const MIN_MAJOR: u32 = 6;
/// Drivers of storage pools that limit the size of a disk and copy disks without copying their data. `btrfs` is tested.
const DRIVERS: [&str; 4] = ["btrfs", "zfs", "lvm", "ceph"];

const TESTED_DRIVER: &str = "btrfs";
/// Driver of pools that all members share.
const SHARED_DRIVER: &str = "ceph";

/// The checks. Each asks the server, which takes milliseconds and changes nothing.
pub(crate) fn checks<'a>(host: &HostSettings, settings: &IncusSettings) -> Vec<Check<'a>> {
    let host = Arc::new(host.clone());
    let settings = Arc::new(settings.clone());
    let server = Arc::clone(&settings);
    let pool = Arc::clone(&settings);
    let (network, network_host) = (Arc::clone(&settings), Arc::clone(&host));
    let hosts = Arc::clone(&settings);
    let (members, members_host) = (Arc::clone(&settings), Arc::clone(&host));
    vec![
        Check::new(
            "Incus",
            "install Incus 6, let it trust the client certificate (docs/engines/incus.md), and set engines.incus",
            move || ask(async move { find_server(&server).await }),
        )
        .quick(),
        Check::new("hosts", "start the members that do not answer, or see docs/hosts.md", move || {
            ask(async move { find_hosts(&hosts).await })
        })
        .quick()
        .optional(),
        Check::new("storage pool", "set engines.incus.pool to a pool with btrfs or zfs", move || {
            ask(async move { find_pool(&pool).await })
        })
        .quick(),
        Check::new(
            "network",
            "make the bridge with its rules as docs/engines/incus.md says, and set engines.incus.network",
            move || ask(async move { find_network(&network, &network_host).await }),
        )
        .quick(),
        Check::new("published image", "run `hotdesk image build`, then `hotdesk image publish`", move || {
            ask(async move { find_image(&settings, &host).await })
        })
        .quick(),
        Check::new("image on each member", "run `hotdesk image publish`", move || {
            ask(async move { find_members(&members, &members_host).await })
        })
        .quick()
        .optional(),
    ]
}

async fn find_server(settings: &IncusSettings) -> EngineResult<String> {
    const STEP: &str = "use Incus";
    let found = Client::open(settings)?.get("/1.0").await.map_err(|error| error.at(STEP))?;
    if found["auth"] != "trusted" {
        return Err(EngineError::failed(STEP, format!("{} does not trust this client", settings.url)));
    }
    let environment = &found["environment"];
    let version = environment["server_version"].as_str().unwrap_or_default();
    check_version(version).map_err(|why| EngineError::failed(STEP, why))?;
    // Instances with user ids of their own share a volume by them.
    let shares_volumes = environment["kernel_features"]["idmapped_mounts"] == "true";
    if settings.offered.contains(&Isolation::Sandbox) && !shares_volumes {
        let detail = "its kernel has no idmapped mounts, which computers of isolation sandbox need; \
                      update the kernel, or leave sandbox out of engines.offered";
        return Err(EngineError::failed(STEP, detail));
    }
    let kind = if environment["server_clustered"] == true { "a cluster" } else { "one server" };
    Ok(format!("{version} at {}, {kind}", settings.url))
}

async fn find_hosts(settings: &IncusSettings) -> EngineResult<String> {
    const STEP: &str = "use all hosts";
    let hosts = list_hosts(&Client::open(settings)?, settings, None, &BTreeSet::new()).await?;
    let silent: Vec<&str> =
        hosts.iter().filter(|host| !host.is_online).map(|host| host.name.as_str()).collect();
    if silent.is_empty() {
        Ok(format!("{0} of {0} online", hosts.len()))
    } else {
        Err(EngineError::failed(STEP, format!("{} of {} do not answer", silent.join(", "), hosts.len())))
    }
}

fn check_version(version: &str) -> Result<(), String> {
    let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
    if major.is_some_and(|major| major >= MIN_MAJOR) {
        Ok(())
    } else {
        Err(format!("its version is {version:?}, and {MIN_MAJOR} or newer is needed"))
    }
}

async fn find_pool(settings: &IncusSettings) -> EngineResult<String> {
    const STEP: &str = "use the storage pool";
    let path = format!("/1.0/storage-pools/{}", settings.pool);
    let found = Client::open(settings)?.get(&path).await.map_err(|error| error.at(STEP))?;
    let driver = found["driver"].as_str().unwrap_or_default();
    if DRIVERS.contains(&driver) {
        return Ok(format!("{} ({})", settings.pool, describe_driver(driver)));
    }
    let detail = format!("{} has the driver {driver:?}, not one of {}", settings.pool, DRIVERS.join(", "));
    Err(EngineError::failed(STEP, detail))
}

/// What is known of a driver, for the operator.
fn describe_driver(driver: &str) -> String {
    match driver {
        TESTED_DRIVER => driver.to_owned(),
        SHARED_DRIVER => {
            format!("{driver}, storage that all members share: untested, and replicas are not needed on it")
        }
        other => format!("{other}: untested"),
    }
}

async fn find_network(settings: &IncusSettings, host: &HostSettings) -> EngineResult<String> {
    let bridge = Bridge::read(&Client::open(settings)?, settings, &host.network).await?;
    Ok(match bridge {
        Some(_) => format!("bridge {}", settings.network),
        None => "computers have no network".to_owned(),
    })
}

async fn find_image(settings: &IncusSettings, host: &HostSettings) -> EngineResult<String> {
    let client = Client::open(settings)?;
    let mut found = Vec::new();
    for image in guest_images(settings, host)? {
        image.find(&client).await?;
        found.push(image.alias());
    }
    Ok(found.join(", "))
}

/// The guest image in the form of each offered isolation.
fn guest_images(settings: &IncusSettings, host: &HostSettings) -> EngineResult<Vec<GuestImage>> {
    let read = |isolation: &Isolation| GuestImage::read_for(*isolation, &host.image, &settings.runsc);
    settings.offered.iter().map(read).collect()
}

/// Looks which members lack an image or its volume. Computers can be made on those, but the first one waits until the image is fetched.
async fn find_members(settings: &IncusSettings, host: &HostSettings) -> EngineResult<String> {
    const STEP: &str = "find the image on each member";
    let client = Client::open(settings)?;
    let (mut lacking, mut count) = (BTreeSet::new(), 0);
    for image in guest_images(settings, host)? {
        let image = image.find(&client).await?;
        let found = list_members(&client, &settings.pool, &image).await;
        let members = found.map_err(|error| error.at(STEP))?.members;
        count = members.len();
        lacking.extend(members.into_iter().filter(|member| !member.is_ready()).map(|member| member.name));
    }
    if lacking.is_empty() {
        return Ok(format!("{count} of {count} have it"));
    }
    let names: Vec<String> = lacking.into_iter().collect();
    let detail = format!(
        "{} of {count} lack it, and fetch it at their first new computer: {}",
        names.len(),
        names.join(", ")
    );
    Err(EngineError::failed(STEP, detail))
}

/// Runs a check on a thread with a runtime of its own: its caller may be a task.
fn ask(check: impl Future<Output = EngineResult<String>> + Send + 'static) -> EngineResult<String> {
    const STEP: &str = "run a check of Incus";
    let failed = |error: std::io::Error| EngineError::failed(STEP, error);
    let run = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        runtime.block_on(check)
    };
    let thread = std::thread::Builder::new().name("incus check".to_owned()).spawn(run).map_err(failed)?;
    thread.join().unwrap_or_else(|_| Err(EngineError::failed(STEP, "the thread panicked")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_before_the_one_with_long_term_support_are_refused() {
        for (version, is_enough) in
            [("6.0.4", true), ("6.18", true), ("10", true), ("5.21", false), ("", false)]
        {
            assert_eq!(check_version(version).is_ok(), is_enough, "{version}");
        }
    }

    #[test]
    fn a_driver_is_tested_or_said_not_to_be() {
        for driver in DRIVERS {
            assert_eq!(describe_driver(driver).contains("untested"), driver != TESTED_DRIVER, "{driver}");
        }
        assert!(describe_driver(SHARED_DRIVER).contains("all members share"));
    }

    #[test]
    fn a_server_that_is_not_there_is_a_finding() {
        let settings = IncusSettings { url: "/nowhere/unix.socket".to_owned(), ..IncusSettings::default() };
        let host = HostSettings::new("/nowhere", "/nowhere", "/nowhere");
        let findings: Vec<_> = checks(&host, &settings).into_iter().map(Check::run).collect();
        assert_eq!(findings.len(), 6);
        assert!(findings.iter().all(|finding| !finding.ok && !finding.remedy.is_empty()), "{findings:?}");
    }
}
