// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The part of generic netlink that `mac80211_hwsim` needs.

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

const HEADERS: usize = 16 + 4;

/// A message: its command, and its attributes with their numbers.
#[derive(Debug, Default)]
pub struct Message {
    pub command: u8,
    pub attributes: Vec<(u16, Vec<u8>)>,
}

impl Message {
    pub fn new(command: u8) -> Self {
        Self {
            command,
            attributes: Vec::new(),
        }
    }

    pub fn with(mut self, number: u16, value: &[u8]) -> Self {
        self.attributes.push((number, value.to_owned()));
        self
    }

    pub fn get(&self, number: u16) -> Option<&[u8]> {
        let own = self.attributes.iter().find(|(own, _)| *own == number);
        own.map(|(_, value)| &**value)
    }

    fn bytes(&self, family: u16) -> Vec<u8> {
        let mut bytes = vec![0; 4];
        bytes.extend(family.to_ne_bytes());
        // NLM_F_REQUEST
        bytes.extend(1_u16.to_ne_bytes());
        bytes.extend([0; 8]);
        bytes.extend([self.command, 1, 0, 0]);
        for (number, value) in &self.attributes {
            bytes.extend((4 + value.len() as u16).to_ne_bytes());
            bytes.extend(number.to_ne_bytes());
            bytes.extend(value);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        let length = bytes.len() as u32;
        bytes[..4].copy_from_slice(&length.to_ne_bytes());
        bytes
    }

    /// Parses a message of the given family; returns `None` for one of another family.
    fn read(bytes: &[u8], family: u16) -> Option<Self> {
        let word = |at: usize| Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
        if word(4)? != family {
            return None;
        }
        let mut message = Self::new(*bytes.get(16)?);
        let mut at = HEADERS;
        while let (Some(length), Some(number)) = (word(at), word(at + 2)) {
            let value = bytes.get(at + 4..at + usize::from(length))?;
            message.attributes.push((number, value.to_owned()));
            at += usize::from(length).next_multiple_of(4);
        }
        Some(message)
    }
}

/// A socket of generic netlink.
pub struct Socket {
    file: OwnedFd,
    family: u16,
}

impl Socket {
    /// Opens a socket for the family with this name.
    pub fn to(name: &str) -> Self {
        #[expect(unsafe_code, reason = "netlink has no socket in the standard library")]
        // SAFETY: the descriptor is new, and nothing else owns it.
        let file = unsafe {
            let number = libc::socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_GENERIC);
            assert!(number >= 0, "{}", io::Error::last_os_error());
            OwnedFd::from_raw_fd(number)
        };
        // GENL_ID_CTRL, CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_NAME, CTRL_ATTR_FAMILY_ID
        let mut socket = Self { file, family: 16 };
        let name = [name.as_bytes(), &[0]].concat();
        socket.send(&Message::new(3).with(2, &name));
        let answer = socket.receive(1_000).expect("the family");
        let number = answer.get(1).expect("its number");
        socket.family = u16::from_ne_bytes(number.try_into().unwrap());
        socket
    }

    pub fn send(&self, message: &Message) {
        let bytes = message.bytes(self.family);
        #[expect(unsafe_code, reason = "netlink has no socket in the standard library")]
        // SAFETY: the pointer and the length are those of one slice.
        let sent =
            unsafe { libc::send(self.file.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) };
        assert_eq!(sent, bytes.len() as isize, "{}", io::Error::last_os_error());
    }

    /// Returns the next message of the family, if one arrives within `wait_ms` milliseconds.
    pub fn receive(&self, wait_ms: i32) -> Option<Message> {
        let mut poll = libc::pollfd {
            fd: self.file.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let mut room = vec![0_u8; 1 << 14];
        #[expect(unsafe_code, reason = "netlink has no socket in the standard library")]
        // SAFETY: there is one descriptor, and the buffer has the given length.
        let length = unsafe {
            if libc::poll(&raw mut poll, 1, wait_ms) < 1 {
                return None;
            }
            libc::recv(poll.fd, room.as_mut_ptr().cast(), room.len(), 0)
        };
        let bytes = room.get(..usize::try_from(length).ok()?)?;
        // An error message (NLMSG_ERROR) has no family.
        if bytes.get(4..6) == Some(&2_u16.to_ne_bytes()) {
            let code = bytes.get(HEADERS - 4..HEADERS)?;
            let code = i32::from_ne_bytes(code.try_into().ok()?);
            assert!(code == 0, "{}", io::Error::from_raw_os_error(-code));
        }
        Message::read(bytes, self.family)
    }
}
