//! Identity of a virtual machine that is restored from its own or another machine's memory.
//!
//! It sets what a host gives each machine at every boot: link address, machine-id and token. `POST /identity`
//! renews everything else.

use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use nix::libc;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use hotdesk_base::secret::Secret;

/// The guest's only network interface.
const INTERFACE: &str = "eth0";
/// Files that are staged for the guest's boot (`packaging/vm/init`). The first is mounted as
/// `/etc/machine-id`; a restarted agent reads the second.
const STAGED: &str = "/run/hotdesk";
const MACHINE_ID: &str = "machine-id";
const TOKEN: &str = "token";
/// Bytes of a link address; digits of a machine-id (machine-id(5)).
const MAC_BYTES: usize = 6;
const ID_DIGITS: usize = 32;

nix::ioctl_write_ptr_bad!(set_link_address, libc::SIOCSIFHWADDR, libc::ifreq);

/// Values that a host gives each of its machines.
#[derive(Clone, Debug)]
pub(super) struct MachineIdentity {
    mac: [u8; MAC_BYTES],
    machine_id: String,
    token: Secret,
}

impl MachineIdentity {
    /// Parses `<mac> <machine-id> <token>`, as the engine writes it.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (mac, rest) = text.split_once(' ')?;
        let (machine_id, token) = rest.split_once(' ')?;
        let mac: Option<Vec<u8>> = mac.split(':').map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
        let digits = machine_id.len() == ID_DIGITS && machine_id.bytes().all(|it| it.is_ascii_hexdigit());
        let whole = digits && !token.is_empty();
        whole.then_some(Self {
            mac: mac?.try_into().ok()?,
            machine_id: machine_id.to_owned(),
            token: Secret::new(token),
        })
    }

    /// Applies the identity to the running guest.
    pub(super) fn apply(&self) -> io::Result<()> {
        self.set_mac()?;
        self.write(Path::new(STAGED))
    }

    /// Writes in place, because the machine-id file is a mount source.
    fn write(&self, folder: &Path) -> io::Result<()> {
        std::fs::write(folder.join(MACHINE_ID), format!("{}\n", self.machine_id))?;
        std::fs::write(folder.join(TOKEN), self.token.reveal())
    }

    /// Sets the link address of the running interface; its addresses and routes stay (netdevice(7)).
    fn set_mac(&self) -> io::Result<()> {
        let mut address = libc::sockaddr { sa_family: libc::ARPHRD_ETHER, sa_data: [0; 14] };
        for (to, byte) in address.sa_data.iter_mut().zip(self.mac) {
            *to = byte.cast_signed();
        }
        let mut name = [0; libc::IFNAMSIZ];
        for (to, byte) in name.iter_mut().zip(INTERFACE.bytes()) {
            *to = byte.cast_signed();
        }
        let request =
            libc::ifreq { ifr_name: name, ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_hwaddr: address } };
        let any = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
        // SAFETY: the request is whole, and the kernel only reads it.
        #[allow(unsafe_code)]
        let set = unsafe { set_link_address(any.as_raw_fd(), &raw const request) };
        set.map(drop).map_err(io::Error::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl PartialEq for MachineIdentity {
        fn eq(&self, other: &Self) -> bool {
            (self.mac, &self.machine_id) == (other.mac, &other.machine_id)
                && self.token.matches(other.token.reveal())
        }
    }

    #[test]
    fn an_identity_is_whole_or_none() {
        let id = "0123456789abcdef0123456789abcdef";
        let identity = MachineIdentity::parse(&format!("52:00:0a:ff:10:01 {id} a-token")).unwrap();
        assert_eq!(identity.mac, [0x52, 0, 0x0a, 0xff, 0x10, 1]);
        let temp = tempfile::tempdir().unwrap();
        let says = |name: &str| std::fs::read_to_string(temp.path().join(name)).unwrap();
        for name in [MACHINE_ID, TOKEN] {
            let text = "that of another, and longer than the one that takes its place\n";
            std::fs::write(temp.path().join(name), text).unwrap();
        }
        identity.write(temp.path()).unwrap();
        assert_eq!((says(MACHINE_ID), says(TOKEN)), (format!("{id}\n"), "a-token".to_owned()));
        for bad in [
            String::new(),
            id.to_owned(),
            format!("52:00:0a:ff:10:01 {id}"),
            format!("52:00:0a:ff:10:01 {id} "),
            format!("52:00:0a:ff:10 {id} t"),
            format!("52:00:0a:ff:10:01:02 {id} t"),
            format!("52:00:0a:ff:10:zz {id} t"),
            format!("52:00:0a:ff:10:01 {} t", &id[1..]),
            format!("52:00:0a:ff:10:01 {}z t", &id[1..]),
        ] {
            assert!(MachineIdentity::parse(&bad).is_none(), "{bad}");
        }
    }
}
