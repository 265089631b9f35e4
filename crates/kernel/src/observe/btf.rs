// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The names in the kernel's type information (Documentation/bpf/btf.rst). It lists the functions
//! that programs may call, including those that exist only for programs.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom};

/// The kernel's type information (`CONFIG_DEBUG_INFO_BTF`).
const TYPES: &str = "/sys/kernel/btf/vmlinux";

/// A function that every BPF qdisc needs. It is only in kernels with `CONFIG_NET_SCH_BPF`
/// (net/sched/bpf_qdisc.c).
const DROPS: &str = "bpf_qdisc_skb_drop";

/// The part of `struct btf_header` (linux/btf.h) that is read here.
const HEADER: usize = 24;
const MAGIC: u16 = 0xeb9f;

/// Returns whether the kernel has BPF qdiscs and type information.
pub fn has_program_qdiscs() -> bool {
    File::open(TYPES)
        .and_then(names)
        .is_ok_and(|names| has(&names, DROPS))
}

/// Reads the names, each terminated by a NUL.
fn names(mut types: File) -> io::Result<Vec<u8>> {
    let mut header = [0; HEADER];
    types.read_exact(&mut header)?;
    let (start, length) = section(&header).ok_or(io::ErrorKind::InvalidData)?;
    types.seek(SeekFrom::Start(start))?;
    let mut names = Vec::new();
    types.take(length).read_to_end(&mut names)?;
    Ok(names)
}

/// Returns the offset of the names, and their length in bytes.
fn section(header: &[u8; HEADER]) -> Option<(u64, u64)> {
    let word = |at: usize| {
        let bytes = header.get(at..at + 4)?.try_into().ok()?;
        Some(u64::from(u32::from_ne_bytes(bytes)))
    };
    if u16::from_ne_bytes([header[0], header[1]]) != MAGIC {
        return None;
    }
    let (length, offset, size) = (word(4)?, word(16)?, word(20)?);
    Some((length + offset, size))
}

fn has(names: &[u8], name: &str) -> bool {
    // Search by whole names, because this has megabytes.
    let mut rest = names;
    while let Ok(other) = CStr::from_bytes_until_nul(rest) {
        let other = other.to_bytes();
        if other == name.as_bytes() {
            return true;
        }
        rest = &rest[other.len() + 1..];
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_whole() {
        let names = b"\0int\0bpf_qdisc_skb_drop\0xbpf_qdisc_init\0";
        assert!(has(names, DROPS));
        for other in ["bpf_qdisc_init", "bpf_qdisc_skb", "in", "ints"] {
            assert!(!has(names, other), "{other}");
        }
    }

    #[test]
    fn a_header_says_where_they_are() {
        let mut header = [0; HEADER];
        header[..2].copy_from_slice(&MAGIC.to_ne_bytes());
        for (at, word) in [(4, 24_u32), (8, 0), (12, 100), (16, 100), (20, 41)] {
            header[at..at + 4].copy_from_slice(&word.to_ne_bytes());
        }
        assert_eq!(section(&header), Some((124, 41)));
        header[0] = 0;
        assert_eq!(section(&header), None);
    }

    #[test]
    fn this_kernels_names_are_read_where_it_has_any() {
        if let Ok(types) = File::open(TYPES) {
            assert!(has(&names(types).unwrap(), "sk_buff"));
        }
    }
}
