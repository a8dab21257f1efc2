//! Checks of what a controller sends to the host helper, before any of it reaches an engine.

use std::time::Duration;

use uuid::Uuid;

use crate::remote::frames::MAX_DATA;
use crate::remote::protocol::{BootText, KeyText, SpecText};
use crate::{
    Boot, Change, EngineError, EngineResult, Extents, FileKey, MAX_LAYERS, MachineSpec, Offers, SavedFile,
};
use hotdesk_base::ids::{ComputerId, LayerId};
use hotdesk_base::secret::Secret;
use hotdesk_domain::computer::isolation::Isolation;
use hotdesk_domain::computer::template::network::egress::EgressPolicy;
use hotdesk_domain::error::Error;

/// Most vCPUs of a machine; no host has more.
const MAX_CPUS: f64 = 4096.0;
/// Most bytes of memory of a machine: the largest address space of processors today (5-level paging: 4 PiB).
const MAX_MEMORY: u64 = 4 << 50;
/// Most bytes of a disk or of a saved file: above the largest file of ext4 (16 TiB) and below that of XFS.
const MAX_FILE: u64 = 1 << 50;
/// Most megabits a second: ten times the fastest network card today.
const MAX_MBPS: u32 = 8_000_000;
/// Longest time for a guest to shut down. The controller gives 10 s.
const MAX_GRACE: Duration = Duration::from_secs(120);
/// Most characters of an agent's token. The controller's have 43.
const MAX_TOKEN: usize = 128;
/// Most characters of a file's name in a saved state.
const MAX_NAME: usize = 128;

/// The error for an argument that is not acceptable.
pub(super) fn refused(what: impl std::fmt::Display) -> EngineError {
    EngineError::failed("accept a request to the host helper", what)
}

fn check(holds: bool, what: impl FnOnce() -> String) -> EngineResult<()> {
    if holds { Ok(()) } else { Err(refused(what())) }
}

/// Checks that an isolation is offered.
pub(super) fn isolation(name: &str, offers: &Offers) -> EngineResult<Isolation> {
    let known = Isolation::parse(name);
    let isolation = known.ok_or_else(|| refused(format!("{name:?} is no isolation")))?;
    offers.require(isolation)?;
    Ok(isolation)
}

/// Checks the hardware of a machine, that its isolation is offered, and the number of its layers.
///
/// # Errors
/// `Failed`, naming the argument. So do all functions here.
pub(super) fn spec(text: &SpecText, offers: &Offers) -> EngineResult<MachineSpec> {
    let SpecText { id, cpu, memory_bytes, disk_bytes, bandwidth_mbps, ref layers, .. } = *text;
    let isolation = self::isolation(&text.isolation, offers)?;
    change(Change::Cpu(cpu))?;
    change(Change::Memory(memory_bytes))?;
    change(Change::Disk(disk_bytes))?;
    change(Change::Bandwidth(bandwidth_mbps))?;
    let layers = self::layers(layers)?;
    let (id, egress) = (ComputerId(id), egress(text.egress.as_deref())?);
    Ok(MachineSpec { id, isolation, cpu, memory_bytes, disk_bytes, bandwidth_mbps, layers, egress })
}

/// Checks the number of layers of a machine.
pub(super) fn layers(layers: &[Uuid]) -> EngineResult<Vec<LayerId>> {
    check(layers.len() <= MAX_LAYERS, || format!("{} layers are more than {MAX_LAYERS}", layers.len()))?;
    Ok(layers.iter().copied().map(LayerId).collect())
}

/// Checks that a list of programs is a text. Frames bound its length.
pub(super) fn list(data: Vec<u8>) -> EngineResult<String> {
    String::from_utf8(data).map_err(refused)
}

/// Checks an egress policy. Its networks and names become parts of packet rules.
pub(super) fn egress(text: Option<&str>) -> EngineResult<Option<EgressPolicy>> {
    text.map(str::parse).transpose().map_err(|error: Error| refused(error.message))
}

/// Checks a change of one dimension.
pub(super) fn change(change: Change) -> EngineResult<Change> {
    let holds = match change {
        Change::Cpu(cpu) => cpu.is_finite() && cpu > 0.0 && cpu <= MAX_CPUS,
        Change::Memory(bytes) => (1..=MAX_MEMORY).contains(&bytes),
        Change::Disk(bytes) => (1..=MAX_FILE).contains(&bytes),
        Change::Bandwidth(mbps) => mbps <= MAX_MBPS,
    };
    check(holds, || format!("{change:?} is out of range"))?;
    Ok(change)
}

/// Checks a boot. The token becomes the content of a file, and the resolution an argument of the guest's first process.
pub(super) fn boot(text: &BootText) -> EngineResult<Boot> {
    let BootText { generation, token, resolution } = text;
    // The store holds it as a signed number.
    check(i64::try_from(*generation).is_ok(), || format!("the generation {generation} is out of range"))?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let secret = token.reveal();
    let holds = (1..=MAX_TOKEN).contains(&secret.len()) && secret.bytes().all(plain);
    check(holds, || "the token is not one of letters and digits".to_owned())?;
    let resolution = resolution.parse().map_err(|_| refused(format!("{resolution:?} is no resolution")))?;
    Ok(Boot { generation: *generation, token: Secret::new(secret), resolution })
}

/// Checks a key of files.
pub(super) fn key(text: &KeyText) -> EngineResult<FileKey> {
    FileKey::parse(&text.0).ok_or_else(|| refused("a key that has not 128 hex digits"))
}

/// Checks the grace period of a stop.
pub(super) fn grace(milliseconds: u64) -> EngineResult<Duration> {
    let grace = Duration::from_millis(milliseconds);
    check(grace <= MAX_GRACE, || format!("a grace period of {grace:?} is over {MAX_GRACE:?}"))?;
    Ok(grace)
}

/// Checks the name of a file of a saved state: a plain name, or one in a folder, such as `memory/pages.img`.
pub(super) fn file_name(name: &str) -> EngineResult<()> {
    let plain = |part: &str| {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        !part.is_empty() && !part.starts_with('.') && part.bytes().all(allowed)
    };
    let parts = name.split('/');
    let holds = name.len() <= MAX_NAME && parts.clone().count() <= 2 && parts.into_iter().all(plain);
    check(holds, || format!("{name:?} is no name of a saved file"))
}

/// Checks the size of a piece of a saved file that is read.
pub(super) fn piece(most: u64) -> EngineResult<usize> {
    let bytes = usize::try_from(most).ok().filter(|bytes| *bytes <= MAX_DATA);
    bytes.ok_or_else(|| refused(format!("a piece of {most} bytes is over {MAX_DATA}")))
}

/// Checks a piece of a saved file that is written: extents that ascend, lie in the file and have the length of the data.
pub(super) fn extents(file: &SavedFile, places: Vec<(u64, u64)>, bytes: Vec<u8>) -> EngineResult<Extents> {
    file_name(&file.name)?;
    check(file.bytes <= MAX_FILE, || format!("a file of {} bytes is too long", file.bytes))?;
    let (mut end, mut total) = (0_u64, 0_u64);
    for (at, length) in &places {
        let next = at.checked_add(*length).filter(|next| *length > 0 && *at >= end && *next <= file.bytes);
        end = next.ok_or_else(|| refused(format!("an extent of {length} bytes at {at} is out of place")))?;
        total = total.saturating_add(*length);
    }
    check(u64::try_from(bytes.len()).is_ok_and(|length| length == total), || {
        format!("{} bytes of data for extents of {total}", bytes.len())
    })?;
    Ok(Extents { places, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Capabilities, Offer};

    fn a_machine() -> SpecText {
        let (memory_bytes, disk_bytes, isolation) = (1 << 30, 8 << 30, "shared".to_owned());
        let layers = Vec::new();
        let (id, egress) = (Uuid::nil(), None);
        SpecText { id, isolation, cpu: 0.5, memory_bytes, disk_bytes, bandwidth_mbps: 0, layers, egress }
    }

    fn offers(isolations: &[Isolation]) -> Offers {
        let offer = |isolation: &Isolation| Offer {
            isolation: *isolation,
            engine: "x",
            capabilities: Capabilities::ALL,
        };
        Offers::several(isolations.iter().map(offer).collect()).unwrap()
    }

    #[test]
    fn an_isolation_is_known_and_offered() {
        let several = offers(&[Isolation::Shared, Isolation::Sandbox]);
        for (isolation, offers, expected) in [
            ("shared", &several, true),
            ("sandbox", &several, true),
            ("vm", &several, false),
            ("runc", &several, false),
            ("", &several, false),
            // The only engine runs every machine.
            ("vm", &offers(&[Isolation::Shared]), true),
        ] {
            let text = SpecText { isolation: isolation.to_owned(), ..a_machine() };
            assert_eq!(spec(&text, offers).is_ok(), expected, "{isolation}");
        }
    }

    #[test]
    fn hardware_has_bounds() {
        let offers = offers(&[Isolation::Shared]);
        let spec = |text: &SpecText| spec(text, &offers);
        assert!(spec(&a_machine()).is_ok());
        for cpu in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e9] {
            assert!(spec(&SpecText { cpu, ..a_machine() }).is_err(), "{cpu}");
        }
        for bytes in [0, u64::MAX] {
            assert!(spec(&SpecText { memory_bytes: bytes, ..a_machine() }).is_err(), "{bytes}");
            assert!(spec(&SpecText { disk_bytes: bytes, ..a_machine() }).is_err(), "{bytes}");
        }
        assert!(spec(&SpecText { bandwidth_mbps: u32::MAX, ..a_machine() }).is_err());
        let with_layers = |count| spec(&SpecText { layers: vec![Uuid::nil(); count], ..a_machine() });
        assert!(with_layers(MAX_LAYERS).is_ok() && with_layers(MAX_LAYERS + 1).is_err());
    }

    #[test]
    fn a_list_of_programs_is_a_text() {
        assert_eq!(list(b"{}".to_vec()).unwrap(), "{}");
        assert!(list(vec![0xff]).is_err());
    }

    #[test]
    fn a_policy_has_destinations_alone() {
        let offers = offers(&[Isolation::Shared]);
        let with = |text: &str| spec(&SpecText { egress: Some(text.to_owned()), ..a_machine() }, &offers);
        let known = with("allow *.example.com 192.0.2.0/24").unwrap().egress.unwrap();
        assert_eq!(known.to_string(), "allow *.example.com 192.0.2.0/24");
        for bad in ["", "deny a.test", "allow a.test\" }", "allow 0.0.0.0/33", "allow @guests"] {
            assert!(with(bad).is_err() && egress(Some(bad)).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_boot_has_a_plain_token_and_a_resolution() {
        let text = |generation, token: &str, resolution: &str| {
            boot(&BootText { generation, token: Secret::new(token), resolution: resolution.to_owned() })
        };
        assert!(text(7, "a-Token_9", "1280x720x24").is_ok());
        for (generation, token, resolution) in [
            (u64::MAX, "a", "1280x720x24"),
            (1, "", "1280x720x24"),
            (1, "a\nb", "1280x720x24"),
            (1, &"a".repeat(MAX_TOKEN + 1), "1280x720x24"),
            (1, "a", "1280x720x24 --listen 0.0.0.0:1"),
            (1, "a", "1x1"),
        ] {
            let error = text(generation, token, resolution).unwrap_err();
            assert!(token.len() < 2 || !format!("{error:#}").contains(token), "{error:#}");
        }
    }

    #[test]
    fn a_key_has_its_length_and_is_not_printed() {
        let text = |digits: &str| key(&KeyText(Secret::new(digits)));
        assert!(text(&"0f".repeat(64)).is_ok());
        for wrong in ["", "0f", &"0f".repeat(63), &"0f".repeat(65), &"0g".repeat(64)] {
            let error = text(wrong).unwrap_err();
            assert!(wrong.is_empty() || !format!("{error:#}").contains(wrong), "{error:#}");
        }
    }

    #[test]
    fn names_lead_to_no_other_folder() {
        for name in ["disk.img", "memory/pages.img", "disk/note", "checkpoint_1-a"] {
            assert!(file_name(name).is_ok(), "{name}");
        }
        let long = "x".repeat(MAX_NAME + 1);
        for name in [
            "",
            ".",
            "..",
            "../x",
            "/etc/passwd",
            "memory/..",
            "memory//x",
            "a/b/c",
            ".x",
            "a\0b",
            "a b",
            "ä",
            &long,
        ] {
            assert!(file_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn data_lies_in_its_file() {
        let file = |bytes| SavedFile { name: "disk.img".to_owned(), bytes, allocated: 0, disk: true };
        assert!(extents(&file(9), Vec::new(), Vec::new()).is_ok());
        assert!(extents(&file(9), vec![(0, 1), (8, 1)], vec![0; 2]).is_ok());
        for (length, places, bytes) in [
            (9, vec![(9, 1)], 1),
            (9, vec![(0, 0)], 0),
            (9, vec![(u64::MAX, 2)], 2),
            (9, vec![(4, 2), (5, 1)], 3),
            (9, vec![(4, 1), (0, 1)], 2),
            (9, vec![(0, 1)], 2),
            (u64::MAX, vec![(0, 1)], 1),
        ] {
            assert!(extents(&file(length), places.clone(), vec![0; bytes]).is_err(), "{places:?}");
        }
        assert!(piece(4096).is_ok() && piece(u64::MAX).is_err());
        assert!(grace(10_000).is_ok() && grace(u64::MAX).is_err());
    }
}
